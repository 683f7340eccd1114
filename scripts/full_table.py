"""What one plan of scripts/h200/full or scripts/full-cpu did, in a few lines.

full_table.py NAME FOLDER CHECKPOINT_BYTES SECONDS_TO_SAVED SECONDS_TO_RESUMED: reads FOLDER/NAME.json and
FOLDER/NAME-resumed.json, as `penstock-exec run --json` printed them. Exits with 1 if a tier was filled to less than 95 %
of what is usable, or the resumed run did not go on from the saved step.
"""
import json
import sys

GIB = 2**30


def main():
    name, folder, checkpoint, to_saved, to_resumed = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:6])
    run = json.load(open(f"{folder}/{name}.json"))
    try:
        resumed = json.load(open(f"{folder}/{name}-resumed.json"))
    except (OSError, ValueError):
        resumed = None
    c = run["comparison"]
    fill = [(m["tier"], m["arena_bytes"], m["usable_bytes"]) for m in run["memory"] if m["usable_bytes"] > 0]
    print(f"{name}: " + ", ".join(f"{tier} {arena / GIB:.2f} of {usable / GIB:.2f} GiB usable ({100 * arena / usable:.1f} %)"
                                  for tier, arena, usable in fill))
    beside = run["beside_arenas"]
    print(f"  beside the arenas: host {beside['host_bytes'] / GIB:.2f} GiB ({beside['host_counted_bytes'] / GIB:.2f} counted), "
          f"GPU {beside['gpu_bytes'] / 2**20:.0f} MiB")
    step, stall = c["step_seconds"], c["stall_seconds"]
    print(f"  step {step['predicted']:.3f} s predicted, {step['measured']:.3f} s measured, error {100 * c['step_error']:.2f} %; "
          f"spread {100 * c['measured_spread']:.1f} % of {c['measured_periods']} periods")
    causes = ", ".join(f"{cause} {s['predicted']:.3f}/{s['measured']:.3f}" for cause, s in c["stall_seconds_by_cause"].items()
                       if max(s["predicted"], s["measured"]) >= 0.001)
    print(f"  stall {stall['predicted']:.3f} s predicted, {stall['measured']:.3f} s measured, error {100 * c['stall_error']:.2f} %; "
          f"predicted/measured by cause, s: {causes}")
    last = run["steps"][-1]["step"]
    went_on = resumed is not None and resumed["steps"][0]["step"] == last + 1
    print(f"  {len(run['steps'])} steps, saved ({checkpoint / 1e9:.1f} GB) after {to_saved:.0f} s; "
          + (f"resumed at step {last + 1}, loss {resumed['steps'][0]['loss']:.4f}, in {to_resumed:.0f} s" if went_on
             else "NOT RESUMED"))
    short = [tier for tier, arena, usable in fill if arena < 0.95 * usable]
    if short:
        print(f"  NOT FULL: {', '.join(short)}")
    sys.exit(0 if went_on and not short else 1)


main()
