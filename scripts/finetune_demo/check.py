"""What transformers makes of a model's folder, held against Penstock.

  check.py FOLDER TOKENS [--checkpoint FOLDER] [--loss NATS] [--within SHARE]

Loads FOLDER as anybody would, and computes the loss of the documents of a token file, each by itself, over the tokens
that are trained on. With --checkpoint: the logits are those, bit for bit, of the checkpoint's fp32 master rounded to the
folder's type. With --loss: that is the loss, to the share given (1e-2).
Exit codes: 0 equal, 1 not.
"""

import argparse
import os
import struct
import sys

import numpy
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

_HEADER = struct.Struct("<8sII4Q2I2Q48sQ")  # docs/token_file.md


def read_documents(path):
    """Pairs of ids and of whether each is trained on."""
    data = open(path, "rb").read()
    (magic, version, id_bytes, tokens, documents, _, _, _, name_bytes, _, _, _, _) = _HEADER.unpack_from(data)
    if magic != b"\x89PTOK\r\n\x1a" or version != 1:
        sys.exit(f"{path}: is no token file of version 1")
    at = 128
    sections = []
    for size in (name_bytes, tokens * id_bytes, (tokens + 7) // 8, documents * 8):
        sections.append(data[at:at + size])
        at += -(-size // 64) * 64
    ids = numpy.frombuffer(sections[1], f"<u{id_bytes}").astype("int64")
    trained = numpy.unpackbits(numpy.frombuffer(sections[2], "u1"), bitorder="little")[:tokens].astype(bool)
    starts = [int(start) for start in numpy.frombuffer(sections[3], "<u8")] + [tokens]
    return [(ids[begin:end], trained[begin:end]) for begin, end in zip(starts, starts[1:])]


def logits_of(model, ids):
    with torch.inference_mode():
        return model(torch.from_numpy(ids)[None]).logits[0].float()


def mean_loss(model, documents):
    total, count = 0.0, 0
    for ids, trained in documents:
        labels = torch.from_numpy(numpy.where(trained, ids, -100))[1:]
        total += torch.nn.functional.cross_entropy(logits_of(model, ids)[:-1], labels, reduction="sum").item()
        count += int((labels >= 0).sum())
    return total / count


def load_master(model, checkpoint):
    """The checkpoint's states in place of the model's weights."""
    with safe_open(os.path.join(checkpoint, "optimizer.safetensors"), "pt") as states, torch.no_grad():
        names = {name.removeprefix("master.") for name in states.keys() if name.startswith("master.")}
        own = dict(model.named_parameters())
        if names != set(own):
            sys.exit(f"{checkpoint}: has other tensors than the model: {sorted(names ^ set(own))[:4]}")
        for name, parameter in own.items():
            parameter.copy_(states.get_tensor("master." + name).reshape(parameter.shape))  # rounds to nearest even


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("tokens")
    parser.add_argument("--checkpoint")
    parser.add_argument("--loss", type=float)
    parser.add_argument("--within", type=float, default=1e-2)
    given = parser.parse_args()
    documents = read_documents(given.tokens)
    passed = True

    tokenizer = AutoTokenizer.from_pretrained(given.folder)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "What is 2 + 2?"}], tokenize=False,
                                         add_generation_prompt=True)
    print(f"transformers loads the tokenizer of {len(tokenizer)} tokens; its chat template ends a prompt with "
          f"{text.splitlines()[-1]!r}")
    model = AutoModelForCausalLM.from_pretrained(given.folder, dtype="auto")
    print(f"transformers loads {sum(p.numel() for p in model.parameters()):,} parameters in {model.dtype}")
    if given.checkpoint:
        other = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype)
        load_master(other, given.checkpoint)
        same = all(torch.equal(logits_of(model, ids), logits_of(other.eval(), ids)) for ids, _ in documents[:8])
        print(f"logits of {min(8, len(documents))} documents against the checkpoint's master: "
              f"{'equal, bit for bit' if same else 'NOT equal'}")
        passed &= same
    loss = mean_loss(model.float(), documents)
    print(f"loss of {given.tokens} in transformers, fp32: {loss:.4f} nats")
    if given.loss is not None:
        close = abs(loss - given.loss) <= given.within * loss
        print(f"Penstock's: {given.loss:.4f} nats, {100 * abs(loss - given.loss) / loss:.2f} % off"
              f"{'' if close else ', NOT within ' + format(100 * given.within, '.3g') + ' %'}")
        passed &= close
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
