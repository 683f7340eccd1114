"""Loss and gradients of small mixtures of experts by transformers: see scripts/experts-oracle.

Weights and tokens are those of tests/exec/host/tiny_models.cpp: numbers of a Mersenne Twister (seed 1, seed 2) in the order
of our tensors, weights rounded to bf16. A gradient is recorded by its norm and by its product with cos(0.7 i + 0.3), i
counting elements, which tells places apart.
"""

import csv
import sys

import numpy
import torch
import transformers
from transformers import MixtralConfig, MixtralForCausalLM, OlmoeConfig, OlmoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

SEQUENCES, LENGTH, VOCABULARY, HIDDEN, WIDTH = 2, 7, 19, 18, 5

COMMON = dict(
    vocab_size=VOCABULARY,
    hidden_size=HIDDEN,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 100.0},
    tie_word_embeddings=False,
    attn_implementation="eager",
    experts_implementation="eager",
    pad_token_id=None,
    bos_token_id=None,
    eos_token_id=None,
)


def qwen3_moe(**more):
    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            **COMMON, **{**dict(intermediate_size=21, moe_intermediate_size=WIDTH, num_hidden_layers=3, num_attention_heads=3,
            num_key_value_heads=1, head_dim=10, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True,
            mlp_only_layers=[1]), **more}
        )
    )


BALANCED = dict(output_router_logits=True, router_aux_loss_coef=0.5)


def mixtral(**more):
    return MixtralForCausalLM(
        MixtralConfig(
            **COMMON, intermediate_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
            num_local_experts=4, num_experts_per_tok=2, **more,
        )
    )


def olmoe(**more):
    return OlmoeForCausalLM(
        OlmoeConfig(
            **{**COMMON, "intermediate_size": WIDTH}, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
            num_experts=7, num_experts_per_tok=3, norm_topk_prob=False, **more,
        )
    )


CASES = {"qwen3_moe": qwen3_moe, "mixtral": mixtral, "olmoe": olmoe}
# With the load-balancing loss; "padded" has PADDED tokens at the end of the second sequence that are padding.
PADDED = 3
CASES |= {f"{name}_balanced": lambda make=make: make(**BALANCED) for name, make in list(CASES.items())}
CASES |= {"mixtral_padded": lambda: mixtral(**BALANCED), "qwen3_moe_padded": lambda: qwen3_moe(**BALANCED)}


def our_tensors(model):
    """(name, tensor, gradient) in our order, as views of transformers' parameters."""
    of = dict(model.named_parameters())
    mixtral_names = model.config.model_type == "mixtral"
    gate, up, down = ("w1", "w3", "w2") if mixtral_names else ("gate_proj", "up_proj", "down_proj")

    def one(name):
        parameter = of.pop(name)
        return name, parameter.data, parameter.grad

    yield one("model.embed_tokens.weight")
    for layer in range(model.config.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        for part in ("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
                     "self_attn.k_norm", "self_attn.o_proj", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj",
                     "mlp.down_proj", "mlp.gate"):
            if f"{prefix}{part}.weight" in of:
                name, data, gradient = one(f"{prefix}{part}.weight")
                yield (name.replace(".mlp.", ".block_sparse_moe.") if mixtral_names else name), data, gradient
        if f"{prefix}mlp.experts.gate_up_proj" not in of:
            continue
        block = prefix + ("block_sparse_moe" if mixtral_names else "mlp") + ".experts."
        _, gate_up, d_gate_up = one(f"{prefix}mlp.experts.gate_up_proj")
        _, downs, d_downs = one(f"{prefix}mlp.experts.down_proj")
        half = gate_up.shape[1] // 2
        for e in range(gate_up.shape[0]):
            for name, rows in ((gate, slice(0, half)), (up, slice(half, None))):
                yield f"{block}{e}.{name}.weight", gate_up[e, rows], None if d_gate_up is None else d_gate_up[e, rows]
        for e in range(gate_up.shape[0]):
            yield f"{block}{e}.{down}.weight", downs[e], None if d_downs is None else d_downs[e]
    yield one("model.norm.weight")
    yield one("lm_head.weight")
    assert not of, of


def fill(model):
    random = numpy.random.RandomState(1)
    for name, tensor, _ in our_tensors(model):
        uniform = random.randint(0, 2**32, tensor.numel(), dtype=numpy.uint32).astype(numpy.float64) / 2**32 - 0.5
        values = 1 + 0.5 * uniform if "norm" in name else 0.6 * uniform
        tensor.copy_(torch.from_numpy(values.astype(numpy.float32)).bfloat16().float().reshape(tensor.shape))


def given_targets(given):
    """What transformers compares with: the next place's label."""
    return torch.cat([given[:, 1:], torch.full((SEQUENCES, 1), -100)], dim=1).reshape(-1)


def main(path):
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    tokens = numpy.random.RandomState(2).randint(0, 2**32, SEQUENCES * (LENGTH + 1), dtype=numpy.uint32) % VOCABULARY
    tokens = torch.from_numpy(tokens.astype(numpy.int64)).reshape(SEQUENCES, LENGTH + 1)
    rows = []
    for case, make in CASES.items():
        model = make().float()
        fill(model)
        inputs, labels, mask = tokens[:, :-1].clone(), tokens[:, 1:].clone(), torch.ones(SEQUENCES, LENGTH, dtype=torch.long)
        if case.endswith("_padded"):
            inputs[-1, -PADDED:], labels[-1, -PADDED:], mask[-1, -PADDED:] = 0, -100, 0
        # Labels are given, so that transformers itself adds the load-balancing loss: they are shifted by it.
        given = torch.cat([torch.full((SEQUENCES, 1), -100), labels[:, :-1]], dim=1)
        output = model(inputs, attention_mask=mask, labels=given, use_cache=False)
        loss = torch.nn.functional.cross_entropy(output.logits.reshape(-1, VOCABULARY), labels.reshape(-1))
        rows.append((case, "loss", f"{loss.item():.9g}", ""))
        if case.endswith(("_balanced", "_padded")):
            own = torch.nn.functional.cross_entropy(output.logits.reshape(-1, VOCABULARY), given_targets(given))
            added = (output.loss - own).item()
            factor = BALANCED["router_aux_loss_coef"]
            assert abs(added - factor * output.aux_loss.item()) < 1e-5, (added, output.aux_loss)
            rows.append((case, "balance", f"{output.aux_loss.item():.9g}", ""))
            loss = loss + factor * output.aux_loss
        loss.backward()
        for name, _, gradient in our_tensors(model):
            values = gradient.double().reshape(-1)
            places = torch.cos(0.7 * torch.arange(values.numel(), dtype=torch.float64) + 0.3)
            rows.append((case, name, f"{values.norm().item():.9g}", f"{(values * places).sum().item():.9g}"))
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("case", "tensor", "norm", "product"))
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1])
