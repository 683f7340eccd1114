"""Writes what transformers computes of tiny models, for transformers_oracle_test.cpp. By scripts/model-oracles.

Weights and tokens follow from a formula that the test has too: unit(key, i). Of each tensor's gradient stands the sum over
its elements of gradient times unit("probe", i), which no element can change unseen.
"""
import json
import sys

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

M32 = 0xFFFFFFFF
SHAPE = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "vocab_size": 19, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}


def config(model_type, rope=None, **more):
    if model_type in ("mistral",) and "sliding_window" not in more:
        more["sliding_window"] = None
    return SHAPE | {"model_type": model_type, "rope_theta": 100.0} | ({"rope_scaling": rope} if rope else {}) | more


FULL, SLIDING = "full_attention", "sliding_attention"
# Name, config, lengths of the sequences; or of the documents of one packed row.
CASES = [
    ("no window, no scaling", config("llama"), [37]),
    ("llama3", config("llama", LLAMA3), [37]),
    ("linear", config("llama", {"type": "linear", "factor": 4.0}), [37, 37]),
    ("dynamic, beyond the positions", config("llama", {"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=16), [41]),
    ("dynamic by 1, beyond the positions", config("qwen2", {"rope_type": "dynamic", "factor": 1.0}, max_position_embeddings=16), [41]),
    ("dynamic, within the positions", config("llama", {"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=16), [16]),
    ("yarn", config("llama", YARN), [37]),
    ("yarn, every key", config("qwen3", YARN | {"beta_fast": 4, "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.3, "truncate": False}), [37]),
    ("yarn with an attention factor", config("mistral", YARN | {"attention_factor": 0.8}), [37]),
    ("a window on every layer", config("mistral", sliding_window=5), [23, 23]),
    ("a window of one", config("mistral", sliding_window=1), [23]),
    ("a window as long as the sequence", config("mistral", sliding_window=23), [23]),
    ("a window longer than the sequence", config("mistral", sliding_window=64), [23]),
    ("a window one shorter than the sequence", config("mistral", sliding_window=22), [23]),
    ("a window of a tile, past two tiles", config("mistral", sliding_window=64), [130]),
    ("a window past tiles", config("mistral", sliding_window=70), [200]),
    ("a window on the last layers", config("qwen2", use_sliding_window=True, sliding_window=7, max_window_layers=1, num_hidden_layers=3), [71]),
    ("windows that alternate", config("qwen3", use_sliding_window=True, sliding_window=20, num_hidden_layers=3,
                                      layer_types=[SLIDING, FULL, SLIDING]), [150]),
    ("windows that alternate, yarn", config("qwen2", YARN, use_sliding_window=True, sliding_window=6, layer_types=[FULL, SLIDING]), [45]),
    ("windows that alternate, ministral", config("ministral", sliding_window=11, layer_types=[SLIDING, FULL]), [33, 33]),
    ("packed documents under a window", config("mistral", sliding_window=9), {"documents": [20, 3, 40, 1, 9, 10]}),
    ("packed documents, windows that alternate, yarn",
     config("qwen3", YARN, use_sliding_window=True, sliding_window=4, layer_types=[SLIDING, FULL]), {"documents": [70, 5, 2, 66]}),
]
# Name, config, sequence length.
FREQUENCIES = [
    ("qwen2.5-7b, yarn by 4", {"head_dim": 128, "rope_theta": 1e6, "max_position_embeddings": 32768,
                               "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
    ("yarn by the ratio of positions", {"head_dim": 64, "rope_theta": 1e4, "max_position_embeddings": 16384,
                                        "rope_scaling": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 2048}}, 16384),
    ("yarn of the model's own positions", {"head_dim": 64, "rope_theta": 1e4, "max_position_embeddings": 4096,
                                           "rope_scaling": {"type": "yarn", "factor": 2.0}}, 4096),
    ("llama 3.1", {"head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 131072,
                   "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 8192}}, 8192),
    ("linear by 8", {"head_dim": 128, "rope_theta": 1e4, "max_position_embeddings": 16384,
                     "rope_scaling": {"type": "linear", "factor": 8.0}}, 16384),
    ("dynamic by 4, twice as long", {"head_dim": 128, "rope_theta": 1e4, "max_position_embeddings": 4096,
                                     "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, 8192),
    ("dynamic by 4, as long", {"head_dim": 128, "rope_theta": 1e4, "max_position_embeddings": 4096,
                               "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, 4096),
]


def unit(key, count):
    """`count` numbers from -0.5 to 0.5 that follow from a text."""
    seed = 0
    for byte in key.encode():
        seed = (seed * 31 + byte) & M32
    numbers = []
    for i in range(count):
        x = (seed * 0x9E3779B1 + i * 0x85EBCA77) & M32
        x ^= x >> 15
        x = (x * 0x2C1B3C6D) & M32
        x ^= x >> 12
        numbers.append(x / 2**32 - 0.5)
    return numbers


def tokens(key, count):
    return [int((number + 0.5) * SHAPE["vocab_size"]) for number in unit(key, count)]


def make_config(figures):
    figures = dict(figures)
    return transformers.AutoConfig.for_model(figures.pop("model_type"), **json.loads(json.dumps(figures)))


def run(name, figures, lengths):
    model = transformers.AutoModelForCausalLM.from_config(make_config(figures), attn_implementation="eager").double()
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            values = torch.tensor(unit(key, tensor.numel()), dtype=torch.float64).reshape(tensor.shape)
            tensor.copy_(1 + values if "norm" in key else values)
    packed = isinstance(lengths, dict)
    loss = 0
    for i, length in enumerate(lengths["documents"] if packed else lengths):
        row = torch.tensor(tokens(f"row {i}", length + 1))
        logits = model(input_ids=row[None, :-1], use_cache=False).logits[0]
        loss = loss + torch.nn.functional.cross_entropy(logits, row[1:], reduction="sum")
    loss.backward()
    probes = {key: float((tensor.grad.flatten() * torch.tensor(unit("probe", tensor.numel()), dtype=torch.float64)).sum())
              for key, tensor in model.named_parameters()}
    return {"name": name, "config": figures, "packed": packed, "lengths": lengths["documents"] if packed else lengths,
            "loss": float(loss.detach()), "probes": probes}


def frequencies(name, figures, length):
    figures = SHAPE | {"model_type": "llama"} | figures
    made = make_config(figures)
    values, factor = ROPE_INIT_FUNCTIONS[made.rope_parameters["rope_type"]](made, "cpu", seq_len=length)
    return {"name": name, "config": figures, "length": length, "frequencies": [float(v) for v in values], "factor": float(factor)}


def main():
    made = {"transformers": transformers.__version__, "torch": torch.__version__, "models": [run(*case) for case in CASES],
            "frequencies": [frequencies(*case) for case in FREQUENCIES]}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(made, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
