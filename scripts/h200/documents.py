#!/usr/bin/env python3
"""Writes a token file of documents whose lengths are uniform in the logarithm, of whose tokens two thirds are trained on.

  PYTHONPATH=scripts scripts/python scripts/h200/documents.py OUT VOCABULARY SHORTEST LONGEST TOKENS text|random

text: bytes of docs/*.md, which can be learnt; random: ids of the whole vocabulary, which cannot, and keep the matrix
units as busy as real ones. The seed is fixed. What scripts/h200/packed trains on; made where there is a network.
"""
import glob
import random
import sys

from prepare_data.token_file import REFUSE, TokenFileWriter
from prepare_data.tokens import Tokens


def main(out, vocabulary, shortest, longest, tokens, kind):
    numbers = random.Random(3)
    text = b"".join(open(path, "rb").read() for path in sorted(glob.glob("docs/*.md"))) if kind == "text" else b""
    writer = TokenFileWriter(out, vocabulary, longest - 1, kind, 1)
    try:
        while writer.tokens < tokens:
            length = int(shortest * (longest / shortest) ** numbers.random())
            if kind == "text":
                begin = numbers.randrange(len(text) - length)
                ids = list(text[begin : begin + length])
            else:
                ids = [numbers.randrange(vocabulary) for _ in range(length)]
            writer.add(Tokens(ids, bytes(3 * i > length for i in range(length))), REFUSE)
        print(f"{out}: {writer.commit()} bytes, {writer.tokens} tokens")
    finally:
        writer.discard()


if __name__ == "__main__":
    if len(sys.argv) != 7 or sys.argv[6] not in ("text", "random"):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6])
