"""What was done, for people: a short table, and rows coloured by mask."""

import sys
from collections import Counter
from dataclasses import dataclass, field

from .tokens import Tokenizer, Tokens


@dataclass
class Tally:
    """How often something happened, and where first."""

    count: int = 0
    first: str = ""

    def add(self, place: str, by: int = 1) -> None:
        self.first = self.first or place
        self.count += by


@dataclass
class InputReport:
    path: str
    weight: float
    formats: dict[str, None] = field(default_factory=dict)  # in the order in which they were met
    records: int = 0
    documents: int = 0
    tokens: int = 0
    trained: int = 0
    longest: int = 0
    unused_keys: Counter = field(default_factory=Counter)

    def add(self, document: Tokens) -> None:
        self.documents += 1
        self.tokens += len(document.ids)
        self.trained += sum(document.trained)
        self.longest = max(self.longest, len(document.ids))


@dataclass
class Report:
    inputs: list[InputReport] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def tally(self, what: str, place: str, by: int = 1) -> None:
        self.tallies.setdefault(what, Tally()).add(place, by)

    def print_table(self) -> None:
        rows = [("", "records", "documents", "tokens", "trained on", "longest")]
        for each in self.inputs:
            weight = "" if each.weight == 1 else f" x {each.weight:g}"
            rows.append((f"{each.path} ({', '.join(each.formats)}){weight}", *(f"{number:,}" for number in (
                each.records, each.documents, each.tokens, each.trained, each.longest))))
        if len(self.inputs) > 1:
            rows.append(("all", *(f"{number:,}" for number in (
                sum(each.records for each in self.inputs), sum(each.documents for each in self.inputs),
                sum(each.tokens for each in self.inputs), sum(each.trained for each in self.inputs),
                max(each.longest for each in self.inputs)))))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
            print("  ".join(cells).rstrip())
        for what, tally in self.tallies.items():
            print(f"{what}: {tally.count:,}, first {tally.first}")
        for each in self.inputs:
            if each.unused_keys:
                keys = ", ".join(f"{key} ({count:,})" for key, count in each.unused_keys.most_common(10))
                print(f"keys of {each.path} that play no part: {keys}")


def _visible(text: str) -> str:
    """Nothing in a text moves the cursor or changes the terminal."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def show_row(document: Tokens, tokenizer: Tokenizer, place: str) -> None:
    """What is trained on green, or between [[ and ]] where there are no colours."""
    out = sys.stdout
    begin, end = ("\033[32m", "\033[0m") if out.isatty() else ("[[", "]]")
    print(f"--- {place}: {len(document.ids):,} tokens, {sum(document.trained):,} trained on", file=out)
    at = 0
    while at < len(document.ids):
        stop = at + 1
        while stop < len(document.ids) and document.trained[stop] == document.trained[at]:
            stop += 1
        text = _visible(tokenizer.decode(document.ids[at:stop]))
        out.write(f"{begin}{text}{end}" if document.trained[at] else text)
        at = stop
    out.write("\n")
