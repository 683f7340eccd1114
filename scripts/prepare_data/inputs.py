"""Files into records: JSONL, a JSON array, Parquet, or a plain text, each record with its place for messages."""

import json
import os
import stat
from typing import Any, BinaryIO, Iterator, NamedTuple

from .errors import InputError

MOST_LINE_BYTES = 64 << 20
MOST_JSON_BYTES = 2 << 30  # of an array, which is read at once


class Record(NamedTuple):
    place: str  # "chat.jsonl:17"
    value: Any  # an object; of a plain text {"text": ...}


def open_regular(path: str) -> BinaryIO:
    """Opens nothing that could wait for ever or do something when it is opened."""
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise InputError(f"{path}: is a folder; name a file in it")
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path}: is not a regular file")
        file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if os.fstat(file.fileno()).st_size == 0:
        file.close()
        raise InputError(f"{path}: is empty")
    return file


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f'the key "{key}" is there twice')
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise InputError(f"{name} is not JSON")


def parse_json(text: str, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    except json.JSONDecodeError as error:
        at = f"{place}, line {error.lineno}" if error.lineno > 1 else place
        raise InputError(f"{at}: is not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise InputError(f"{place}: cannot be read as JSON: it is nested too deeply") from None
    except ValueError:  # the only other one that json raises: of int()
        raise InputError(f"{place}: cannot be read as JSON: it has a whole number of thousands of digits") from None


def is_json_object(text: str) -> bool:
    try:
        return isinstance(parse_json(text, ""), dict)
    except InputError:
        return False


def decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is not UTF-8 (byte {error.start}); iconv or gunzip makes text of it") from None


def read_json_file(path: str) -> Any:
    """A whole file of JSON, such as a config.json."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > MOST_JSON_BYTES:
            raise InputError(f"{path}: is larger than {MOST_JSON_BYTES} bytes; make JSON lines of it")
        return parse_json(decoded(file.read(), path), path)


def _json_lines(path: str, file: BinaryIO) -> Iterator[Record]:
    number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        place = f"{path}:{number}"
        if len(line) > MOST_LINE_BYTES:
            raise InputError(f"{place}: a line of more than {MOST_LINE_BYTES} bytes; each record has a line of its own")
        if line.strip():
            yield Record(place, parse_json(decoded(line, place).rstrip("\r\n"), place))


def _json_array(path: str) -> Iterator[Record]:
    values = read_json_file(path)
    if not isinstance(values, list):
        raise InputError(f"{path}: has an object where an array of records, or JSON lines, would be right")
    for number, value in enumerate(values):
        yield Record(f"{path}, record {number + 1}", value)


def _parquet(path: str) -> Iterator[Record]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path}: Parquet is read with pyarrow, which is not there: scripts/python -m pip install "
                         "pyarrow") from None
    try:
        number = 0
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=256):
            for value in batch.to_pylist():
                number += 1
                # A column is there in every row; null says that the row has no such key.
                yield Record(f"{path}, row {number}", {key: part for key, part in value.items() if part is not None})
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None


def _begins_as_array(file: BinaryIO) -> bool:
    head = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    file.seek(0)
    return head.startswith(b"[")


def read_records(path: str, plain_text: bool) -> Iterator[Record]:
    """`plain_text`: the whole file is one text. Otherwise by its name: .parquet, .json or .jsonl."""
    with open_regular(path) as file:
        if plain_text:
            if os.fstat(file.fileno()).st_size > MOST_LINE_BYTES:
                raise InputError(f"{path}: a text of more than {MOST_LINE_BYTES} bytes; split it into several files, or JSON "
                                 'lines of {"text": ...}')
            yield Record(path, {"text": decoded(file.read(), path)})
        elif path.endswith(".parquet"):
            yield from _parquet(path)
        elif _begins_as_array(file):
            yield from _json_array(path)
        else:
            yield from _json_lines(path, file)
