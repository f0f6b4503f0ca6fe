#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The *.safetensors files of a folder, and what the index of shards says of them.

A file is eight bytes (the length of its header), a JSON object {name: {"dtype", "shape", "data_offsets": [first, end]}}, and the tensors,
one right after the other. The library `safetensors` maps whole files and reads a header anew for each opening; here a file is opened once,
its header is checked as a whole, and a tensor takes memory when it is asked for.
"""

import math
import pathlib

import numpy as np

from litetern.model.common.fields import Fields, is_text, is_whole
from litetern.model.common.files import JSON_LIMIT, File, naming, parse_json, read_json

SINGLE  = "model.safetensors"  # Where it is, it is the model, as transformers has it: an index and other files beside it are strays.
INDEX   = "model.safetensors.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

# Stored types as numpy's; a bfloat16 is the high half of a float32. The last two are refused where floats must stand.
KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "|u1", "I8": "|i1", "I32": "<i4", "I64": "<i8"}

DIMENSIONS_MAX = 8
SIZE_MAX       = 1 << 40  # Of a dimension: a product of them never runs over.

# One file -----------------------------------------------------------------------------------------


class Shard:
    """One file. entries: {tensor: (kind, shape, offset in the file)}. ValueError for a file that is damaged."""
    def __init__(self, path):
        self.file = File(path)
        try:
            self.entries = self._entries()
        except ValueError as error:
            raise naming(path, error, "damaged safetensors file") from None

    def _entries(self):
        if self.file.size < 8:
            raise ValueError(f"{self.file.size} bytes are too few")
        size = int(self.file.array(0, "<u8", 1)[0])
        if size > min(JSON_LIMIT, self.file.size - 8):
            raise ValueError(f"its header says {size:,} bytes, {min(JSON_LIMIT, self.file.size - 8):,} are the most")
        header = parse_json(self.file.read(8, size), "header")
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
        entries, places = {}, []
        for name, value in header.items():
            if name == "__metadata__":
                continue
            entries[name], end = self._entry(name, value, 8 + size)
            places.append((entries[name][2], end, name))
        # One after the other, from the header to the end of the file: nothing is read twice, nothing is hidden.
        last = 8 + size
        for first, end, name in sorted(places):
            if first != last:
                raise ValueError(f"tensor {name} begins at byte {first:,}, the one before ends at {last:,}")
            last = end
        if last != self.file.size:
            raise ValueError(f"{self.file.size:,} bytes long, its header needs {last:,}")
        return entries

    @staticmethod
    def _entry(name, value, start):
        """((kind, shape, offset), end) of a tensor."""
        if not is_text(name) or not isinstance(value, dict):
            raise ValueError(f"tensor {name[:60]!r} is not described by a name and an object")
        stated = Fields(value, f"tensor {name}")
        kind   = stated.text("dtype")
        shape  = stated.value("shape", lambda shape: isinstance(shape, list) and len(shape) <= DIMENSIONS_MAX and all(
            is_whole(size, 0, SIZE_MAX) for size in shape), "a list of up to eight sizes")
        first, end = stated.value("data_offsets", lambda places: isinstance(places, list) and len(places) == 2 and all(
            is_whole(place, 0, 1 << 62) for place in places) and places[0] <= places[1], "a first and an end")
        if kind in KINDS and end - first != math.prod(shape)*np.dtype(KINDS[kind]).itemsize:
            raise ValueError(f"tensor {name} of {kind} {shape} takes {end - first:,} bytes")
        return (kind, tuple(shape), start + first), start + end

    def read(self, name):
        """Array of a tensor as stored; bfloat16 as float32."""
        kind, shape, offset = self.entries[name]
        tensor = self.file.array(offset, KINDS[kind], *shape)
        return (tensor.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else tensor

# A folder -----------------------------------------------------------------------------------------


class Tensors:
    """Named tensors of the files of a folder, each read when asked for. `unread` are those nobody asked for."""
    def __init__(self, folder):
        self.shards = {}
        for path in self._paths(folder):
            shard = Shard(path)
            for name in shard.entries:
                if self.shards.setdefault(name, shard) is not shard:
                    raise ValueError(f"{folder}: tensor {name} is in {self.shards[name].file.path.name} and in {path.name}: "
                        "one of the two must go")
        for name, file in self.index.items():
            if name not in self.shards or self.shards[name].file.path != folder/file:
                raise ValueError(f"{folder/INDEX}: tensor {name} is not in {file}")
        self.unread = set(self.shards)

    def _paths(self, folder):
        self.index = {}
        if (folder/SINGLE).exists():
            return [folder/SINGLE]
        if (folder/INDEX).exists():
            self.index = Fields(read_json(folder/INDEX), folder/INDEX).value("weight_map", lambda names: isinstance(names, dict) and names != {}
                and all(is_text(name) and is_text(file) and pathlib.PurePath(file).name == file != ".." and file for name, file in names.items()),
                "an object from tensors to names of files in this folder")
            names   = sorted(set(self.index.values()))
            missing = [name for name in names if not (folder/name).exists()]
            if missing:
                raise ValueError(f"{folder}: {missing[0]} is missing ({len(missing)} of {len(names)} shards are)")
            return [folder/name for name in names]
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED)
            raise ValueError(f"{folder}: no *.safetensors file" + (f" ({pickled[0]} is pickled: such files can run any code and "
                "are never loaded; save the model as safetensors)" if pickled else ""))
        return paths

    def __contains__(self, name):
        return name in self.shards

    def kind(self, name):
        """Stored type of a tensor: "BF16", "U8"; None where there is none."""
        return self.shards[name].entries[name][0] if name in self.shards else None

    def shape(self, name):
        return self.shards[name].entries[name][1]

    def raw(self, name, shape):
        """Array as stored (bfloat16 as float32); ValueError where it is missing or of another shape."""
        if name not in self.shards:
            raise ValueError(f"tensor {name} is missing (must be {list(shape)})")
        if self.shape(name) != tuple(shape):
            raise ValueError(f"tensor {name} is {list(self.shape(name))}: must be {list(shape)}")
        if self.kind(name) not in KINDS:
            raise ValueError(f"tensor {name} is of type {self.kind(name)}: must be one of {', '.join(KINDS)}")
        self.unread.discard(name)
        return self.shards[name].read(name)

    def read(self, name, shape):
        """float32 array; ValueError also where it is no float or not finite."""
        tensor = self.raw(name, shape)
        if tensor.dtype.kind != "f":
            raise ValueError(f"tensor {name} is {tensor.dtype}: must be floats")
        with np.errstate(over="ignore"):  # Of float64 beyond float32: found below.
            tensor = tensor.astype(np.float32, copy=False)
        # The sum shows infinities and NaN without another array of the size.
        if not np.isfinite(np.sum(tensor, dtype=np.float64)):
            raise ValueError(f"tensor {name} holds infinite values or NaN")
        return tensor
