"""What scripts/finetune-demo came to, with exit code 1 if that is not right.

  result.py before FOLDER   the loss of plain English text is that of a trained model
  result.py after FOLDER    the loss of chats that were held out has fallen by a tenth
"""

import json
import re
import sys

MOST_BEFORE = 3.5  # nats; rows of q and k in another order give 4.6


def loss(folder, name):
    return json.load(open(f"{folder}/{name}.json"))["steps"][0]["loss"]


def main(when, folder):
    if when == "before":
        english = loss(folder, "english")
        print(f"loss of english.txt: {english:.3f} nats; of the chats that are held out: {loss(folder, 'before'):.3f}")
        if not english < MOST_BEFORE:
            sys.exit(f"scripts/finetune-demo: less than {MOST_BEFORE} would be right: the weights are not what they were")
        return
    before, after = loss(folder, "before"), loss(folder, "after")
    print(f"loss of the chats that were held out: {before:.3f} nats before, {after:.3f} after, {100 * (1 - after / before):.0f} % less")
    text = open(f"{folder}/run.txt").read()
    measured, predicted = (re.search(rf"^{word} +([\d.]+ \w+)", text, re.M) for word in ("steady step", "predicted"))
    print(f"step: {predicted[1] if predicted else 'not'} predicted, {measured[1] if measured else 'not'} measured")
    if not after < 0.9 * before:
        sys.exit("scripts/finetune-demo: a tenth less would be right")


if __name__ == "__main__":
    main(*sys.argv[1:])
