"""What scripts/finetune-demo came to, with exit code 1 if that is not right.

  result.py before FOLDER   the loss of plain English text is that of a trained model
  result.py after FOLDER    the loss of chats that were held out has fallen by a tenth
  result.py losses FOLDER   all three: of the text, and of the chats before and after
"""

import json
import re
import sys

MOST_BEFORE = 3.5  # nats; rows of q and k in another order give 4.6


def english_loss(folder):
    return json.load(open(f"{folder}/english.json"))["evaluations"][0]["loss"]


def held_out_losses(folder):
    """Before training and after it."""
    losses = [line["eval_loss"] for line in map(json.loads, open(f"{folder}/metrics.jsonl")) if "eval_loss" in line]
    return losses[0], losses[-1]


def main(when, folder):
    if when == "losses":
        print(english_loss(folder), *held_out_losses(folder))
    elif when == "before":
        english = english_loss(folder)
        print(f"loss of english.txt: {english:.3f} nats; below {MOST_BEFORE} is asked for")
        if not english < MOST_BEFORE:
            sys.exit("scripts/finetune-demo: the weights are not what they were")
    else:
        before, after = held_out_losses(folder)
        print(f"loss of the chats that were held out: {before:.3f} nats before, {after:.3f} after, "
              f"{100 * (1 - after / before):.0f} % less")
        text = open(f"{folder}/run.txt").read()
        measured, predicted = (re.search(rf"^{word} +([\d.]+ \w+)", text, re.M) for word in ("steady step", "predicted"))
        print(f"step: {predicted[1] if predicted else 'not'} predicted, {measured[1] if measured else 'not'} measured")
        if not after < 0.9 * before:
            sys.exit("scripts/finetune-demo: a tenth less would be right")


if __name__ == "__main__":
    main(*sys.argv[1:])
