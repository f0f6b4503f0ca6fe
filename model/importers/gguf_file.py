#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The container GGUF: pairs of keys and values, and where the tensors lie. Little-endian, versions 2 and 3::

    "GGUF" | u32 version | u64 tensors | u64 pairs | pairs | tensor descriptions | padding | tensors, each aligned

    string : u64 length | UTF-8                         pair   : string key | u32 type | value
    array  : u32 type | u64 count | values              tensor : string name | u32 dimensions | u64 sizes, inner first | u32 type | u64 offset

Every length and count is held against the bytes that are left before anything is made of it. (The package `gguf` believes them.) It
knows the types of tensors, and reads them.
"""

import math
import pathlib
import re
import struct

from dataclasses import dataclass

import numpy as np

from litetern.model.common.fields import LONGEST, Fields
from litetern.model.common.files import TOKENIZER_LIMIT, File, naming

I2_S = 36  # Of microsoft's fork: 128 weights in 32 bytes, and a float32 scale behind all of them.

VERSIONS       = (2, 3)
PAIRS_MAX      = 1 << 16  # Of either kind in a file.
STRINGS_MAX    = 1 << 21  # In an array: merges of the largest vocabularies are half a million.
PARTS_MAX      = 9999     # Of a split file.
DIMENSIONS_MAX = 4
SIZE_MAX       = 1 << 40  # Of a dimension.

SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 10: "<u8", 11: "<i8", 12: "<f8"}
BOOL, STRING, ARRAY = 7, 8, 9


def library(path):
    """The package gguf; ValueError with the way to get it."""
    try:
        import gguf
    except ImportError:
        raise ValueError(f"{path}: GGUF files need the package gguf: run `make setup EXTRAS=convert`") from None
    return gguf


@dataclass(frozen=True)
class Tensor:
    """kind: number of its type; shape: outer size first; offset: in the file; bytes: that it takes there."""
    kind   : int
    shape  : tuple
    offset : int
    bytes  : int

# Metadata -----------------------------------------------------------------------------------------


class _Cursor:
    """Reads one value after another; ValueError where the bytes end. limited: they are the head of a longer file."""
    def __init__(self, data, limited):
        self.data, self.limited, self.place = memoryview(data), limited, 0

    @property
    def left(self):
        return len(self.data) - self.place

    def take(self, count):
        if count > self.left:
            raise ValueError(f"its metadata take more than {len(self.data):,} bytes" if self.limited else
                f"{count:,} bytes at {self.place:,} of {len(self.data):,}")
        self.place += count
        return self.data[self.place - count:self.place]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def count(self, smallest, largest, what):
        """A u64 that counts items of at least `smallest` bytes each."""
        count = self.number("Q")
        if count > largest or count*smallest > self.left:
            raise ValueError(f"{count:,} {what} in {self.left:,} bytes, {largest:,} are the most")
        return count

    def string(self, longest):
        return str(self.take(self.count(1, longest, "characters of a string")), "utf-8")

    def scalar(self, kind):
        if kind == STRING:
            return self.string(self.left)
        if kind == BOOL:
            value = self.number("B")
            if value > 1:
                raise ValueError(f"{value} is no bool")
            return bool(value)
        if kind not in SCALARS:
            raise ValueError(f"values of type {kind} are not known")
        return np.frombuffer(self.take(np.dtype(SCALARS[kind]).itemsize), SCALARS[kind])[0].item()

    def value(self, kind):
        if kind != ARRAY:
            return self.scalar(kind)
        kind = self.number("I")
        if kind in SCALARS:
            size = np.dtype(SCALARS[kind]).itemsize
            return np.frombuffer(self.take(size*self.count(size, self.left, "numbers")), SCALARS[kind]).tolist()
        if kind == ARRAY:
            raise ValueError("arrays of arrays are not known")
        return [self.scalar(kind) for _ in range(self.count(8 if kind == STRING else 1, STRINGS_MAX, "strings"))]

    def pairs(self, count):
        result = {}
        for _ in range(count):
            key = self.string(LONGEST)
            if key in result:
                raise ValueError(f"the key {key!r} stands there twice")
            try:
                result[key] = self.value(self.number("I"))
            except ValueError as error:
                raise ValueError(f"key {key!r}: {error}") from None
        return result

    def tensor(self):
        """(name, kind, shape, offset behind the descriptions)."""
        name  = self.string(LONGEST)
        count = self.number("I")
        if not 1 <= count <= DIMENSIONS_MAX:
            raise ValueError(f"tensor {name}: {count} dimensions, 1 to {DIMENSIONS_MAX} are known")
        shape = struct.unpack(f"<{count}Q", self.take(8*count))[::-1]
        if not all(1 <= size <= SIZE_MAX for size in shape):
            raise ValueError(f"tensor {name} is {list(shape)}: sizes are 1 to {SIZE_MAX:,}")
        return name, self.number("I"), shape, self.number("Q")

# The file -----------------------------------------------------------------------------------------


def _bytes(name, kind, shape, sizes):
    """Bytes that a tensor takes; sizes: {type: (weights of a block, its bytes)}."""
    count = math.prod(shape)
    if kind == I2_S:
        if len(shape) != 2 or count % 128:
            raise ValueError(f"tensor {name} is {list(shape)}: no matrix of I2_S")
        return count//4 + 4
    if kind not in sizes:
        raise ValueError(f"tensor {name} is of type {kind}, which is not known")
    block, size = sizes[kind]
    if shape[-1] % block:
        raise ValueError(f"tensor {name} is {list(shape)}: its rows are no multiple of {block} weights")
    return count//block*size


PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")  # Names of the parts of a split file, from 00001.


def open_gguf(path):
    """GGUF or Parts of a file; any one of the parts of a split file stands for all that lie beside it. ValueError likewise."""
    file  = GGUF(path)
    count = file.metadata.whole("split.count", 0, PARTS_MAX, 0)
    return Parts(file, count) if count > 1 else file


class Parts:
    """A split file: metadata of its first part, tensors of all; otherwise as `GGUF`. ValueError that names the part that is missing or strange."""
    def __init__(self, file, count):
        path = pathlib.Path(file.file.path)
        name = PART.fullmatch(path.name)
        if name is None or int(name["count"]) != count:
            raise ValueError(f"{path}: one of {count} parts of a split file, whose names end with -00001-of-{count:05}.gguf and so on: "
                "give them their names, or join them first (llama.cpp's gguf-split --merge)")
        self.stem, self.tensors, self.places = name["stem"], {}, {}
        paths   = [path.with_name(f"{self.stem}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
        missing = [part for part in paths if not part.exists()]
        if missing:
            raise ValueError(f"{path}: one of {count} parts of a split file, of which {missing[0].name} is missing ({len(missing)} of {count} are)")
        for number, part in enumerate(paths):
            opened = file if part == path else GGUF(part)
            stated = tuple(opened.metadata.whole(f"split.{key}", 0, PARTS_MAX, -1) for key in ("no", "count"))
            if stated != (number, count):
                raise ValueError(f"{part}: says that it is part {stated[0] + 1} of {stated[1]}, its name says {number + 1} of {count}")
            for tensor, place in opened.tensors.items():
                if tensor in self.tensors:
                    raise ValueError(f"{part}: tensor {tensor} is in {self.places[tensor].file.path.name}, too")
                self.tensors[tensor], self.places[tensor] = place, opened
            if number == 0:
                self.metadata = opened.metadata
        whole = self.metadata.whole("split.tensors.count", 0, PARTS_MAX*PAIRS_MAX, len(self.tensors))
        if whole != len(self.tensors):
            raise ValueError(f"{path}: the parts of its split file hold {len(self.tensors):,} tensors, {whole:,} are stated")

    def raw(self, name):
        return self.places[name].raw(name)

    def read(self, name):
        return self.places[name].read(name)


class GGUF:
    """An open file. stem: of its name. metadata: Fields; tensors: {name: Tensor}. ValueError with one clear line that names the path."""
    def __init__(self, path):
        self.file, self.stem = File(path), pathlib.Path(path).stem
        try:
            self.gguf = library(path)
            self._read()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: damaged GGUF file (a string is not UTF-8)") from None
        except ValueError as error:
            raise naming(path, error, "damaged GGUF file") from None

    def _read(self):
        head = min(self.file.size, TOKENIZER_LIMIT)
        cursor = _Cursor(self.file.read(0, head), head < self.file.size)
        if cursor.take(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = cursor.number("I")
        if version & 0xffff == 0:
            raise ValueError(f"{self.file.path}: is big-endian: convert it with gguf's gguf_convert_endian.py, to little")
        if version not in VERSIONS:
            raise ValueError(f"version {version}, {' and '.join(map(str, VERSIONS))} are known")
        tensors = cursor.count(25, PAIRS_MAX, "tensors")
        pairs   = cursor.count(13, PAIRS_MAX, "pairs")
        self.metadata = Fields(cursor.pairs(pairs), "the file")
        alignment     = self.metadata.value("general.alignment", lambda size: size in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
            "a power of two between 8 and 4,096", 32)
        described = [cursor.tensor() for _ in range(tensors)]
        start     = -(-cursor.place//alignment)*alignment
        sizes     = {int(kind): size for kind, size in self.gguf.GGML_QUANT_SIZES.items()}
        self.tensors = {}
        for name, kind, shape, offset in described:
            if name in self.tensors:
                raise ValueError(f"tensor {name} stands there twice")
            self.tensors[name] = Tensor(kind, shape, start + offset, _bytes(name, kind, shape, sizes))
        end, before = start, ""
        for name, tensor in sorted(self.tensors.items(), key=lambda item: item[1].offset):
            if tensor.offset < end or tensor.offset % alignment:
                raise ValueError(f"tensor {name} at byte {tensor.offset:,}: not aligned, or within {before or 'the metadata'}")
            end, before = tensor.offset + tensor.bytes, name
            if end > self.file.size:
                raise ValueError(f"truncated: tensor {name} ends at byte {end:,} of {self.file.size:,}")

    def raw(self, name):
        """uint8 array of a tensor as stored."""
        tensor = self.tensors[name]
        return self.file.array(tensor.offset, np.uint8, tensor.bytes)

    def read(self, name):
        """float32 array of a tensor; ValueError where the package cannot read its type."""
        tensor = self.tensors[name]
        kind   = self.gguf.GGMLQuantizationType(tensor.kind)
        try:
            with np.errstate(all="ignore"):  # What is not finite is found by whoever asks.
                return self.gguf.quants.dequantize(self.raw(name).reshape(math.prod(tensor.shape[:-1]), -1), kind).reshape(tensor.shape)
        except NotImplementedError:
            raise ValueError(f"tensor {name} is of type {kind.name}, which the package gguf cannot read") from None
