#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Activation of the resident path: x·TABLE(x), the table being the sigmoid (SiLU), the normal distribution (GELU) or a step (ReLU).

One table of 1,024 entries serves all three: for negative x it holds 1 − TABLE(−x). The image brings it, so that another model's
activation needs no rebuild.
"""

import math

import numpy as np

from litetern.model.resident.fixed import shift_round

FRACTION    = 10         # Gate and up are fixed point of 16 bits with so many behind the point: ±32.
BITS        = 16
INDEX_SHIFT = 3          # The table has steps of 2**-7 and ends at 8, with what is closest to 1.
ENTRIES     = 1024
ONE         = 1 << 15    # Entries are uint16 in units of 2**-15.
HIDDEN_BITS = 18         # Of activation(gate)·up.

_CURVES = {
    "silu" : lambda x: 1/(1 + math.exp(-x)),
    "gelu" : lambda x: 0.5*(1 + math.erf(x/math.sqrt(2))),
    "relu" : lambda x: 1.0,
}
ACTIVATIONS = tuple(_CURVES)


def activation_table(name):
    """int64 [ENTRIES]: entry i at x = (i + 1/2)/128."""
    if name not in _CURVES:
        raise ValueError(f"activation {name!r}: must be one of {', '.join(ACTIVATIONS)}")
    return np.array([round(ONE*_CURVES[name]((i + 0.5)/128)) for i in range(ENTRIES)], np.int64)


def activate(gate, table):
    """gate·table(gate): int64 of BITS bits, in and out."""
    share = table[np.minimum(np.abs(gate) >> INDEX_SHIFT, ENTRIES - 1)]
    return shift_round(gate*np.where(gate < 0, ONE - share, share), 15)


def gated(gate, up, table, hidden_shift, clip):
    """activation(gate)·up / 2**hidden_shift, saturated to HIDDEN_BITS bits."""
    return clip(shift_round(activate(gate, table)*up, hidden_shift), HIDDEN_BITS, "activation")
