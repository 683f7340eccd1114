"""Writes a token file (docs/token_file.md): to a temporary beside it, which is synced and renamed."""

import array
import os
import secrets
import struct
import sys
from collections import Counter
from typing import BinaryIO

import xxhash

from .errors import InputError
from .tokens import Tokens

MAGIC = b"\x89PTOK\r\n\x1a"
VERSION = 1
ALIGNMENT = 64
HEADER = struct.Struct("<8sIIQQQQIIQQ48sQ")
REFUSE, TRUNCATE, SPLIT = 0, 1, 2  # what is done with a document that is longer than a row
assert HEADER.size == 128 and sys.byteorder == "little"


def check_output(path: str) -> None:
    """Before the work whose result goes there."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is not a regular file and cannot be replaced")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise InputError(f"{path}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: the folder {folder} takes no new files")


class TokenFileWriter:
    """Ids go to the disk as they come; bits and starts are kept, about 1/8 byte for each token and 17 for each document."""

    def __init__(self, path: str, vocabulary: int, row_length: int, tokenizer_name: str, tokenizer_hash: int):
        self.path = os.path.realpath(path)
        self.vocabulary, self.row_length, self.tokenizer_hash = vocabulary, row_length, tokenizer_hash
        self.name = tokenizer_name.encode("utf-8", "replace")[:4096]
        self.type = "H" if vocabulary <= 1 << 16 else "I"
        self.tokens = self.trained = 0
        self.lengths: Counter = Counter()
        self._starts, self._long = array.array("Q"), bytearray()
        self._bits, self._waiting = bytearray(), b""  # waiting: 0 or 1 for each token that fills no byte yet
        self.temporary = f"{self.path}.{secrets.token_hex(8)}.tmp"
        self._file: BinaryIO = open(self.temporary, "xb")
        self._file.write(bytes(HEADER.size) + self.name)
        self._align()

    def add(self, document: Tokens, if_long: int) -> None:
        self._starts.append(self.tokens)
        self._long.append(if_long)
        self._file.write(array.array(self.type, document.ids).tobytes())
        self.tokens += len(document.ids)
        self.trained += sum(document.trained)
        self.lengths[len(document.ids)] += 1
        waiting = self._waiting + document.trained
        whole = len(waiting) // 8 * 8
        self._bits += _packed(waiting[:whole])
        self._waiting = waiting[whole:]

    def commit(self) -> int:
        """Puts the file in place and says how many bytes it has."""
        bits = self._bits + _packed(self._waiting + bytes(-len(self._waiting) % 8))
        lengths = array.array("Q", [number for pair in sorted(self.lengths.items()) for number in pair])
        for section in (bits, self._starts.tobytes(), self._long, lengths.tobytes()):
            self._align()
            self._file.write(section)
        self._write_header(0)
        self._file.flush()
        hash_ = xxhash.xxh3_64()
        with open(self.temporary, "rb") as written:
            while part := written.read(1 << 20):
                hash_.update(part)
        self._write_header(hash_.intdigest())
        self._file.flush()
        os.fsync(self._file.fileno())
        size = os.fstat(self._file.fileno()).st_size
        self._file.close()
        os.replace(self.temporary, self.path)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        return size

    def discard(self) -> None:
        """Unless it was committed."""
        try:
            self._file.close()
        finally:  # on a full disk what is left cannot be written, and closing fails
            if os.path.exists(self.temporary):
                os.unlink(self.temporary)

    def _write_header(self, checksum: int) -> None:
        self._file.seek(0)
        self._file.write(HEADER.pack(
            MAGIC, VERSION, array.array(self.type).itemsize, self.tokens, len(self._starts), self.trained, self.row_length,
            self.vocabulary, len(self.name), len(self.lengths), self.tokenizer_hash, bytes(48), checksum))

    def _align(self) -> None:
        self._file.write(bytes(-self._file.tell() % ALIGNMENT))


def _packed(bits: bytes) -> bytes:
    """Bytes of 0 and 1, a multiple of eight, into bits, the first the lowest."""
    if not bits:
        return b""
    digits = bits[::-1].translate(bytes([48, 49]) + bytes(254))
    return int(digits, 2).to_bytes(len(bits) // 8, "little")
