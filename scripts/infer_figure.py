#!/usr/bin/env python3
"""Finds the figure of a card or software file with which published rows are met.

  infer_figure.py BASE.toml ROWS FILE KEY UNIT LOW HIGH
  infer_figure.py scenarios/published/llmq.toml 4090-3b scenarios/cards/rtx4090.toml matmul TFLOP/s 100 200

ROWS are names in the rows file of BASE, with commas between; they must be marked `calibrates` or `assumed`, so that no
figure is made from what tests it. FILE is the card, hardware or software file that they use, KEY one of its keys (the first
line that begins with it), UNIT the unit of its value or "" for a number; the figure is sought between LOW and HIGH.
Prints it, where the geometric mean of predicted over published is 1, and each row's quotient with it. Needs
build/release/penstock-sim.
"""
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIM = os.path.join(ROOT, "build/release/penstock-sim")


def published_rows(base, names):
    with open(base) as file:
        rows_file = re.search(r'^rows\s*=\s*"(.*)"', file.read(), re.M).group(1)
    folder = os.path.dirname(os.path.abspath(base))
    with open(os.path.join(folder, rows_file), newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    for name in names:
        if name not in rows:
            sys.exit(f"{rows_file}: there is no row '{name}'")
        if not rows[name].get("published.calibrates") and not rows[name].get("published.assumed"):
            sys.exit(f"{rows_file}: '{name}' is a test: no figure is made from it")
    return [rows[name] for name in names]


def overrides(row, folder):
    for key, value in row.items():
        if key == "name" or key.startswith("published.") or not value:
            continue
        if value.startswith("../"):
            value = os.path.normpath(os.path.join(folder, value))
        yield from ("--set", f"{key}={value}")


def quotients(base, rows, file_key, path):
    folder = os.path.dirname(os.path.abspath(base))
    for row in rows:
        done = subprocess.run(
            [SIM, "simulate", base, *overrides(row, folder), "--set", f"{file_key}={path}", "--json",
             "--ignore-capacity"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        step, unit = row["published.step"].split()
        published = float(step) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
        yield json.loads(done.stdout)["step_seconds"] / published


def composed(base, rows, card):
    """The hardware file of the rows, with that card, beside it."""
    with open(base) as file:
        hardware = re.search(r'^hardware\s*=\s*"(.*)"', file.read(), re.M).group(1)
    names = {row.get("machine.hardware") or hardware for row in rows}
    if len(names) > 1:
        sys.exit(f"the rows are of several machines: {', '.join(sorted(names))}")
    with open(os.path.join(os.path.dirname(os.path.abspath(base)), names.pop())) as file:
        text = re.sub(r"(?m)^card = .*$", f'card = "{card}"', file.read())
    path = os.path.join(os.path.dirname(card), "composed.toml")
    with open(path, "w") as file:
        file.write(text)
    return path


def main():
    if len(sys.argv) != 8:
        sys.exit(__doc__)
    base, names, file, key, unit, low, high = sys.argv[1:]
    low, high = float(low), float(high)
    rows = published_rows(base, names.split(","))
    with open(file) as source:
        text = source.read()
    line = re.compile(rf"^{re.escape(key)}\s*=.*$", re.M)
    if not line.search(text):
        sys.exit(f"{file}: has no line that begins with '{key} ='")
    kind = os.path.basename(os.path.dirname(os.path.abspath(file)))
    file_key = "machine.software" if kind == "software" else "machine.hardware"

    def mean_at(value, path):
        quantity = f'"{value:.6g} {unit}"' if unit else f"{value:.6g}"
        with open(path, "w") as changed:
            changed.write(line.sub(f"{key} = {quantity}", text, count=1))
        by_row = list(quotients(base, rows, file_key, composed(base, rows, path) if kind == "cards" else path))
        return math.exp(sum(map(math.log, by_row)) / len(by_row)), by_row

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(file))
        above, _ = mean_at(low, path)
        below, _ = mean_at(high, path)
        if (above - 1) * (below - 1) > 0:
            sys.exit(f"between {low:g} and {high:g} the rows are predicted {above:.3f} to {below:.3f} times as long as published")
        for _ in range(12):
            middle = math.sqrt(low * high)
            mean, by_row = mean_at(middle, path)
            if (mean > 1) == (above > 1):
                low = middle
            else:
                high = middle
    print(f"{key} = {middle:.4g} {unit}")
    for row, quotient in zip(rows, by_row):
        print(f"  {row['name']:40} {quotient:.3f}")


main()
