#!/usr/bin/env python3
"""Holds penstock-exec against PyTorch/transformers on the same weights and the same tokens.

  reference.py weights CONFIG FOLDER     random weights, bf16.safetensors and fp32.safetensors: exact in that type, stored as fp32
  reference.py check CONFIG BF16_WEIGHTS ONE FP32_WEIGHTS MANY REPORT.json
                                                              loss and every gradient tensor, then the loss curve

On the GPU; where there is none, to try it with a small model, on the CPU. ONE and MANY are what `penstock-exec run --dump FOLDER` leaves after one and after many steps. A gradient passes if its
relative error (Frobenius) against fp32 is at most the larger of 1e-2 and 1.5 times the error of PyTorch's own bf16 run;
the loss curve passes if no step is off by more than 1 % from fp32. PyTorch's curve with bf16 weights and an fp32 master,
which are our numerics, is given beside it. Gradients are compared from weights that bf16 holds exactly, so that only
the arithmetic differs. A mixture of experts is given our tokens' experts for that, since near ties fall otherwise in bf16; how
many tokens would have chosen otherwise is reported. Packed rows are given to PyTorch as a mask and positions, made from where documents begin. The
curve must not start there: the forward sees weights rounded to bf16, and from exact ones the
first small updates would all round back, while from fp32 ones they show on average.
"""
import json
import os
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def build(config_path, dtype):
    config = AutoConfig.for_model(**json.load(open(config_path)))
    config.dtype = dtype
    config._attn_implementation = "sdpa"
    config._experts_implementation = "eager"
    with torch.device(DEVICE):  # initialising a large one on the host takes minutes
        return AutoModelForCausalLM.from_config(config).to(dtype)


def make_weights(config_path, folder):
    torch.manual_seed(7)
    model = build(config_path, torch.float32)
    tensors = {"bf16": {}, "fp32": {}}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and not name.endswith("bias"):
            value = 1.0 + 0.1 * torch.randn_like(parameter)
        else:
            value = 0.02 * torch.randn_like(parameter)
        value = value.detach().contiguous()
        tensors["bf16"][name] = value.to(torch.bfloat16).float().cpu()
        tensors["fp32"][name] = value.cpu()
    for exact_in, values in tensors.items():
        save_file(values, f"{folder}/{exact_in}.safetensors")


def loaded(config_path, weights, dtype):
    model = build(config_path, dtype)
    missing, unexpected = model.load_state_dict(load_file(weights), strict=False)
    if unexpected or [m for m in missing if m != "lm_head.weight"]:
        raise SystemExit(f"{weights}: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.train()


def within_documents(starts):
    """What SDPA and the rotary embedding are to be told of rows whose places' documents begin at `starts`."""
    place = torch.arange(starts.shape[1], device=starts.device)
    visible = (place[None, None, :] <= place[None, :, None]) & (place[None, None, :] >= starts[:, :, None])
    return {"attention_mask": visible[:, None], "position_ids": place[None] - starts}


def step_loss(model, rows, micro_batch):
    """Backpropagates the mean loss of the labels that count in one optimizer step, micro-batch by micro-batch."""
    tokens, labels, starts = rows
    total = 0.0
    count = (labels >= 0).sum().item()
    for begin in range(0, tokens.shape[0], micro_batch):
        part = slice(begin, begin + micro_batch)
        logits = model(tokens[part], **({} if starts is None else within_documents(starts[part]))).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[part].flatten(), reduction="sum")
        (loss / count).backward()
        total += loss.item()
    return total / count


def choose(model, choices):
    """Gives each router, in the order of layers, the experts that its tokens are to have; returns for each what share of the
    tokens would have had others, once it has run."""
    routers = [m for m in model.modules() if type(m).__name__.endswith("TopKRouter")]
    shares = [None] * len(routers)
    if choices is None or len(choices) != len(routers):
        raise SystemExit(f"{len(routers)} routers, choices of {None if choices is None else len(choices)}")

    def chooser(index, router, choice):
        def forward(hidden):
            logits = torch.nn.functional.linear(hidden.reshape(-1, router.hidden_dim), router.weight)
            probabilities = torch.nn.functional.softmax(logits, dtype=torch.float, dim=-1)
            own = torch.topk(probabilities, router.top_k, dim=-1).indices
            others = (own.sort(dim=-1).values != choice.sort(dim=-1).values).any(dim=-1)
            shares[index] = others.float().mean().item()
            weights = probabilities.gather(1, choice)
            if getattr(router, "norm_topk_prob", True):
                weights = weights / weights.sum(dim=-1, keepdim=True)
            return logits, weights.to(logits.dtype), choice

        return forward

    for index, (router, choice) in enumerate(zip(routers, choices)):
        router.forward = chooser(index, router, choice)
    return shares


