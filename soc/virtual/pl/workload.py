#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Synthetic work for lanes: groups and heads laid out in memory as the firmware lays them out, with the results to expect."""

import numpy as np

from litetern.model.formats.stream import (
    BEAT_BYTES, FORMAT_TERNARY, K_HEADER, MATMUL_HEADER, QUERY_HEADER, REDUCE_NONE, REDUCE_TOPK, V_HEADER, row_beats, x_beats,
)
from litetern.model.formats.trits import DECODE, TRIT_VALUES
from litetern.model.numerics import circuits

ALIGNMENT = 128  # Bytes: a burst.

# Arena --------------------------------------------------------------------------------------------


class Arena:
    """Hands out pieces of `memory` (uint8, memory[0] at physical address `base`) from `first` on."""
    def __init__(self, memory, base=0, first=0):
        self.memory, self.base, self.next = memory, base, first or base

    def take(self, bytes, alignment=ALIGNMENT):
        """Reserves bytes; returns their address. Raises ValueError where the memory is full."""
        address   = -(-self.next//alignment)*alignment
        self.next = address + bytes
        if self.next > self.base + len(self.memory):
            raise ValueError(f"arena of {len(self.memory)} bytes: {bytes} more do not fit")
        return address

    def put(self, data, alignment=ALIGNMENT):
        """Stores an array; returns its piece (address, bytes)."""
        raw     = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        address = self.take(len(raw), alignment)
        self.view((address, len(raw)))[:] = raw
        return address, len(raw)

    def view(self, piece):
        """uint8 view of a piece (address, bytes)."""
        address, bytes = piece
        return self.memory[address - self.base:address - self.base + bytes]

# Matmul -------------------------------------------------------------------------------------------


class Group:
    """A matmul group of random weights: ``pieces`` to list, results of ``result_bytes`` bytes, `expected()` to compare them with.

    topk : 0, or records of a shortlist that take the place of the results (of one vector).
    """
    def __init__(self, arena, rng, rows, columns, format=FORMAT_TERNARY, vectors=1, topk=0):
        beats        = row_beats(columns, format)
        ternary      = format == FORMAT_TERNARY
        self.ternary = ternary
        self.packed  = rng.integers(0, TRIT_VALUES if ternary else 256, (rows, beats*BEAT_BYTES), dtype=np.uint8)
        self.x       = rng.integers(-127, 128, (vectors, x_beats(beats, format)*BEAT_BYTES), dtype=np.int8)
        self.topk    = topk
        header       = MATMUL_HEADER.pack(rows=rows, beats=beats, format=format, vectors=vectors,
            reduce=REDUCE_TOPK if topk else REDUCE_NONE, topk=topk)
        self.result_bytes = topk*BEAT_BYTES or -(-rows*vectors*4//BEAT_BYTES)*BEAT_BYTES
        # Header and x lie together (the CPU writes both), weights stay in the image.
        head        = np.concatenate([np.array([header], dtype="<u8").view(np.uint8), self.x.reshape(-1).view(np.uint8)])
        self.pieces = [arena.put(head), arena.put(self.packed)]
        self.beats  = sum(bytes for _, bytes in self.pieces)//BEAT_BYTES

    def expected(self):
        """Results as bytes: uint8 [result_bytes]."""
        weights = DECODE[self.packed].reshape(len(self.packed), -1) if self.ternary else self.packed.view(np.int8)
        words   = np.zeros(self.result_bytes//4, dtype="<i4")
        y       = circuits.matmul(weights, self.x)
        if self.topk:
            best = circuits.reduce_rows(y, REDUCE_TOPK, self.topk)[0]
            y    = np.stack([y[best, 0], best], axis=-1)
        words[:y.size] = y.reshape(-1)
        return words.view(np.uint8)

# Attention ----------------------------------------------------------------------------------------


class Head:
    """A KV head of random keys and values: ``key_pieces`` and ``value_pieces``, results of ``result_bytes`` bytes, `expected()`."""
    def __init__(self, arena, rng, rows, head_dim, queries=1, buffer=0, parameters=circuits.ATTENTION):
        shape             = dict(rows=rows, beats=head_dim//BEAT_BYTES, queries=queries, buffer=buffer)
        self.parameters   = parameters
        self.q            = rng.integers(-127, 128, (queries, head_dim), dtype=np.int8)
        self.keys         = rng.integers(-127, 128, (rows, head_dim), dtype=np.int8)
        self.values       = rng.integers(-127, 128, (rows, head_dim), dtype=np.int8)
        # Steps of 1/32 nat and q, k of real models fill 12 to 17 bits at a shift of 22.
        self.multipliers  = [dict(mantissa=int(m), exponent=1) for m in rng.integers(2500, 20000, queries)]
        self.result_bytes = 4*queries*(head_dim + 2)
        words             = [K_HEADER.pack(**shape)]
        for q, multiplier in zip(self.q, self.multipliers):
            words += [QUERY_HEADER.pack(**multiplier, length=rows), *q.view("<u8")]
        self.key_pieces   = [arena.put(np.array(words, dtype="<u8")), arena.put(self.keys)]
        self.value_pieces = [arena.put(np.array([V_HEADER.pack(**shape)], dtype="<u8")), arena.put(self.values)]
        self.beats        = sum(bytes for _, bytes in self.key_pieces + self.value_pieces)//BEAT_BYTES

    def expected(self):
        """Results as bytes: uint8 [result_bytes]."""
        words = []
        for q, multiplier in zip(self.q, self.multipliers):
            numerators, denominator, maximum = circuits.attention(q, self.keys, self.values, **multiplier, parameters=self.parameters)
            words += [*numerators, denominator, maximum]
        return np.array(words, dtype="<i4").view(np.uint8)


def interleave(heads):
    """Pieces of heads in the order that costs nothing: K0 K1 V0 K2 V1 … (heads alternate between the score buffers)."""
    pieces = list(heads[0].key_pieces)
    for head, following in zip(heads, heads[1:]):
        pieces += following.key_pieces + head.value_pieces
    return pieces + heads[-1].value_pieces
