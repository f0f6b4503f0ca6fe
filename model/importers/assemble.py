#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What all importers share: a shape and a reader of tensors become a `Checkpoint`.

A reader is an object with ::

    matrix(layer, key, shape)   (int8 [out, in], scale) of "q", "k", "v", "o", "gate", "up", "down"
    gain(layer, key, width)     float32 [width] of "attn_norm", "ffn_norm", "o_norm", "down_norm"
    final_norm(width)           float32 [width]
    table(key, shape)           float32 [vocab, hidden] of "embedding", "head"

Each is asked once, in the order in which a token needs them, so that a checkpoint passes through memory tensor by tensor.
"""

import numpy as np

from litetern.model.formats.checkpoint import Checkpoint
from litetern.model.formats.config import ModelConfig, gain_widths, matrix_shapes
from litetern.model.formats.image import image_parts, LENGTH_MAX
from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY
from litetern.model.importers import vocabulary
from litetern.model.importers.matrices import Columns

GRANULE = 8  # Widths are multiples of it (model.config).

# Shape --------------------------------------------------------------------------------------------


class TooLarge(ValueError):
    """A checkpoint of `shape` whose image, with matrices of `weights`, has no room."""
    def __init__(self, text, shape, weights):
        super().__init__(text)
        self.shape, self.weights = shape, weights


def check_fits(shape, weights, name, limit=LENGTH_MAX):
    """TooLarge with the arithmetic where an image has more than `limit` bytes, whatever the context."""
    parts = image_parts(model_config({**shape, "context": 1}), FORMAT_TERNARY if weights == "ternary" else FORMAT_INT8)
    total = sum(parts.values())
    if total > limit:
        mib = lambda size: f"{size/2**20:,.0f} MiB"
        raise TooLarge(f"{name} does not fit: {shape['layers']} layers take {mib(parts['weights'])} of {weights} weights, int8 "
            f"{'embedding (also the head)' if shape['tied'] else 'embedding and head'} of {shape['vocab']:,} x {shape['hidden']:,} take "
            f"{mib(parts['embedding'] + parts['head'])}, with norms together {mib(total)}; there is room for {mib(limit)}",
            shape, weights)


def model_config(shape):
    """ModelConfig of a shape; the feed-forward width is rounded up to whole beats (`assemble` adds zero weights)."""
    return ModelConfig(**{**shape, "ffn": -(-shape["ffn"]//GRANULE)*GRANULE})

# Padding ------------------------------------------------------------------------------------------


def _fold_columns(layer, key, before, norm, heads=None):
    """Gives the scales of a matrix's columns to the gain of the norm before it or, without one, to the rows of the matrix that make its x.

    heads: (KV heads, query heads per KV head) where x is of query heads and these rows of KV heads.
    """
    weights, scale = layer[key]
    if not isinstance(scale, Columns):
        return
    common = np.float32(scale.scales.mean(dtype=np.float64))
    ratios = scale.scales/common
    if norm in layer:
        layer[norm] = layer[norm]*ratios
    else:
        if heads:
            ratios = ratios.reshape(*heads, -1)
            if not np.array_equal(ratios, np.broadcast_to(ratios[:, :1], ratios.shape)):
                raise ValueError(f"matrix {key}: its columns have scales that differ within the query heads of a KV head")
            ratios = ratios[:, 0].reshape(-1)
        rows, scales  = layer[before]
        layer[before] = rows, np.float32(scales)*ratios if np.ndim(scales) == 0 else scales*ratios
    layer[key] = weights, common


def _pad_ffn(layer, ffn, padded):
    """Zero rows of gate and up, zero columns of down: the added activations are 0.

    The norm before down divides by the padded width, so its gain makes up for that: √(ffn/padded).
    """
    extra = padded - ffn
    for key, sides in (("gate", ((0, extra), (0, 0))), ("up", ((0, extra), (0, 0))), ("down", ((0, 0), (0, extra)))):
        weights, scale = layer[key]
        if key != "down" and np.ndim(scale):
            scale = np.pad(scale, (0, extra), constant_values=1)
        layer[key] = np.pad(weights, sides), scale
    if "down_norm" in layer:
        layer["down_norm"] = np.pad(layer["down_norm"]*np.float32(np.sqrt(ffn/padded)), (0, extra))


def interleaved_to_halves(weights, heads):
    """Rows of q or k whose RoPE pairs are neighbours (0, 1), (2, 3) …, in our order: pairs are half a head apart."""
    return weights.reshape(heads, -1, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)

# Assemble -----------------------------------------------------------------------------------------


def assemble(reader, shape, weights="ternary", progress=None, limit=LENGTH_MAX, **about):
    """Checkpoint of a reader. shape: fields of ModelConfig; about: the other fields of Checkpoint. Raises ValueError.

    progress: None or a function (blocks read, blocks). limit: see `check_fits`.
    """
    check_fits(shape, weights, about.get("name", "the checkpoint"), limit)
    config = model_config(shape)
    vocabulary.check_size(about.get("tokenizer"), config.vocab)
    layers = []
    for index in range(config.layers):
        if progress:
            progress(index, config.layers)
        layer  = {key: reader.matrix(index, key, size) for key, size in matrix_shapes(shape).items()}
        layer |= {key: reader.gain(index, key, width) for key, width in gain_widths(shape).items()}
        _fold_columns(layer, "o", "v", "o_norm", (config.kv_heads, config.group))
        _fold_columns(layer, "down", "up", "down_norm")
        for key in matrix_shapes(shape):
            if isinstance(layer[key][1], Columns):
                raise ValueError(f"matrix {key} of block {index}: its columns have scales of their own, which only o and down may")
        if config.ffn != shape["ffn"]:
            _pad_ffn(layer, shape["ffn"], config.ffn)
        layers.append(layer)
    size = (shape["vocab"], shape["hidden"])
    return Checkpoint(config, layers,
        embedding  = reader.table("embedding", size),
        final_norm = reader.final_norm(shape["hidden"]),
        head       = None if config.tied else reader.table("head", size),
        weights    = weights,
        **about)
