#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Quantisers of the training network: integers in the forward pass, straight-through gradients.

All return the integers as floats and the scale beside them: value ≈ integers * scale.
"""

import torch

from litetern.model.formats.planes import PLANE_STEP, SCALE_MIN, levels

WEIGHT_LEVELS = {"ternary": 1, "int4": 7, "int8": 127} # Largest integer of a weight.

# Rounding -----------------------------------------------------------------------------------------

def straight_through(value, rounded):
    """`rounded` in the forward pass, the gradient of `value` in the backward pass."""
    return value + (rounded - value).detach()

# Weights ------------------------------------------------------------------------------------------

def quantize_weight(weight, kind="ternary"):
    """Integers (float tensor, same shape) and their scale.

    ternary    : one scale, the mean absolute value (BitNet).
    int4, int8 : symmetric, a scale `[rows, 1]` per row from its absolute maximum.
    """
    limit = WEIGHT_LEVELS[kind]
    if kind == "ternary":
        scale = weight.detach().abs().mean().clamp(min=SCALE_MIN)
    else:
        scale = weight.detach().abs().amax(dim=-1, keepdim=True).clamp(min=SCALE_MIN)/limit
    scaled = weight/scale
    return straight_through(scaled, scaled.round().clamp(-limit, limit)), scale

def quantize_planes(rows, planes):
    """Integers of `planes` balanced trits, ±1, ±4 or ±13, and a scale `[rows, 1]` per row."""
    limit  = levels(planes)
    scale  = PLANE_STEP[planes]*rows.detach().abs().mean(dim=-1, keepdim=True).clamp(min=SCALE_MIN)
    scaled = rows/scale
    return straight_through(scaled, scaled.round().clamp(-limit, limit)), scale

# Activations --------------------------------------------------------------------------------------

def quantize_rows(x, low=-128):
    """int8 integers (float tensor, same shape) and a scale per row: x ≈ integers * scale.

    A row is the last axis; ties round to even; the scale has the shape `[..., 1]`.
    """
    inverse = 127/x.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)
    scaled  = x*inverse
    return straight_through(scaled, scaled.round().clamp(low, 127)), 1/inverse

def quantize_table(table):
    """`table` rounded to int8 with one step (learned positions), as floats again."""
    step = table.detach().abs().max().clamp(min=1e-5)/127
    return straight_through(table, (table/step).round()*step)

def quantize_heads(x, limit):
    """`x` `[B, heads, T, dim]` rounded to int8 with a fixed step per head, as floats again.

    `limit` `[heads]` is the value that becomes 127; larger ones saturate.
    """
    step = (limit/127)[:, None, None]
    return straight_through(x, (x/step).round().clamp(-127, 127)*step)

@torch.no_grad()
def follow(limit, x, share=0.01):
    """Let `limit` `[heads]` follow the absolute maximum of `x` `[B, heads, T, dim]`, batch by batch."""
    largest = x.detach().abs().amax(dim=(0, 2, 3)).clamp(min=1e-3)
    limit.copy_(torch.where(limit > 0, limit + share*(largest - limit), largest))
