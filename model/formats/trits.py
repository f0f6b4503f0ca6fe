#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Ternary weights, 5 trits a byte: byte = Σ (w[i] + 1)·3**i, 0 … 242 (1.6 bits a weight)."""

import numpy as np

from litetern.model.formats.stream import TERNARY_PER_BEAT, TRITS_PER_BYTE, row_beats

TRIT_VALUES = 3**TRITS_PER_BYTE

_POWERS = 3**np.arange(TRITS_PER_BYTE, dtype=np.uint8)

# The decode table of numpy, C and gateware: [256, 5] int8. Bytes that no packer writes (243 … 255) hold zeros.
DECODE = np.zeros((256, TRITS_PER_BYTE), dtype=np.int8)
DECODE[:TRIT_VALUES] = (np.arange(TRIT_VALUES)[:, None]//_POWERS % 3).astype(np.int8) - 1


def pack_ternary(weights):
    """Packs int8 [rows, columns] of −1, 0, +1 into uint8 [rows, 8·beats]; the tail of a row is padded with zero weights."""
    weights = np.asarray(weights)
    if weights.ndim != 2 or weights.dtype != np.int8:
        raise ValueError(f"weights {weights.dtype}{list(weights.shape)}: must be int8 [rows, columns]")
    if weights.size and (weights.min() < -1 or weights.max() > 1):
        raise ValueError(f"weights from {weights.min()} to {weights.max()}: ternary weights are -1, 0 or +1")
    rows, columns = weights.shape
    digits = np.ones((rows, row_beats(columns)*TERNARY_PER_BEAT), dtype=np.uint8)
    digits[:, :columns] = weights + 1
    return digits.reshape(rows, -1, TRITS_PER_BYTE) @ _POWERS


def unpack_ternary(packed, columns):
    """Inverse of `pack_ternary`: int8 [rows, columns]. Raises ValueError for a byte above 242."""
    packed = np.asarray(packed, dtype=np.uint8)
    if packed.size and packed.max() >= TRIT_VALUES:
        raise ValueError(f"byte {packed.max()} in ternary weights: 5 trits make at most {TRIT_VALUES - 1}")
    return DECODE[packed].reshape(packed.shape[0], -1)[:, :columns]
