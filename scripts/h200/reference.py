#!/usr/bin/env python3
"""Holds penstock-exec against PyTorch/transformers on the same weights and the same tokens.

  reference.py weights CONFIG OUT.safetensors bf16|fp32       random weights, exact in that type, stored as fp32
  reference.py check CONFIG BF16_WEIGHTS ONE FP32_WEIGHTS MANY REPORT.json
                                                              loss and every gradient tensor, then the loss curve

ONE and MANY are what `penstock-exec run --dump FOLDER` leaves after one and after many steps. A gradient passes if its
relative error (Frobenius) against fp32 is at most the larger of 1e-2 and 1.5 times the error of PyTorch's own bf16 run;
the loss curve passes if no step is off by more than 1 % from fp32. PyTorch's curve with bf16 weights and an fp32 master,
which are our numerics, is given beside it. Gradients are compared from weights that bf16 holds exactly, so that only
the arithmetic differs. The curve must not start there: the forward sees weights rounded to bf16, and from exact ones the
first small updates would all round back, while from fp32 ones they show on average.
"""
import json
import os
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM


IGNORED = -100


def build(config_path, dtype):
    config = AutoConfig.for_model(**json.load(open(config_path)))
    config.dtype = dtype
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):  # initialising on the host takes minutes
        return AutoModelForCausalLM.from_config(config).to(dtype)


def make_weights(config_path, out, exact_in):
    torch.manual_seed(7)
    model = build(config_path, torch.float32)
    tensors = {}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and not name.endswith("bias"):
            value = 1.0 + 0.1 * torch.randn_like(parameter)
        else:
            value = 0.02 * torch.randn_like(parameter)
        value = value.detach()
        tensors[name] = (value.to(torch.bfloat16).float() if exact_in == "bf16" else value).contiguous().cpu()
    save_file(tensors, out)


def loaded(config_path, weights, dtype):
    model = build(config_path, dtype)
    missing, unexpected = model.load_state_dict(load_file(weights), strict=False)
    if unexpected or [m for m in missing if m != "lm_head.weight"]:
        raise SystemExit(f"{weights}: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.train()


class Rows:
    """What a step is trained on: inputs and labels [sequences, length], document starts of packed rows."""

    def __init__(self, inputs, labels, starts=None):
        self.inputs, self.labels, self.starts = inputs, labels, starts
        self.count = (labels != IGNORED).sum().item()

    def parts(self, micro_batch):
        for begin in range(0, self.inputs.shape[0], micro_batch):
            rows = slice(begin, begin + micro_batch)
            yield self.inputs[rows], self.labels[rows], self.extra(rows)

    def extra(self, rows):
        """Of packed rows: positions within documents, and a mask in which each document is alone."""
        if self.starts is None:
            return {}
        starts, place = self.starts[rows], torch.arange(self.inputs.shape[1], device=self.inputs.device)
        seen = (starts[:, :, None] == starts[:, None, :]) & (place[:, None] >= place[None, :])
        return {"position_ids": place - starts, "attention_mask": seen[:, None]}


def step_loss(model, rows, micro_batch):
    """Backpropagates the mean loss of one optimizer step's labels that count, micro-batch by micro-batch."""
    total = 0.0
    for inputs, labels, extra in rows.parts(micro_batch):
        if "attention_mask" in extra:  # as it is added to scores
            none = torch.zeros((), dtype=model.dtype, device=inputs.device)
            extra["attention_mask"] = torch.where(extra["attention_mask"], none, torch.finfo(model.dtype).min)
        logits = model(inputs, **extra).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED,
                                                 reduction="sum")
        (loss / rows.count).backward()
        total += loss.item()
    return total / rows.count


def gradients(model):
    return {name: p.grad.detach().float() for name, p in model.named_parameters() if p.grad is not None}


def relative(a, b):
    return ((a - b).norm() / b.norm().clamp_min(1e-30)).item()


def load_dump(folder):
    run = json.load(open(f"{folder}/run.json"))

    def read(name):
        values = numpy.fromfile(f"{folder}/{name}.i32", dtype="<i4").reshape(run["tokens_shape"])
        return torch.from_numpy(values.astype("int64")).cuda()

    tokens = read("tokens")
    if run["rows"] == "packed":
        return run, [Rows(*step) for step in zip(tokens, read("labels"), read("document_starts"))]
    return run, [Rows(step[:, :-1], step[:, 1:]) for step in tokens]


