"""A model's folder made of the vocabulary in a GGUF file. The expressions that cut text before merging are those that the
models publish in tokenizer.json; GGUF has only their names."""

import json
import os

from gguf import GGUFReader
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

_CUTS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
_NORMAL, _CONTROL, _USER = 1, 3, 4  # token_type


def write_model(gguf: str, folder: str) -> dict[str, str]:
    """Returns the special tokens."""
    fields = {name: field.contents() for name, field in GGUFReader(gguf).fields.items() if name.startswith("tokenizer.")}
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    made = Tokenizer(models.BPE(
        vocab={token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind == _NORMAL},
        merges=[tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]],
        ignore_merges=fields["tokenizer.ggml.pre"] == "llama-bpe"))
    if fields["tokenizer.ggml.pre"] == "qwen2":
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(_CUTS[fields["tokenizer.ggml.pre"]]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    special = {"eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]]}
    if "tokenizer.ggml.bos_token_id" in fields:
        special["bos_token"] = tokens[fields["tokenizer.ggml.bos_token_id"]]
    added = [(i, token) for i, (token, kind) in enumerate(zip(tokens, types)) if kind in (_CONTROL, _USER)]
    source = json.loads(made.to_str())  # ids of added tokens are the file's, whatever add_tokens would count
    source["added_tokens"] = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                               "normalized": False, "special": True} for i, token in added]
    for i, token in added:
        source["model"]["vocab"][token] = i
    os.makedirs(folder, exist_ok=True)
    for name, value in (("tokenizer.json", source), ("config.json", {"vocab_size": len(tokens)}),
                        ("tokenizer_config.json", special)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)
    return special
