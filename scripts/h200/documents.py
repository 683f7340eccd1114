#!/usr/bin/env python3
"""Makes a token file for runs that time or check packed rows.

  documents.py OUT.tok VOCABULARY ROW TOKENS SEED [FLAT.bin] [--behind TOKENS]

Documents of 50 to 2,000 tokens, uniform in the logarithm, at least TOKENS in all. Their turns of 10 to 200 tokens are
trained on by turns; the first is not. A token of the whole vocabulary has four successors, so that there is something to
learn, and matrix units are as busy as with a text. FLAT.bin gets the same tokens as one text without masks, as llm.c
writes it. --behind leaves out the documents that a file of so many TOKENS has, so that OUT.tok is held out from that.
"""
import argparse
import array
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from prepare_data.token_file import REFUSE, TokenFileWriter
from prepare_data.tokens import Tokens


def loss_bits(chance, length):
    bits = bytearray()
    while len(bits) < length:
        bits += bytes([bool(bits) and not bits[-1]]) * chance.randrange(10, 200)
    return bytes(bits[:length])


def write(out, vocabulary, row, tokens, seed, flat, behind):
    chance = random.Random(seed)
    successors = [chance.choices(range(vocabulary), k=4) for _ in range(vocabulary)]
    writer = TokenFileWriter(out, vocabulary, row, "made", 0)
    documents, left_out, text = 0, 0, array.array("I")
    while writer.tokens < tokens:
        ids = [chance.randrange(vocabulary)]
        for _ in range(int(math.exp(chance.uniform(math.log(50), math.log(2000)))) - 1):
            ids.append(chance.choice(successors[ids[-1]]))
        trained = loss_bits(chance, len(ids))
        if any(trained) and left_out < behind:
            left_out += len(ids)
        elif any(trained):
            writer.add(Tokens(ids, trained), REFUSE)
            text.extend(ids)
            documents += 1
    writer.commit()
    if flat:
        with open(flat, "wb") as file:
            array.array("i", [20240801, 7, len(text)] + [0] * 253).tofile(file)
            text.tofile(file)
    print(f"{out}: {documents} documents, {writer.tokens} tokens, {writer.trained} of them trained on")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    for number in ("vocabulary", "row", "tokens", "seed"):
        parser.add_argument(number, type=int)
    parser.add_argument("flat", nargs="?")
    parser.add_argument("--behind", type=int, default=0)
    given = parser.parse_args()
    write(given.out, given.vocabulary, given.row, given.tokens, given.seed, given.flat, given.behind)


if __name__ == "__main__":
    main()
