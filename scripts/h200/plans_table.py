"""Table of scripts/h200/plans: how far the runs in a folder were predicted off. Exits with 1 where the median or the
maximum of a column is beyond what is asked for, or a run is missing.

plans_table.py FOLDER NAME...

Steps and classes of ops: (predicted - measured) / measured; the optimizer's are those of its lane of the host, if it has
one. Stalls: share of the measured step.
"""
import json
import pathlib
import statistics
import sys

# Of the sizes of errors: median, maximum.
ASKED = {"step": (0.01, 0.03), "stall": (None, 0.02), "forward": (None, 0.04), "loss": (None, 0.04), "backward": (None, 0.04),
         "optimizer": (None, 0.04)}


def relative(pair):
    return pair["predicted"] / pair["measured"] - 1 if pair["measured"] > 0 else None


def errors(comparison):
    """By column; None: the run has no such ops."""
    phases = comparison["compute_seconds_by_phase"]
    step, stall = comparison["step_seconds"], comparison["stall_seconds"]
    row = {"step": relative(step), "stall": (stall["predicted"] - stall["measured"]) / step["measured"]}
    row |= {phase: relative(phases[phase]) if phase in phases else None for phase in ("forward", "loss", "backward")}
    host = [lane["busy_seconds"] for lane in comparison["lanes"] if lane["lane"] == "adam"]
    row["optimizer"] = relative(host[0] if host else phases.get("optimizer", {"measured": 0}))
    return row


def shown(error):
    return "-" if error is None else f"{100 * error:+.2f} %"


def main():
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    rows, missing = {}, []
    for name in names:
        file = folder / name / "comparison.json"
        if file.exists():
            rows[name] = json.load(open(file))
        else:
            missing.append(name)
    width = max([len(name) for name in names] + [8])
    print(f"{'':{width}}" + "".join(f"{column:>11}" for column in ASKED) + "     measured      spread")
    found = {column: [] for column in ASKED}
    for name, comparison in rows.items():
        row = errors(comparison)
        for column, error in row.items():
            if error is not None:
                found[column].append(abs(error))
        print(f"{name:{width}}" + "".join(f"{shown(row[column]):>11}" for column in ASKED) +
              f"{comparison['step_seconds']['measured']:>11.3f} s{100 * comparison['measured_spread']:>10.2f} %")
    fine = not missing
    for which, (title, of) in enumerate((("median", statistics.median), ("maximum", max))):
        values = {column: of(sizes) if sizes else None for column, sizes in found.items()}
        print(f"{title:{width}}" + "".join(f"{'-' if v is None else f'{100 * v:.2f} %':>11}" for v in values.values()))
        for column, value in values.items():
            asked = ASKED[column][which]
            if asked is not None and value is not None and value > asked:
                print(f"{title} error of {column} is {100 * value:.2f} %, asked for are {100 * asked:.0f} %")
                fine = False
    if missing:
        print(f"not run: {', '.join(missing)}")
    return fine


sys.exit(0 if main() else 1)
