"""A model's folder with a tokenizer of bytes and some words, and the program run on it."""

import contextlib
import io
import json
import os
import struct
import tempfile
import unittest
from typing import Any, Union

from prepare_data.__main__ import main
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

CHATML = ("{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}")
SPECIAL = ["<|start|>", "<|end|>", "<|eos|>"]
MERGES = [("t", "h"), ("th", "e"), ("\u0120", "the")]  # \u0120: what byte-level tokenizers write for a blank
WORDS = ["th", "the", "\u0120the"]


def tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(alphabet + WORDS)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    made.add_special_tokens(SPECIAL)
    return made


class Written:
    """A token file as struct reads it: the format once more, apart from the writer's code."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            data = file.read()
        (self.magic, self.version, width, count, documents, self.trained_count, self.row_length, self.vocabulary, name,
         lengths, self.tokenizer_hash) = struct.unpack_from("<8sIIQQQQIIQQ", data)
        at = 128
        self.name = data[at:at + name].decode()
        at = (at + name + 63) // 64 * 64
        ids = struct.unpack_from(f"<{count}{'H' if width == 2 else 'I'}", data, at)
        at = (at + count * width + 63) // 64 * 64
        bits = [data[at + i // 8] >> i % 8 & 1 for i in range(count)]
        at = (at + (count + 7) // 8 + 63) // 64 * 64
        starts = struct.unpack_from(f"<{documents}Q", data, at) + (count,)
        at = (at + documents * 8 + 63) // 64 * 64
        self.long = list(data[at:at + documents])
        at = (at + documents + 63) // 64 * 64
        self.lengths = [struct.unpack_from("<QQ", data, at + 16 * i) for i in range(lengths)]
        self.ends_there = at + 16 * lengths == len(data)
        self.documents = [(list(ids[a:b]), bits[a:b]) for a, b in zip(starts, starts[1:])]


class PrepareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.tokenizer = tokenizer()
        self.write("model/tokenizer.json", self.tokenizer.to_str())
        self.write("model/config.json", {"vocab_size": 300, "max_position_embeddings": 1024})
        self.write_template(CHATML)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, content: Any) -> str:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        data = content if isinstance(content, bytes) else (
            content if isinstance(content, str) else json.dumps(content)).encode()
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def write_lines(self, name: str, records: list) -> str:
        return self.write(name, "".join(json.dumps(record) + "\n" for record in records))

    def write_template(self, template: Union[str, list]) -> None:
        self.write("model/tokenizer_config.json", {"eos_token": "<|eos|>", "chat_template": template})

    def run_prepare(self, *arguments: str, row_length: int = 1000) -> tuple[int, str, str]:
        """Exit code, standard output and error."""
        command = ["--model", self.path("model"), "--row-length", str(row_length), "-o", self.path("out.tokens"), *arguments]
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as error:
            try:
                code = main(command)
            except SystemExit as ended:  # argparse
                code = ended.code
        return code, out.getvalue(), error.getvalue()

    def prepared(self, *arguments: str, row_length: int = 1000) -> Written:
        code, self.output, error = self.run_prepare(*arguments, row_length=row_length)
        self.assertEqual(code, 0, error)
        return Written(self.path("out.tokens"))

    def refused(self, *arguments: str, row_length: int = 1000) -> str:
        """What it says; it must have ended with 2 and left nothing."""
        code, self.output, error = self.run_prepare(*arguments, row_length=row_length)
        self.assertEqual(code, 2, self.output + error)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out.tokens")], [])
        return error

    def texts(self, written: Written) -> list[tuple[str, str]]:
        """Of each document: all of it, and what is trained on."""
        decode = lambda ids: self.tokenizer.decode(ids, skip_special_tokens=False)
        return [(decode(ids), decode([i for i, bit in zip(ids, bits) if bit])) for ids, bits in written.documents]


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> dict:
    return {"role": "assistant", "content": text, **more}
