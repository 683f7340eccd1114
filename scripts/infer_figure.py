#!/usr/bin/env python3
"""Finds the figure of a card or software file with which published rows are met.

  infer_figure.py BASE.toml ROWS FILE KEY UNIT LOW HIGH
  infer_figure.py scenarios/published/llmq.toml 4090-3b scenarios/cards/rtx4090.toml matmul TFLOP/s 100 200
  infer_figure.py A.toml,B.toml - scenarios/software/megatrain.toml cpu.grace.passes GB/s 10 200

ROWS are names in the rows file of BASE, with commas between, or - where the scenarios (with commas between) are the rows
themselves; they must be marked `calibrates` or `assumed`, so that no figure is made from what tests it. FILE is the card,
hardware or software file that they use, KEY one of its keys (the first line that begins with it, of its table where one is
named), UNIT the unit of its value or "" for a number; the figure is sought between LOW and HIGH.
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
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIM = os.path.join(ROOT, "build/release/penstock-sim")


def rows_of(base):
    """The rows file of a scenario, read; of one without: the row that it is itself."""
    with open(base, "rb") as file:
        published = tomllib.load(file)["published"]
    if "rows" not in published:
        return base, [{"name": os.path.basename(base)} | {f"published.{key}": value for key, value in published.items()}]
    rows_file = os.path.join(os.path.dirname(os.path.abspath(base)), published["rows"])
    with open(rows_file, newline="") as file:
        return rows_file, list(csv.DictReader(line for line in file if not line.startswith("#")))


def published_rows(bases, names):
    """Pairs of a scenario and one of its rows."""
    pairs = []
    for base in bases.split(","):
        rows_file, rows = rows_of(base)
        by_name = {row["name"]: row for row in rows}
        for name in list(by_name) if names == "-" else names.split(","):
            if name not in by_name:
                sys.exit(f"{rows_file}: there is no row '{name}'")
            if not by_name[name].get("published.calibrates") and not by_name[name].get("published.assumed"):
                sys.exit(f"{rows_file}: '{name}' is a test: no figure is made from it")
            pairs.append((base, by_name[name]))
    return pairs


def overrides(row, folder):
    for key, value in row.items():
        if key == "name" or key.startswith("published.") or not value:
            continue
        if value.startswith("../"):
            value = os.path.normpath(os.path.join(folder, value))
        yield from ("--set", f"{key}={value}")


def published_seconds(row, prediction):
    if row.get("published.step"):
        step, unit = row["published.step"].split()
        return float(step) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
    rate, unit = row["published.flops"].split()
    per_second = float(rate) * {"TFLOP/s": 1e12, "PFLOP/s": 1e15}[unit]
    return 6 * prediction["parameters"] * prediction["tokens_per_step"] / per_second


def quotients(pairs, file_key, path):
    for base, row in pairs:
        done = subprocess.run(
            [SIM, "simulate", base, *overrides(row, os.path.dirname(os.path.abspath(base))), "--set",
             f"{file_key}={path}", "--json", "--ignore-capacity"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        prediction = json.loads(done.stdout)
        yield prediction["step_seconds"] / published_seconds(row, prediction)


def figure_line(key, text):
    """Where the line `KEY = ...` is: of the whole file, or of the table before its last dot."""
    table, _, own = key.rpartition(".")
    start = re.search(rf"(?m)^\[{re.escape(table)}\]", text) if table else re.match("", text)
    end = re.compile(r"(?m)^\[").search(text, start.end()) if table and start else None
    line = re.compile(rf"(?m)^{re.escape(own)}\s*=.*$")
    return start and line.search(text, start.end(), end.start() if end else len(text))


def composed(pairs, card):
    """The hardware file of the rows, with that card, beside it."""
    names = set()
    for base, row in pairs:
        with open(base, "rb") as file:
            hardware = row.get("machine.hardware") or tomllib.load(file)["machine"]["hardware"]
        names.add(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(base)), hardware)))
    if len(names) > 1:
        sys.exit(f"the rows are of several machines: {', '.join(sorted(names))}")
    with open(names.pop()) as file:
        text = re.sub(r"(?m)^card = .*$", f'card = "{card}"', file.read())
    path = os.path.join(os.path.dirname(card), "composed.toml")
    with open(path, "w") as file:
        file.write(text)
    return path


def main():
    if len(sys.argv) != 8:
        sys.exit(__doc__)
    bases, names, file, key, unit, low, high = sys.argv[1:]
    low, high = float(low), float(high)
    pairs = published_rows(bases, names)
    with open(file) as source:  # its copy lies elsewhere
        text = re.sub(r'(?m)^memory_of = "(.*?)"',
                      lambda found: f'memory_of = "{os.path.join(os.path.dirname(os.path.abspath(file)), found[1])}"',
                      source.read())
    line = figure_line(key, text)
    if not line:
        sys.exit(f"{file}: has no line '{key} ='")
    kind = os.path.basename(os.path.dirname(os.path.abspath(file)))
    file_key = "machine.software" if kind == "software" else "machine.hardware"

    def mean_at(value, path):
        quantity = f'"{value:.6g} {unit}"' if unit else f"{value:.6g}"
        with open(path, "w") as changed:
            changed.write(f"{text[:line.start()]}{key.rpartition('.')[2]} = {quantity}{text[line.end():]}")
        by_row = list(quotients(pairs, file_key, composed(pairs, path) if kind == "cards" else path))
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
    for (_, row), quotient in zip(pairs, by_row):
        print(f"  {row['name']:40} {quotient:.3f}")


main()