def under_name(ours, name, shape):
    """Our gradient of a tensor of transformers', which has the experts of a layer in one."""
    if name in ours:
        return ours[name]
    block, _, part = name.rpartition(".experts.")
    parts = ["gate_proj", "up_proj"] if part == "gate_up_proj" else ["down_proj"]
    return torch.stack([torch.cat([ours[f"{block}.experts.{e}.{p}.weight"] for p in parts]) for e in range(shape[0])])


def gradients(model):
    return {name: p.grad.detach().float() for name, p in model.named_parameters() if p.grad is not None}


def relative(a, b):
    return ((a - b).norm() / b.norm().clamp_min(1e-30)).item()


def load_dump(folder):
    """What the run says, and of each step tokens, labels and, of packed rows, where documents begin."""
    run = json.load(open(f"{folder}/run.json"))

    def read(name):
        ids = numpy.fromfile(f"{folder}/{name}.i32", dtype="<i4").reshape(run["tokens_shape"])
        return torch.from_numpy(ids.astype("int64")).to(DEVICE)

    tokens = read("tokens")
    if os.path.exists(f"{folder}/labels.i32"):
        return run, list(zip(tokens, read("labels"), read("document_starts")))
    return run, [(step[:, :-1], step[:, 1:], None) for step in tokens]


def loss_curve(config_path, weights, run, steps, dtype):
    """AdamW with clipping on an fp32 master; forward and backward in dtype."""
    model = loaded(config_path, weights, dtype)
    stored = load_file(weights)
    pairs = []  # what computes, and its master
    for name, parameter in model.named_parameters():
        pairs.append((parameter, torch.nn.Parameter(stored[name].to(DEVICE).float())))
    masters = [master for _, master in pairs]
    optimizer = torch.optim.AdamW(masters, lr=run["learning_rate"], betas=(run["beta1"], run["beta2"]),
                                  eps=run["epsilon"], weight_decay=run["weight_decay"])
    curve = []
    for step in range(len(run["losses"])):
        model.zero_grad()
        curve.append(step_loss(model, steps[step], run["micro_batch"]))
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
    first, steps = load_dump(one)
    ours = load_file(f"{one}/gradients.safetensors")
    micro_batch = first["micro_batch"]

    choices = None
    if "expert_choices_shape" in first:
        ids = numpy.fromfile(f"{one}/expert_choices.i32", dtype="<i4").reshape(first["expert_choices_shape"])
        choices = torch.from_numpy(ids.astype("int64")).to(DEVICE)
    model = loaded(config_path, weights, torch.float32)
    routed = any(type(m).__name__.endswith("TopKRouter") for m in model.modules())
    others = {"fp32": choose(model, choices)} if routed else {}
    loss32 = step_loss(model, steps[0], micro_batch)
    exact = gradients(model)
    rows, bad = [], 0
    half = loaded(config_path, weights, torch.bfloat16)
    if routed:
        others["bf16"] = choose(half, choices)
    loss16 = step_loss(half, steps[0], micro_batch)
    for name, gradient in gradients(half).items():
        theirs = relative(gradient, exact[name])
        mine = relative(under_name(ours, name, exact[name].shape).to(DEVICE).float().reshape(exact[name].shape), exact[name])
        passed = mine <= max(1e-2, 1.5 * theirs)
        bad += not passed
        rows.append({"tensor": name, "penstock": mine, "pytorch_bf16": theirs, "passed": passed})
    if not routed and set(ours) != set(exact):
        bad += 1
    del half, model

    run, steps = load_dump(many)
    curve = loss_curve(config_path, curve_weights, run, steps, torch.float32)
    mixed = loss_curve(config_path, curve_weights, run, steps, torch.bfloat16)
    curve_error, mixed_error = worst(run["losses"], curve), worst(run["losses"], mixed)

    rows.sort(key=lambda r: -r["penstock"])
    report = {"loss_penstock": first["losses"][0], "loss_fp32": loss32, "loss_bf16": loss16, "gradients": rows,
              "gradients_failed": bad, "steps": len(curve), "curve_fp32": curve, "curve_penstock": run["losses"],
              "curve_bf16": mixed, "curve_error": curve_error, "curve_bf16_error": mixed_error,
              "passed": bad == 0 and curve_error <= 0.01}
    if routed:
        report["tokens_that_choose_otherwise"] = others
        print(f"{config_path}: share of tokens of each layer that choose other experts than ours: {others}")
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
    if len(sys.argv) == 4 and sys.argv[1] == "weights":
        make_weights(*sys.argv[2:])
    elif len(sys.argv) == 8 and sys.argv[1] == "check":
        sys.exit(check(*sys.argv[2:]))
    else:
        sys.exit(__doc__)
