#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""llama2.c's .bin files of floats: its first format and version 1, with tokenizer.bin (or tok512.bin, .model, .json) beside them.

First format: int32 × 7 (hidden, ffn, layers, heads, kv_heads, vocab, context; a negative vocab means a head of its own), float32
tensors. Version 1: "ak42", 1, the seven numbers, a byte (tied), 256 bytes in all, float32 tensors with the norms first. RoPE pairs are
neighbours in both.
"""

import math
import pathlib

import numpy as np

from litetern.model.common.fields import Fields
from litetern.model.common.files import TOKENIZER_LIMIT, File, naming, read_bytes
from litetern.model.formats.config import RANGES
from litetern.model.formats.image import LENGTH_MAX
from litetern.model.importers import vocabulary
from litetern.model.importers.assemble import assemble, check_fits, gain_widths, interleaved_to_halves, matrix_shapes, model_config
from litetern.model.importers.matrices import from_float, ternary_rows
from litetern.model.tokenizer.tokenizer import convert

MAGIC   = 0x616b3432  # "ak42".
NUMBERS = ("hidden", "ffn", "layers", "heads", "kv_heads", "vocab", "context")
HEADER  = 256         # Bytes of version 1's.
BOS = EOS = 1         # llama2.c ends a text where the next one would begin.

# File ---------------------------------------------------------------------------------------------


def _header(file):
    """(shape, version, bytes of the header)."""
    words   = file.array(0, "<i4", min(file.size, HEADER)//4)
    version = int(words[1]) if len(words) > 1 and words[0] == MAGIC else 0
    if version not in (0, 1):
        raise ValueError(f"version {version} of llama2.c's format: the first and version 1 are known")
    if len(words) < 7 or version and file.size < HEADER:
        raise ValueError(f"{file.size} bytes are too few for a file of llama2.c")
    numbers = [int(word) for word in (words[2:9] if version else words[:7])]
    shape   = dict(zip(NUMBERS, numbers))
    tied    = file.read(36, 1)[0] if version else int(shape["vocab"] > 0)
    shape["vocab"] = abs(shape["vocab"])
    stated  = Fields(shape | {"tied": tied}, "header")
    for name in NUMBERS:
        stated.whole(name, *RANGES[name])
    stated.whole("tied", 0, 1)
    if shape["hidden"] % shape["heads"]:
        raise ValueError(f"hidden {shape['hidden']} and {shape['heads']} heads: not a file of llama2.c")
    return shape | {"head_dim": shape["hidden"]//shape["heads"], "sub_norms": False, "tied": bool(tied)}, version, HEADER if version else 28


def _order(shape, version):
    """[(name, layers or 1, shape)] of the tensors as they follow one another."""
    layers, matrices, widths = shape["layers"], matrix_shapes(shape), gain_widths(shape)
    table  = (shape["vocab"], shape["hidden"])
    matrix = lambda keys: [(key, layers, matrices[key]) for key in keys]
    gain   = lambda key: [(key, layers, (widths[key],))]
    final  = [("final_norm", 1, (shape["hidden"],))]
    if version:
        order = gain("attn_norm") + gain("ffn_norm") + final + [("embedding", 1, table)] + matrix("qkvo") + matrix(("gate", "down", "up"))
    else:
        order  = [("embedding", 1, table)] + gain("attn_norm") + matrix("qkvo") + gain("ffn_norm") + matrix(("gate", "down", "up"))
        order += final + [("angles", 1, (shape["context"], shape["head_dim"]))]
    return order + ([] if shape["tied"] else [("head", 1, table)])

# Import -------------------------------------------------------------------------------------------


class _Reader:
    """Reader of `litetern.model.importers.assemble` over a file."""
    def __init__(self, file, shape, version, start, rule, limit):
        self.file, self.places, self.heads = file, {}, {"q": shape["heads"], "k": shape["kv_heads"]}
        for name, count, size in _order(shape, version):
            self.places[name] = start, size
            start += 4*count*math.prod(size)
        if start != file.size:
            raise ValueError(f"{file.size:,} bytes long, the shape in its header needs {start:,} (truncated, or not a file of llama2.c)")
        check_fits(shape, "ternary", file.path.stem, limit)  # At the least; nothing is read of what is too large.
        model_config(shape)
        self.rule = rule if ternary_rows(self._read("q", 0)) is None else "trits"

    def _read(self, name, layer=0):
        start, size = self.places[name]
        tensor = self.file.array(start + 4*layer*math.prod(size), "<f4", *size)
        if not np.isfinite(np.sum(tensor, dtype=np.float64)):
            raise ValueError(f"tensor {name} of block {layer} holds infinite values or NaN")
        return tensor

    def matrix(self, layer, key, shape):
        weights = self._read(key, layer)
        if key in self.heads:
            weights = interleaved_to_halves(weights, self.heads[key])
        return from_float(weights, self.rule, f"{key} of block {layer}")

    def gain(self, layer, key, width):
        return self._read(key, layer)

    def final_norm(self, width):
        return self._read("final_norm")

    def table(self, key, shape):
        return self._read(key)


def _tokenizer(path, vocab):
    """Bytes of a `tokenizers` JSON; of MODEL.tokenizer.bin, tok512.bin (of a vocabulary of 512), tokenizer.bin or what a folder of Hugging Face
    holds."""
    for file in (path.with_suffix(".tokenizer.bin"), path.with_name(f"tok{vocab}.bin"), path.with_name("tokenizer.bin")):
        if file.exists():
            return convert("from_llama2c", data=read_bytes(file, TOKENIZER_LIMIT), vocab=vocab, name=file.name)
    return vocabulary.from_folder(path.parent)["tokenizer"]


def load_llama2c(path, progress=None, rule="int8", limit=LENGTH_MAX):
    """Checkpoint of a file. rule: of matrices that hold any floats (`matrices`). Raises ValueError with one clear line."""
    path = pathlib.Path(path)
    try:
        file = File(path)
        shape, version, start = _header(file)
        reader = _Reader(file, shape, version, start, rule, limit)
        return assemble(reader, shape, rule if reader.rule == rule else "ternary", progress, limit,
            tokenizer = _tokenizer(path, shape["vocab"]),
            name = path.stem,
            bos  = BOS,
            ends = (EOS,),
            quantised_activations = False)
    except ValueError as error:
        raise naming(path, error) from error
