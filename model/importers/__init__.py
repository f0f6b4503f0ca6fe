#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Importers: one small file per format, each giving a `litetern.model.formats.checkpoint.Checkpoint`."""

import pathlib

from litetern.model.common.files import File
from litetern.model.formats.image import LENGTH_MAX
from litetern.model.importers.ggml import load_gguf
from litetern.model.importers.gguf_file import PART
from litetern.model.importers.huggingface import load_huggingface
from litetern.model.importers.llama2c import load_llama2c

KNOWN = "a folder with config.json and *.safetensors, a .gguf file, a .bin file of llama2.c"


def is_pickled(start):
    """Whether a file that starts with these bytes is one of PyTorch's: a zip archive, or a pickle."""
    return start.startswith(b"PK\x03\x04") or start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def files_of(path):
    """Sorted Paths that `load_checkpoint` of a path may read: a folder's, all parts of a split GGUF, a llama2.c file and the tokenizers beside it."""
    path = pathlib.Path(path)
    if path.is_dir():
        return sorted(path.iterdir())
    part   = PART.fullmatch(path.name) if path.exists() else None
    beside = (PART.fullmatch(other.name) for other in path.parent.iterdir()) if part else ()
    files  = {path, *(path.with_name(other[0]) for other in beside if other and (other["stem"], other["count"]) == (part["stem"], part["count"]))}
    if path.suffix == ".bin":
        files |= {path.with_suffix(".tokenizer.bin"), *path.parent.glob("tok*.bin"), *path.parent.glob("tokenizer*")}
    return sorted(file for file in files if file.exists())


def _load_file(path, progress, rule, limit):
    with File(path) as file:
        start = file.read(0, min(file.size, 4))
    if start == b"GGUF":
        return load_gguf(path, progress, rule, limit)
    if is_pickled(start):
        raise ValueError(f"{path}: a pickled checkpoint can run any code and is never loaded; save the model as safetensors")
    if path.suffix == ".bin":
        return load_llama2c(path, progress, rule, limit)
    if path.suffix == ".safetensors" or path.name == "config.json":
        raise ValueError(f"{path}: name its folder, which holds the configuration and the tokenizer too")
    raise ValueError(f"{path}: not a checkpoint that is known ({KNOWN})")


def load_checkpoint(path, progress=None, floats=False, limit=LENGTH_MAX):
    """Checkpoint of a file or folder. Raises ValueError with one clear line for anything else.

    progress : None or a function (blocks read, blocks).
    floats   : keep float matrices, which else become int8, as they are (weights "float"), to state what rounding costs; no image holds them.
    limit    : bytes that there are for an image: what needs more is refused before its tensors are read.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder (a checkpoint is {KNOWN})")
    load = load_huggingface if path.is_dir() else _load_file
    return load(path, progress, "float" if floats else "int8", limit)
