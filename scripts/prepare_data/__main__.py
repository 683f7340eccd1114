"""The command line of scripts/prepare."""

import argparse
import datetime
import os
import signal
import sys
from typing import Any, Union

from .errors import InputError
from .formats import FORMATS
from .inputs import parse_json
from .model_folder import ModelFolder
from .prepare import Settings, prepare
from .sources import Source, require_apart, source
from .token_file import check_output

_EXAMPLES = """\
  scripts/prepare --model Qwen2.5-7B-Instruct --row-length 4096 -o train.tokens chats.jsonl
  scripts/prepare --model Qwen2.5-7B-Instruct --row-length 4096 -o train.tokens --show 3 chats.jsonl@2 more.jsonl@0.5
  scripts/prepare --model Llama-3.1-8B --row-length 8192 -o text.tokens book.txt texts/

docs/prepare.md says which records are read and what is trained on. Exit codes: 0 done, 1 failed, 2 bad usage or input.
"""


def _arguments(given: Union[list[str], None]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/prepare", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Makes one file of tokens of chats and texts, with a model's own tokenizer and chat template.")
    parser.add_argument("inputs", nargs="+", metavar="INPUT[@WEIGHT]",
                        help="JSONL, JSON array, Parquet, a text, or a folder of such; a weight says how often each record is taken")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="has config.json and tokenizer.json")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--row-length", required=True, type=int, metavar="N", help="tokens of the rows that will be trained on")
    parser.add_argument("--truncate", action="store_true", help="cut what is longer than a row instead of dropping it")
    parser.add_argument("--format", choices=[*FORMATS, "plain"], help="of all inputs; otherwise told by the first record")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N documents, coloured by mask")
    parser.add_argument("--seed", type=int, default=1, help="chooses records where a weight is no whole number")
    parser.add_argument("--chat-template", metavar="FILE", help="instead of the model's")
    parser.add_argument("--template-name", metavar="NAME", help="where tokenizer_config.json has several")
    parser.add_argument("--template-arg", action="append", default=[], metavar="KEY=JSON",
                        help="a variable of the template: enable_thinking=false")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today(), metavar="YYYY-MM-DD",
                        help="for templates that ask for it (today)")
    return parser.parse_args(given)


def _source(text: str) -> Source:
    path, at, weight = text.rpartition("@")
    if not at or os.path.exists(text):
        return source(text, 1)
    try:
        value = float(weight)
    except ValueError:
        return source(text, 1)
    if not 0 < value <= 1000:
        raise InputError(f"{text}: a weight of {weight}; more than 0 and at most 1000 would be right")
    return source(path, value)


def _template_arguments(given: list[str]) -> dict[str, Any]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"--template-arg {text}: KEY=JSON would be right, such as enable_thinking=false")
        if key in ("messages", "tools", "documents", "add_generation_prompt"):
            raise InputError(f"--template-arg {text}: {key} is given to the template for each conversation")
        found[key] = parse_json(value, f"--template-arg {text}")
    return found


def _run(arguments: argparse.Namespace) -> None:
    if arguments.row_length < 1 or arguments.row_length >= 1 << 31:
        raise InputError(f"--row-length {arguments.row_length}: 1 to 2147483647 would be right")
    if arguments.show < 0:
        raise InputError(f"--show {arguments.show}: 0 or more would be right")
    if not 0 <= arguments.seed < 1 << 63:
        raise InputError(f"--seed {arguments.seed}: 0 to 2^63 - 1 would be right")
    sources = [_source(text) for text in arguments.inputs]
    check_output(arguments.output)
    model = ModelFolder(arguments.model)
    if model.positions is not None and arguments.row_length > model.positions:
        raise InputError(f"--row-length {arguments.row_length}: the model has {model.positions} positions "
                         "(max_position_embeddings of its config.json)")
    require_apart(arguments.output, sources)
    for path in [path for each in sources for path in each.files] + model.files(arguments.chat_template):
        if os.path.exists(arguments.output) and os.path.exists(path) and os.path.samefile(arguments.output, path):
            raise InputError(f"{arguments.output}: is an input as well as the output")
    templates = model.templates(arguments.chat_template, arguments.template_name,
                                _template_arguments(arguments.template_arg), arguments.date.isoformat())
    settings = Settings(arguments.row_length, arguments.truncate, arguments.format, arguments.seed, arguments.show)
    try:
        prepare(model, templates, settings, sources, arguments.output)
    finally:
        templates.close()


def main(given: Union[list[str], None] = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # temporaries are removed on the way out
    arguments = _arguments(given)
    try:
        _run(arguments)
    except InputError as error:
        print(f"scripts/prepare: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"scripts/prepare: {error.filename or arguments.output}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("scripts/prepare: interrupted; nothing was written", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