def loss_curve(config_path, weights, run, tokens, dtype):
    """AdamW with clipping on an fp32 master; forward and backward in dtype."""
    model = loaded(config_path, weights, dtype)
    stored = load_file(weights)
    pairs = []  # what computes, and its master
    for name, parameter in model.named_parameters():
        pairs.append((parameter, torch.nn.Parameter(stored[name].cuda().float())))
    masters = [master for _, master in pairs]
    optimizer = torch.optim.AdamW(masters, lr=run["learning_rate"], betas=(run["beta1"], run["beta2"]),
                                  eps=run["epsilon"], weight_decay=run["weight_decay"])
    curve = []
    for step in range(len(run["losses"])):
        model.zero_grad()
        curve.append(step_loss(model, tokens[step], run["micro_batch"]))
        for parameter, master in pairs:
            master.grad = parameter.grad.float()
        torch.nn.utils.clip_grad_norm_(masters, run["max_norm"])
        optimizer.step()
        with torch.no_grad():
            for parameter, master in pairs:
                parameter.copy_(master)
    return curve


def worst(ours, theirs):
    return max(abs(a - b) / b for a, b in zip(ours, theirs))


def check(config_path, weights, one, curve_weights, many, report_path):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    first, tokens = load_dump(one)
    ours = load_file(f"{one}/gradients.safetensors")
    micro_batch = first["micro_batch"]

    model = loaded(config_path, weights, torch.float32)
    loss32 = step_loss(model, tokens[0], micro_batch)
    exact = gradients(model)
    rows, bad = [], 0
    half = loaded(config_path, weights, torch.bfloat16)
    loss16 = step_loss(half, tokens[0], micro_batch)
    for name, gradient in gradients(half).items():
        theirs = relative(gradient, exact[name])
        mine = relative(ours[name].cuda().float().reshape(exact[name].shape), exact[name])
        passed = mine <= max(1e-2, 1.5 * theirs)
        bad += not passed
        rows.append({"tensor": name, "penstock": mine, "pytorch_bf16": theirs, "passed": passed})
    if set(ours) != set(exact):
        bad += 1
    del half, model

    run, tokens = load_dump(many)
    curve = loss_curve(config_path, curve_weights, run, tokens, torch.float32)
    mixed = loss_curve(config_path, curve_weights, run, tokens, torch.bfloat16)
    curve_error, mixed_error = worst(run["losses"], curve), worst(run["losses"], mixed)

    rows.sort(key=lambda r: -r["penstock"])
    report = {"loss_penstock": first["losses"][0], "loss_fp32": loss32, "loss_bf16": loss16, "gradients": rows,
              "gradients_failed": bad, "steps": len(curve), "curve_fp32": curve, "curve_penstock": run["losses"],
              "curve_bf16": mixed, "curve_error": curve_error, "curve_bf16_error": mixed_error,
              "passed": bad == 0 and curve_error <= 0.01}
    partial = f"{report_path}.{os.urandom(8).hex()}.tmp"
    with open(partial, "x") as file:  # whole or not at all
        json.dump(report, file, indent=1)
    os.replace(partial, report_path)
    print(f"{config_path}: loss {first['losses'][0]:.6f}, fp32 {loss32:.6f}, bf16 {loss16:.6f}; "
          f"{len(rows)} gradients, {bad} failed, worst {rows[0]['tensor']} {rows[0]['penstock']:.2e} "
          f"(PyTorch bf16 {rows[0]['pytorch_bf16']:.2e}); {len(curve)} steps, loss within {100 * curve_error:.3f} % of fp32, "
          f"{100 * mixed_error:.3f} % of PyTorch with bf16 weights and an fp32 master: "
          f"{'passed' if report['passed'] else 'FAILED'}")
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "weights" and sys.argv[4] in ("bf16", "fp32"):
        make_weights(*sys.argv[2:])
    elif len(sys.argv) == 8 and sys.argv[1] == "check":
        sys.exit(check(*sys.argv[2:]))
    else:
        sys.exit(__doc__)
