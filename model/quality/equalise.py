#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Equalised int8 bodies: factors of channels go from activations into weights, so that int8 holds both well. The model stays the same.

int8 activations share a step per vector, int8 keys a step per KV head: a channel far larger than the others takes their bits. Where a
channel of x is divided by s and the column that multiplies it is multiplied by s, nothing changes but what rounding sees:

=============  ================================  ==================================
channels of    are divided in                    are multiplied in
=============  ================================  ==================================
x of q, k, v   the gain of the norm before       columns of q, k, v
x of gate, up  the gain of the norm before       columns of gate, up
x of down      rows of up                        columns of down
K              rows of k                         rows of q of the same KV head
=============  ================================  ==================================

Both channels of a RoPE pair share a factor, since the rotation mixes them. The largest channel of a KV head keeps its size, so that steps
which were measured before still hold. Rows have steps of their own: factors of rows cost nothing; columns are rounded again.

Factors are s = a**alpha/b**beta of the largest activations a and weights b of each channel. How far to go is chosen for each group of each
layer, by the estimated energy of what both roundings add to its results on a text.
"""

import dataclasses

import numpy as np

from litetern.model.formats.checkpoint import MATRICES
from litetern.model.formats.config import GROUPS
from litetern.model.numerics.quantised import absmax_rows
from litetern.model.numerics.reference import ReferenceModel

TOKENS_MAX   = 512   # Tokens of the text that are looked at, …
WINDOW       = 256   # … in windows of so many.
ALPHAS       = (0, 0.25, 0.5, 0.75, 1)
BETAS        = (0, 0.25, 0.5, 0.75)
RANGE        = 1e-4  # Channels count as large as this share of the largest: none is blown up without bound.
WEIGHT_RANGE = 1e-3  # Likewise of weights, and of K and q.
CAUTION      = {"qkv": 1, "gate_up": 1, "down": 4}  # Weight of the errors of rounded weights, which are the same for each token and add up.

# Factors ------------------------------------------------------------------------------------------


def _scaled(values):
    """float32 of an array over its largest absolute value, so that no square leaves float32."""
    return (values/max(np.abs(values).max(), 1e-30)).astype(np.float32)


def _floats(matrix):
    """float32 [out, in] of (int8 or float32 [out, in], scale or float32 [out] scales)."""
    weights, scale = matrix
    return weights*np.broadcast_to(np.asarray(scale, np.float32), len(weights))[:, None]


def column_factors(x, matrices, relative=None, caution=1):
    """float32 [columns]: what x is divided by and the columns of `matrices` are multiplied by, of geometric mean 1.

    x        : float32 [tokens, columns].
    matrices : [(int8 or float32 [out, columns], scale or scales), …].
    relative : float32 [tokens], the size against which a token's error counts; None: that of its x.
    caution  : weight of the errors of rounded weights beside those of rounded x.
    """
    size    = np.sqrt((x.astype(np.float64)**2).sum(axis=1)) if relative is None else relative.astype(np.float64)
    largest = np.abs(x).max(axis=1, keepdims=True)
    parts   = np.abs(x)/np.maximum(largest, 1e-30)
    token   = (largest[:, 0]/np.maximum(size, 1e-30))**2  # Energy that an error of one part brings.
    weights = np.abs(_scaled(np.concatenate([_floats(matrix) for matrix in matrices])))
    a       = np.maximum(parts.max(axis=0), RANGE)
    b       = np.maximum((weights/np.maximum(weights.max(axis=1, keepdims=True), 1e-30)).max(axis=0), WEIGHT_RANGE)
    columns = (weights*weights).sum(axis=0, dtype=np.float64)
    energy  = (parts.astype(np.float64)**2*token[:, None]).sum(axis=0)
    best    = None
    for alpha, beta in ((alpha, beta) for alpha in ALPHAS for beta in BETAS):
        s      = np.log(a)*alpha - np.log(b)*beta
        s      = np.exp(s - s.mean()).astype(np.float32)
        error  = ((parts/s).max(axis=1).astype(np.float64)**2*token).sum()*(s.astype(np.float64)**2*columns).sum()
        error += caution*((weights*s).max(axis=1).astype(np.float64)**2).sum()*(energy/s**2).sum()
        if best is None or error < best[0]:  # Factors of 1 come first.
            best = error, s
    return best[1]


def key_factors(q, k):
    """float32 [kv_heads, head_dim]: what K is divided by and q multiplied by, at most 1, the same for both channels of a RoPE pair.

    q: float32 [tokens, heads, head_dim]; k: float32 [tokens, kv_heads, head_dim], both rotated.
    """
    tokens, heads, width = k.shape
    q, k   = (np.abs(_scaled(part)).reshape(tokens, heads, -1, 2, width//2) for part in (q, k))
    squares = lambda part: (part.astype(np.float64)**2).sum(axis=3).sum(axis=2)  # [tokens, kv_heads, pairs]
    q2, k2 = squares(q).mean(axis=0), squares(k).mean(axis=0)
    q, k   = q.max(axis=3), k.max(axis=(2, 3)).max(axis=0)
    floor  = lambda size: np.maximum(size, np.maximum(size.max(axis=-1, keepdims=True)*WEIGHT_RANGE, 1e-30))
    a, b   = floor(k), floor(np.sqrt(q2))
    best   = [np.full(heads, np.inf), np.ones((heads, width//2), np.float32)]
    for alpha, beta in ((alpha, beta) for alpha in ALPHAS for beta in BETAS):
        s     = np.log(a)*alpha - np.log(b)*beta
        s     = np.exp(s - s.max(axis=-1, keepdims=True)).astype(np.float32)
        error = (k/s).max(axis=-1).astype(np.float64)**2*(q2*s**2).sum(axis=-1)  # Of K's fixed step …
        error += ((q*s[:, None]).max(axis=-1).astype(np.float64)**2).mean(axis=(0, 2))*(k2/s**2).sum(axis=-1)  # … and of q's own.
        better = error < best[0]
        best   = [np.where(better, error, best[0]), np.where(better[:, None], s, best[1])]
    return np.tile(best[1], 2)

# Checkpoint ---------------------------------------------------------------------------------------


def _scale(matrix, rows=None, columns=None):
    """A matrix with rows and columns multiplied by float32 factors (None: 1)."""
    weights, scale = matrix
    rows    = np.float32(1) if rows is None else rows
    return (weights, np.asarray(scale*rows, np.float32)) if columns is None else (weights*columns, np.asarray(scale*rows, np.float32))


def _round(matrix):
    """(int8, float32 [out] steps) of a matrix; an int8 one is that already."""
    weights, scale = matrix
    if weights.dtype == np.int8:
        return matrix
    rounded, steps = absmax_rows(weights)
    return rounded, (steps*scale).astype(np.float32)


def _apply(layer, factors, config):
    """A layer with factors {"qkv", "gate_up", "down", "k"}."""
    k     = factors["k"]
    q     = np.repeat(k, config.group, axis=0).reshape(-1)
    rows  = {"q": q, "k": 1/k.reshape(-1), "up": 1/factors["down"]}
    layer = dict(layer, attn_norm=layer["attn_norm"]/factors["qkv"], ffn_norm=layer["ffn_norm"]/factors["gate_up"])
    for group, names in GROUPS.items():
        for name in names:
            layer[name] = _scale(layer[name], rows.get(name), factors.get(group))
    return layer


def equalisable(checkpoint):
    """Whether equalising serves: models that were trained with int8 activations are as they want to be, ternary weights have no rows' steps."""
    return checkpoint.weights != "ternary" and not checkpoint.quantised_activations and not checkpoint.config.sub_norms


