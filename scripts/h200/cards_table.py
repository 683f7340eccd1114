"""Lines of the table of scripts/h200/cards, from what its runs left in a folder. Exits with 1 if something misses.

cards_table.py adamw FOLDER                      AVX2 beside AVX-512: at least 85 %
cards_table.py saves FOLDER NAME PREDICTED       steps during a save: within 10 %, or no longer than said where training
                                                 waits for layers to be written, which the system may do later
cards_table.py pinned FOLDER WHOLE LIMITED       the same bits, and the step within 10 %
"""
import csv
import json
import pathlib
import sys


def run(folder, name):
    return json.load(open(folder / f"{name}.json"))


def compared(name, result):
    """Step, stall and stalls by cause of a run, predicted and measured."""
    c = result["comparison"]
    step, stall = c["step_seconds"], c["stall_seconds"]
    causes = ", ".join(f"{cause} {s['predicted']:.3f}/{s['measured']:.3f}"
                       for cause, s in c["stall_seconds_by_cause"].items() if max(s["predicted"], s["measured"]) >= 0.001)
    print(f"{name}: step {step['predicted']:.3f} s predicted, {step['measured']:.3f} s measured, error "
          f"{100 * c['step_error']:.1f} % (spread {100 * c['measured_spread']:.1f} %); stall {stall['predicted']:.3f}, "
          f"{stall['measured']:.3f} s, error {100 * c['stall_error']:.1f} % of the step; by cause, predicted/measured s: "
          f"{causes or 'none'}")
    return c["step_error"]


def adamw(folder):
    best = {}
    for target in ("avx2", "avx512"):
        rows = list(csv.reader(open(folder / f"adamw-{target}.csv")))
        column = rows[0].index("params/s")
        best[target] = max(float(row[column]) for row in rows if row[0] != "name")
    share = best["avx2"] / best["avx512"]
    print(f"adamw: AVX2 {best['avx2'] / 1e9:.3f}, AVX-512 {best['avx512'] / 1e9:.3f} G params/s: {100 * share:.1f} %")
    return share >= 0.85


def saves(folder, name, predicted_file):
    result, predicted = run(folder, name), json.load(open(predicted_file))
    compared(name, result)
    steps = {line["step"]: line["seconds"] for line in map(json.loads, open(folder / f"{name}.jsonl"))}
    fine = True
    for save in result["saves"]:
        # The steps that began while it was written. The first one begins with nothing left to do from the step before.
        during, written = [], save["write_seconds"]
        for step in range(save["step"] + 1, max(steps) + 1):
            if written <= 0:
                break
            during.append(steps[step])
            written -= steps[step]
        if not during:
            continue
        measured = sum(during) / len(during)
        expected = predicted["first_step_seconds"] + (len(during) - 1) * predicted["step_seconds"]
        if not save["copied"]:
            expected += save["expected_stall_seconds"]
        expected /= len(during)
        error = expected / measured - 1
        fine &= abs(error) <= 0.1 or not save["copied"] and error > 0
        print(f"  save of step {save['step']}, {save['bytes'] / 1e9:.1f} GB: written in {save['write_seconds']:.2f} s beside "
              f"{len(during)} steps of {'' if save['copied'] else 'at most '}{expected:.3f} s predicted, {measured:.3f} s measured ({100 * error:+.1f} %); training "
              f"waited {save['stall_seconds']:.3f} s, of that {save['waited_seconds']:.3f} for the save before; expected "
              f"{'' if save['copied'] else 'at most '}{save['expected_stall_seconds']:.3f}")
    return fine


def pinned(folder, whole_name, limited_name):
    whole, limited = run(folder, whole_name), run(folder, limited_name)
    compared(whole_name, whole)
    error = compared(limited_name, limited)
    same = [s["loss"] for s in whole["steps"]] == [s["loss"] for s in limited["steps"]]
    same &= [s["gradient_norm"] for s in whole["steps"]] == [s["gradient_norm"] for s in limited["steps"]]
    print(f"  losses and norms {'have the same bits' if same else 'DIFFER'}; predicted {100 * error:.1f} % off")
    return same and error <= 0.1


folder = pathlib.Path(sys.argv[2])
sys.exit(0 if {"adamw": adamw, "saves": saves, "pinned": pinned}[sys.argv[1]](folder, *sys.argv[3:]) else 1)
