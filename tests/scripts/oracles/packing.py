"""The rows that penstock-exec trains on, held against a reading of the rule in docs/token_file.md of our own.

  packing.py PENSTOCK_EXEC SOURCE_FOLDER

Writes a file of random documents, has them trained on for two epochs, and looks at what `run --dump` says was trained on.
"""

import array
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

ROW, ROWS_PER_STEP, IGNORED = 32, 4, -100
REFUSE, TRUNCATE, SPLIT = 0, 1, 2

SCENARIO = """
[model]
config = "{source}/scenarios/models/tiny-qwen3.json"
[machine]
hardware = "{source}/scenarios/hardware/this-cpu.toml"
[workload]
sequence_length = {row}
sequences = {rows}
micro_batch = 2
[policy]
name = "megatrain"
[run]
backend = "host"
steps = {steps}
warmup_steps = 0
data = "some.tokens"
"""


def some_documents(draw):
    """(ids, trained, what is done if it is longer than a row)"""
    documents = []
    for _ in range(120):
        length = draw.choice([draw.randint(2, 12), draw.randint(13, ROW + 1), draw.randint(ROW + 2, 100)])
        share = draw.choice([0, 0.1, 0.5, 1])
        trained = [0] + [int(draw.random() < share) for _ in range(length - 1)]
        rule = draw.choice([TRUNCATE, SPLIT]) if length > ROW + 1 else REFUSE
        documents.append(([draw.randrange(256) for _ in range(length)], trained, rule))
    return documents


def pieces_of(documents):
    """What takes places in a row: pairs of tokens and labels."""
    pieces = []
    for ids, trained, rule in documents:
        labels = [token if counts else IGNORED for token, counts in zip(ids[1:], trained[1:])]
        places = list(zip(ids, labels))
        parts = [places[at:at + ROW] for at in range(0, len(places), ROW)]
        pieces += parts if rule == SPLIT else parts[:1]
    return [tuple(piece) for piece in pieces if any(label != IGNORED for _, label in piece)]


def best_fit(lengths):
    """Longest first, each into the fullest row that has room for it."""
    rows = []
    for length in sorted(lengths, reverse=True):
        fitting = [row for row in rows if sum(row) + length <= ROW]
        if fitting:
            max(fitting, key=sum).append(length)
        else:
            rows.append([length])
    return rows


def read(folder, name, shape):
    values = array.array("i")
    with open(os.path.join(folder, name), "rb") as file:
        values.frombytes(file.read())
    steps, rows, width = shape
    assert len(values) == steps * rows * width, (name, len(values), shape)
    return [values[at:at + width] for at in range(0, len(values), width)]


def documents_of(tokens, labels, starts):
    """Of one row, what is behind the last document left out."""
    found = []
    for start in sorted(set(starts)):
        places = [place for place in range(ROW) if starts[place] == start]
        assert places == list(range(start, start + len(places))), (start, places)
        document = tuple((tokens[place], labels[place]) for place in places)
        if any(label != IGNORED for _, label in document):
            found.append(document)
        else:
            assert places[-1] == ROW - 1 and all(token == 0 for token, _ in document), document
    return found


def main(program, source):
    program = os.path.abspath(program)
    sys.path.insert(0, os.path.join(source, "scripts"))
    from prepare_data.token_file import TokenFileWriter
    from prepare_data.tokens import Tokens

    documents = some_documents(random.Random(20))
    pieces = pieces_of(documents)
    rows = best_fit([len(piece) for piece in pieces])
    steps = -(-2 * len(rows) // ROWS_PER_STEP)
    with tempfile.TemporaryDirectory() as folder:
        writer = TokenFileWriter(os.path.join(folder, "some.tokens"), 256, ROW, "made up", 0)
        for ids, trained, rule in documents:
            writer.add(Tokens(ids, bytes(trained)), rule)
        writer.commit()
        with open(os.path.join(folder, "s.toml"), "w") as file:
            file.write(SCENARIO.format(source=source, row=ROW, rows=ROWS_PER_STEP, steps=steps))
        subprocess.run([program, "run", "s.toml", "--dump", "dump"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        dump = os.path.join(folder, "dump")
        shape = json.load(open(os.path.join(dump, "run.json")))["tokens_shape"]
        read_rows = [documents_of(*row) for row in zip(*(read(dump, name, shape) for name in
                                                         ("tokens.i32", "labels.i32", "document_starts.i32")))]
    epochs = [read_rows[at:at + len(rows)] for at in (0, len(rows))]
    for epoch in epochs:
        trained = collections.Counter(document for row in epoch for document in row)
        assert trained == collections.Counter(pieces), "an epoch has every document once"
        # Which of two rows that are equally full takes a document is open; how full rows become is not.
        filled = collections.Counter(sum(map(len, row)) for row in epoch)
        assert filled == collections.Counter(map(sum, rows)), "rows are packed by best fit"
    assert epochs[0] != epochs[1], "another order in each epoch"
    print(f"{len(documents)} documents, {len(pieces)} pieces in {len(rows)} rows, two epochs: as by the rule")


if __name__ == "__main__":
    main(*sys.argv[1:])
