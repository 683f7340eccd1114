"""What the command line names to be read: a file, or a folder with all files below it."""

import os
import stat
from typing import NamedTuple

from .errors import InputError


class Source(NamedTuple):
    path: str
    weight: float  # how often each record is in the file; of a fraction a share of the records, chosen by seed
    files: list[str]  # the path itself, or of a folder those below it, in the order of their paths
    passed_over: list[str]  # of a folder: hidden, empty, no regular file, a link to a folder


def _is_read(path: str) -> bool:
    try:
        status = os.stat(path)
    except FileNotFoundError:  # a link to nothing
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _below(folder: str) -> tuple[list[str], list[str]]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}")

    files, passed_over = [], []
    for at, folders, names in os.walk(folder, onerror=refuse):
        for name in folders[:]:
            if name.startswith(".") or os.path.islink(os.path.join(at, name)):
                passed_over.append(os.path.join(at, name))
                folders.remove(name)
        for name in names:
            path = os.path.join(at, name)
            (files if not name.startswith(".") and _is_read(path) else passed_over).append(path)
    order = lambda path: [os.fsencode(part) for part in path.split(os.sep)]
    return sorted(files, key=order), sorted(passed_over, key=order)


def source(path: str, weight: float) -> Source:
    if not os.path.isdir(path):
        return Source(path, weight, [path], [])
    files, passed_over = _below(path)
    if not files:
        raise InputError(f"{path}: is a folder in which there is nothing to read"
                         + (f"; {passed_over[0]} is passed over" if passed_over else ""))
    return Source(path, weight, files, passed_over)


def require_apart(output: str, sources: list[Source]) -> None:
    """The next time it would be read with the rest of the folder."""
    place = os.path.join(os.path.realpath(os.path.dirname(output) or "."), os.path.basename(output))
    for each in sources:
        if os.path.isdir(each.path) and place.startswith(os.path.join(os.path.realpath(each.path), "")):
            raise InputError(f"{output}: lies in the folder {each.path}, which is read as a whole; name a place outside it")
