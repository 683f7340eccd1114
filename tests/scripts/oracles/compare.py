"""Run by scripts/prepare-oracles."""

import datetime
import glob
import json
import os
import sys
import tempfile
import warnings

from prepare_data.errors import InputError
from prepare_data.inputs import Record
from prepare_data.model_folder import ModelFolder, Templates
from prepare_data.prepare import Preparation, Settings
from prepare_data.formats import FORMATS, read_document
from vocabulary import write_model

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")
from transformers import PreTrainedTokenizerFast  # noqa: E402

TODAY = datetime.date.today().isoformat()


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


_TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "description": "where"}}, "required": ["place"]}}}
_CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": {"place": "Brno"}}}

CONVERSATIONS = {
    "one turn": {"messages": [user("What is 2+2?"), assistant("4")]},
    "system": {"messages": [{"role": "system", "content": "Be brief."}, user("Hello"), assistant("Hi there!")]},
    "turns": {"messages": [user("a"), assistant("bb"), user("c\n"), assistant("dd"), user("e"), assistant("ff gg")]},
    "blanks and accents": {"messages": [user("  x "), assistant("\n\n Grüße, 日本 🙂👩‍👩‍👧 \t end "), user("…"), assistant(" no. ")]},
    "weights": {"messages": [user("a"), assistant("bb"), user("c"), assistant("dd", weight=0), user("e"), assistant("ff")]},
    "thoughts": {"messages": [user("a"), assistant("<think>\nhm\n</think>\n\nbb"), user("c"),
                              assistant("<think>\noh\n</think>\n\ndd")]},
    "reasoning_content": {"messages": [user("a"), assistant("bb", reasoning_content="hm"), user("c"),
                                       assistant("dd", reasoning_content="oh")]},
    "tools": {"tools": [_TOOL], "messages": [user("Rain?"), assistant("", tool_calls=[_CALL]),
                                             {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "dry"},
                                             assistant("No rain.")]},
}


class Reference:
    """The rule read once more, by transformers' rendering and the bytes of tokens; offsets play no part."""

    def __init__(self, folder, special):
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), **special)
        self.bytes_of = self._byte_table()

    @staticmethod
    def _byte_table():
        """GPT-2's characters for bytes: printable ones stand for themselves, the others follow from 256 on."""
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in printable]
        return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}

    def rendered(self, record, count, with_prompt):
        messages = [{k: v for k, v in m.items() if k != "weight"} for m in record["messages"][:count]]
        return self.tokenizer.apply_chat_template(messages, tools=record.get("tools"), tokenize=False,
                                                  add_generation_prompt=with_prompt)

    def token_bytes(self, token):
        text = self.tokenizer.convert_ids_to_tokens(token)
        if token in self.tokenizer.added_tokens_decoder:
            return text.encode()
        return bytes(self.bytes_of[c] for c in text)

    def document(self, text, ranges):
        """`ranges`: (begin, end) of what is trained on, in bytes."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        data, at, bits = text.encode(), 0, []
        for token in ids:
            part = self.token_bytes(token)
            assert data[at:at + len(part)] == part, "tokens are not the text"
            bits.append(1 if any(a <= at and at + len(part) <= b for a, b in ranges) else 0)
            at += len(part)
        assert at == len(data)
        if bits:
            bits[0] = 0
        return ids, bits

    def documents(self, record):
        """None for each turn whose prompt does not begin it."""
        turns = [i for i, m in enumerate(record["messages"]) if m["role"] == "assistant" and m.get("weight", 1)]
        whole = self.rendered(record, turns[-1] + 1, False)
        ranges, one_row = [], True
        rows = []
        for turn in turns:
            prompt, shown = self.rendered(record, turn, True), self.rendered(record, turn + 1, False)
            fits = shown[:len(prompt)] == prompt
            one_row = one_row and fits and whole[:len(shown)] == shown
            span = (len(prompt.encode()), len(shown.encode()))
            ranges.append(span)
            rows.append(self.document(shown, [span]) if fits else None)
        return [self.document(whole, ranges)] if one_row else rows


def ours(model, templates, name, record):
    work = Preparation(model, templates, Settings(1 << 30, False, None, 1, 0), None)
    pieces = work._conversation(read_document(Record(name, record), FORMATS["messages"]), name)
    return [(document.ids, list(document.trained)) for document in model.tokenizer.encode(pieces)]


def compare_template(model, reference, special, path):
    """How many of the conversations were equal, split, had refused turns, or were refused by both."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    reference.tokenizer.chat_template = source
    templates = Templates({"default": (os.path.basename(path), source)}, special, TODAY)
    try:
        return compare_conversations(model, templates, reference, source, os.path.basename(path))
    finally:
        templates.close()


def compare_conversations(model, templates, reference, source, file_name):
    counts = {"equal": 0, "split": 0, "refused turns": 0, "refused by both": 0}
    for title, record in CONVERSATIONS.items():
        name = f"{file_name}, {title}"
        try:
            expected, error = reference.documents(record), None
        except Exception as raised:  # of foreign code
            expected, error = None, raised
        if "tools" in record and ("tools" not in source or "tool_calls" not in source):
            expected, error = None, "tools would be ignored"
        try:
            found = ours(model, templates, name, record)
        except InputError as raised:
            if expected is not None:
                raise AssertionError(f"{name}: only ours refuses: {raised}")
            counts["refused by both"] += 1
            continue
        if expected is None:
            raise AssertionError(f"{name}: only transformers refuses: {error}")
        wanted = [each for each in expected if each is not None]
        if found != wanted:
            raise AssertionError(f"{name}: other documents\n ours {found}\n  its {wanted}")
        counts["equal"] += 1
        counts["split"] += 1 if len(wanted) > 1 else 0
        counts["refused turns"] += len(expected) - len(wanted)
    return counts


def compare_ids(model, gguf):
    """The texts and ids that llama.cpp ships beside a vocabulary."""
    with open(gguf + ".inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    with open(gguf + ".out", encoding="utf-8") as file:
        lines = [[int(token) for token in line.split()] for line in file.read().splitlines()]
    wrong = [text for text, ids in zip(texts, lines)
             if model.tokenizer._tokenizer.encode(text, add_special_tokens=False).ids != ids]
    assert len(texts) - 1 <= len(lines) and not wrong, wrong[:3]
    return len(lines)


def main():
    models, wanted = sys.argv[1], sys.argv[2:]
    total, failed = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for vocabulary, patterns in (("llama-bpe", None), ("qwen2", ("Qwen", "SmolLM3"))):
            gguf = os.path.join(models, f"ggml-vocab-{vocabulary}.gguf")
            at = os.path.join(folder, vocabulary)
            special = write_model(gguf, at)
            model, reference = ModelFolder(at), Reference(at, special)
            print(f"{vocabulary}: ids of {compare_ids(model, gguf)} texts are llama.cpp's")
            for path in sorted(glob.glob(os.path.join(models, "templates", "*.jinja"))):
                name = os.path.basename(path)
                if (patterns and not any(p in name for p in patterns)) or (wanted and not any(w in name for w in wanted)):
                    continue
                total += 1
                try:
                    counts = compare_template(model, reference, special, path)
                    print(f"  {name}: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count))
                except AssertionError as error:
                    failed.append(name)
                    print(f"  {name}: FAILED: {str(error)[:1500]}")
                sys.stdout.flush()
    print(f"{total - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
