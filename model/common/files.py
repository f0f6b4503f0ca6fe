#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Files of others, opened here and nowhere else: regular files of a sane size, read within their bounds, and JSON that means one thing.

Pipes and devices wait or never end, a length in a file promises more than there is, a key that stands twice has two values.
"""

import json
import math
import os
import stat

import numpy as np

from litetern.model.common.printable import printable

JSON_LIMIT      = 8 << 20    # Bytes of a configuration; parsed, it takes up to fifty times as much.
TOKENIZER_LIMIT = 64 << 20   # Bytes of a tokenizer's file.
TEXT_LIMIT      = 256 << 20  # Bytes of a text to measure or calibrate on.
WEIGHTS_LIMIT   = 64 << 30   # Bytes of a file of weights.

KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

POINTER = b"version https://git-lfs.github.com/spec/"  # What Git LFS leaves in place of a file until it is fetched.

DIGITS = 20  # Of a whole number of JSON; longer ones are floats, as their value is far beyond any use.


def naming(path, error, what=""):
    """ValueError with an error's line, behind the path and what it is unless the line names the path already. Names of tensors and what else
    the line quotes of a file have no control characters any more."""
    line = printable(str(error), "")
    return ValueError(line if line.startswith(str(path)) else f"{path}: {what} ({line})" if what else f"{path}: {line}")

# Bytes --------------------------------------------------------------------------------------------


class File:
    """An open regular file of at most `limit` bytes; ValueError naming the path for anything else. size: bytes."""
    def __init__(self, path, limit=WEIGHTS_LIMIT):
        self.path = path
        try:
            self._check(os.stat(path), limit)  # Before it is opened: some devices act on that.
            self._file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
            self._check(os.fstat(self._file.fileno()), limit)
            start = os.pread(self._file.fileno(), len(POINTER), 0)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
        if start == POINTER:
            raise ValueError(f"{path}: is a pointer of Git LFS, not the file itself: run `git lfs pull` in its folder")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def _check(self, status, limit):
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{self.path}: is {KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, must be a regular file")
        if status.st_size > limit:
            raise ValueError(f"{self.path}: {status.st_size:,} bytes long, such files have at most {limit:,}")
        self.size = status.st_size

    def read(self, offset, count):
        """bytes of what is stored at an offset. ValueError where the file does not hold it, before memory is taken."""
        if not 0 <= offset <= self.size - count:
            raise ValueError(f"{self.path}: truncated or damaged ({count:,} bytes at {offset:,} of {self.size:,})")
        try:
            self._file.seek(offset)
            data = self._file.read(count)
        except OSError as error:
            raise ValueError(f"{self.path}: cannot be read ({error.strerror})") from None
        if len(data) != count:
            raise ValueError(f"{self.path}: became shorter while it was read")
        return data

    def array(self, offset, dtype, *shape):
        """Array (not to be written to) of what is stored at an offset; likewise."""
        return np.frombuffer(self.read(offset, np.dtype(dtype).itemsize*math.prod(shape)), dtype).reshape(shape)


def read_bytes(path, limit):
    """bytes of a file. ValueError naming the path where it is no regular file, or has more than `limit`."""
    with File(path, limit) as file:
        return file.read(0, file.size)


def read_text(path, limit=JSON_LIMIT):
    """str of a UTF-8 file, without the mark that some editors begin with; likewise."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: cannot be read as UTF-8 text ({error.reason} at byte {error.start})") from None

# JSON ---------------------------------------------------------------------------------------------


def _unique(pairs):
    result = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"the key {name[:60]!r} stands there twice")
        result[name] = value
    return result


def _constant(name):
    raise ValueError(f"{name} is no number of JSON")


def parse_json(data, where):
    """Value of JSON (bytes of UTF-8): keys that stand twice, NaN and Infinity are errors. ValueError that begins with `where`."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_constant,
            parse_int=lambda text: int(text) if len(text) <= DIGITS else float(text))
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"{where}: cannot be read as JSON ({reason})")


def read_json(path):
    """dict of a file that holds a JSON object; ValueError naming the path otherwise."""
    value = parse_json(read_bytes(path, JSON_LIMIT), path)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds a {type(value).__name__}, must be a JSON object")
    return value
