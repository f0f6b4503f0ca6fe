#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The head's formats: int8 rows, ternary rows, or a shortlist by ternary rows that int8 rows then score exactly.

A row of ternary planes holds its weights in balanced base 3, the most significant plane first. The planes stand one after another in
one row of ``planes·hidden`` trits, and the x of plane i is x8 divided by 3**i: one pass of the ternary matmul gives the sum of all of them.
"""

import dataclasses

import numpy as np

from litetern.model.formats.stream import BEAT_BYTES, ROW_WEIGHTS_MAX, TOPK_MAX, row_beats
from litetern.model.formats.trits import pack_ternary
from litetern.model.numerics.quantised import SCALE_MIN, TernaryHead

HEADS      = ("int8", "ternary", "hybrid")
PLANES_MAX = 3
PLANES     = {"ternary": 1, "hybrid": 2}
UNITS      = {1: 1.2, 2: 0.55, 3: 0.2}  # Unit of the lowest plane in mean|W|: measured best on the story model.
FLOOR      = np.float32(-2.0**30)       # Logit of a row outside the shortlist: so far below all others that sampling never picks it.
SHARE      = 128                        # A shortlist is 1/128 of the vocabulary by default.

# Numerics -----------------------------------------------------------------------------------------


def plane_inputs(x8, planes):
    """int8 [..., planes·n]: x8 / 3**i of each plane, rounded to nearest (there is no half) in integers."""
    x = np.asarray(x8, np.int32)
    return np.concatenate([(x + (3**i)//2)//3**i for i in range(planes)], axis=-1).astype(np.int8)

# Pack ---------------------------------------------------------------------------------------------


def ternary_planes(weights, planes=1, by_rows=True):
    """(int8 [rows, planes·columns] of −1, 0, +1, float32 [rows] steps) of float [rows, columns].

    The unit follows mean|W| of each row, or of all rows so that sums of different rows compare; steps are the least-squares fit,
    of each row or of all.
    """
    weights = np.asarray(weights, np.float32)
    mean    = np.abs(weights).mean(axis=1 if by_rows else None, keepdims=True, dtype=np.float64)
    unit    = np.maximum(mean*UNITS[planes], SCALE_MIN).astype(np.float32)
    limit   = (3**planes - 1)//2
    whole   = np.clip(np.rint(weights/unit), -limit, limit).astype(np.int32)
    top     = whole/np.float64(3**(planes - 1))
    axis    = 1 if by_rows else None
    fit     = (weights*top).sum(axis=axis, keepdims=True)/np.maximum((top*top).sum(axis=axis, keepdims=True), 1e-30)
    steps   = np.broadcast_to(np.maximum(fit, SCALE_MIN), (len(weights), 1))[:, 0].astype(np.float32)
    trits   = []
    for _ in range(planes):
        trits.insert(0, (whole + 1) % 3 - 1)
        whole = (whole - trits[0])//3
    return np.concatenate(trits, axis=1).astype(np.int8), steps


def shortlist_of(vocab):
    """Rows of a shortlist by default."""
    return max(1, min(TOPK_MAX, vocab//SHARE))


def planes_of(kind, hidden):
    """Planes of a "ternary" or "hybrid" head by default: fewer where a row of them would be too long."""
    return min(PLANES[kind], ROW_WEIGHTS_MAX//hidden)


def head_bytes(vocab, hidden, kind="int8", planes=None, shortlist=None):
    """Bytes of head rows that a token reads; arguments as for `with_head`."""
    if kind == "int8":
        return vocab*hidden
    planes = planes or planes_of(kind, hidden)
    return vocab*row_beats(planes*hidden)*BEAT_BYTES + (kind == "hybrid")*(shortlist or shortlist_of(vocab))*hidden


def head_shape(config, kind="int8", planes=None, shortlist=None):
    """(planes, shortlist) of a head for a ModelConfig, 0 where it has none; arguments as for `with_head`. Raises ValueError."""
    if kind not in HEADS:
        raise ValueError(f"head {kind!r}: must be one of {', '.join(HEADS)}")
    if kind == "int8":
        return 0, 0
    planes = planes or planes_of(kind, config.hidden)
    if not 1 <= planes <= min(PLANES_MAX, ROW_WEIGHTS_MAX//config.hidden):
        raise ValueError(f"{planes} planes: must be 1 to {min(PLANES_MAX, ROW_WEIGHTS_MAX//config.hidden)}")
    shortlist = shortlist or shortlist_of(config.vocab)
    if not 1 <= shortlist <= min(TOPK_MAX, config.vocab):
        raise ValueError(f"shortlist of {shortlist} rows: must be 1 to {min(TOPK_MAX, config.vocab)}")
    return planes, shortlist if kind == "hybrid" else 0


def with_head(model, kind="int8", planes=None, shortlist=None):
    """The QuantisedModel with another head, made from its int8 rows.

    kind      : of `HEADS`.
    planes    : 1 to 3; by default `PLANES`.
    shortlist : rows that "hybrid" scores exactly, at most `TOPK_MAX`; by default `shortlist_of` the vocabulary.
    Raises ValueError.
    """
    planes, shortlist = head_shape(model.config, kind, planes, shortlist)
    if model.head is None:
        raise ValueError(f"{model.name} holds no int8 head any more: pack its checkpoint")
    if kind == "int8":
        return dataclasses.replace(model, ternary=None)
    trits, steps = ternary_planes(model.head*model.head_steps[:, None], planes, by_rows=kind == "ternary")
    return dataclasses.replace(model, ternary=TernaryHead(pack_ternary(trits), planes, steps, shortlist))