def factors(checkpoint, tokens):
    """[{"qkv", "gate_up", "down": float32 [columns], "k": float32 [kv_heads, head_dim]}] of the layers, from a text.

    tokens: int [n]; the first `TOKENS_MAX` are looked at.
    """
    config  = checkpoint.config
    length  = max(1, min(WINDOW, config.context, len(tokens)))
    count   = max(1, min(TOKENS_MAX, len(tokens))//length)
    layers  = [{} for _ in checkpoint.layers]
    queries = {}

    def see_x(index, group, x, stream):
        if group not in CAUTION:
            return
        relative = np.sqrt((stream.astype(np.float64)**2).sum(axis=-1)).reshape(-1) if group == "down" else None
        matrices = [checkpoint.layers[index][name] for name in GROUPS[group]]
        layers[index][group] = column_factors(x.reshape(-1, x.shape[-1]), matrices, relative, CAUTION[group])

    def see_heads(index, name, value):
        value = value.reshape(-1, *value.shape[2:])
        if name == "q":
            queries[index] = value
        elif name == "k":
            layers[index]["k"] = key_factors(queries.pop(index), value)

    ReferenceModel(checkpoint, see_heads, see_x).states(np.asarray(tokens[:count*length]).reshape(count, length))
    return layers


def equalise(checkpoint, tokens, floats=None):
    """The same model as a Checkpoint that int8 holds better, or the very checkpoint where it is not `equalisable`.

    tokens : int [n] of a text; the first `TOKENS_MAX` are looked at.
    floats : a function that gives the Checkpoint whose floats an int8 one is rounded from: they are then rounded once, not twice, which is half
             of all that rounding costs. It is called late, and its layers are dropped one by one.
    """
    if not equalisable(checkpoint):
        return checkpoint
    found, source, layers = factors(checkpoint, tokens), checkpoint, []
    if floats is not None and checkpoint.weights == "int8":
        source = floats()
    for index, factor in enumerate(found):
        layer = _apply(source.layers[index], factor, checkpoint.config)
        if checkpoint.weights == "int8":
            layer |= {name: _round(layer[name]) for name in MATRICES}
        if source is not checkpoint:
            source.layers[index] = None
        layers.append(layer)
    return dataclasses.replace(checkpoint, layers=layers)
