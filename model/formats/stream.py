#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The streams that the cores eat and the descriptors that feed them. All words are little-endian 64-bit beats.

Matmul stream: any number of groups ::

    [MATMUL_HEADER] [x: vectors × x_beats(format, beats)] [weights: rows × beats]

x is int8, vector after vector, zero-padded to its beats. Ternary beats hold 40 weights (8 bytes of 5 trits) and
need 5 beats of x each; int8 beats hold 8 weights and need 1. Results are int32, ``y[row, vector]`` in row-major order, two a beat
(first in the low half), the last beat of a group zero-padded. With a reduction, the results of a group are instead, for each vector,
its `MATMUL_RECORD`s in order (one for arg-max, ``topk`` for the shortlist; best first; of equal values the lower row first).

Attention stream: K records and V records, one of each per KV head, in any order that puts a K before the V that names its
score buffer ::

    [K_HEADER] [ [QUERY_HEADER] [q: head_dim int8] ] × queries  [K: rows × head_dim int8]
    [V_HEADER] [V: rows × head_dim int8]

Results leave after each V record: for each query ``head_dim`` int32 numerators, the int32 denominator, the int32 maximum score.

A lane touches the memory that software has allowed and no other: the registers ``read0_first``, ``read0_last``, ``read1_…`` name up to
two ranges for lists and their pieces, ``write0_…`` and ``write1_…`` two for results, in whole bursts; after the reset there are none. Each
cache line of a list, each piece, and the destination with its limit must lie within one of them. What does not ends the list with a
range error before anything of it is asked for. A piece, or a destination, never runs over 2**32.
"""

from litetern.model.common.layout import Field, Word

# Limits -------------------------------------------------------------------------------------------

BEAT_BYTES          = 8     # All ports and streams are 64 bits wide: the width of an HP port.
BURST_BEATS         = 16    # Longest AXI3 burst.
TRITS_PER_BYTE      = 5     # 3**5 = 243 values of a byte.
TERNARY_PER_BEAT    = BEAT_BYTES*TRITS_PER_BYTE
INT8_PER_BEAT       = BEAT_BYTES
ROW_WEIGHTS_MAX     = 16384
TOPK_MAX            = 256
HEAD_DIM_MAX        = 128

# A query's multiplier is mantissa and exponent: its score is (q·K × mantissa) >> (SHIFT_MAX − SHIFT_STEP·exponent). The shift is a choice
# of one in four for each bit of the score; whatever the size of q and K, a mantissa of 17 bits keeps 13 of them at the least.
MANTISSA_BITS_MAX   = 20
SHIFT_MAX           = 24
SHIFT_STEP          = 4
EXPONENT_MAX        = 3

FORMAT_TERNARY      = 0
FORMAT_INT8         = 1

REDUCE_NONE         = 0
REDUCE_ARGMAX       = 1
REDUCE_TOPK         = 2

# Matmul -------------------------------------------------------------------------------------------

MATMUL_HEADER = Word("MATMUL_HEADER", "Opens a group of the matmul stream.", [
    Field("rows",     0, 24, "Rows of the group, at least 1."),
    Field("beats",   24, 12, "Beats per row, at least 1."),
    Field("format",  36,  4, "Weight format: 0 ternary, 1 int8."),
    Field("vectors", 40,  4, "Vectors N that share this pass over the weights: 1, 2, 4 or 8."),
    Field("reduce",  44,  2, "Results: 0 every row, 1 arg-max, 2 top-K shortlist."),
    Field("topk",    46,  9, "Records of the shortlist (1 to 256); unused otherwise."),
    Field("magic",   56,  8, "0x4D; a stream that is out of step is caught here."),
], magic=0x4D)

MATMUL_RECORD = Word("MATMUL_RECORD", "A result of a reduction.", [
    Field("value",    0, 32, "int32 result of the row."),
    Field("row",     32, 32, "Row within the group."),
])

# Attention ----------------------------------------------------------------------------------------

K_HEADER = Word("K_HEADER", "Opens a K record: queries, then the keys of one KV head.", [
    Field("rows",     0, 16, "Positions T in this pass, at least 1."),
    Field("beats",   16,  5, "Beats per row: head_dim/8, 1 to 16."),
    Field("queries", 24,  5, "Query vectors that share this pass: query heads per KV head × queries, at least 1."),
    Field("buffer",  32,  1, "Score buffer that is filled."),
    Field("magic",   56,  8, "0x4B."),
], magic=0x4B)

QUERY_HEADER = Word("QUERY_HEADER", "Precedes each query vector of a K record.", [
    Field("mantissa",  0, MANTISSA_BITS_MAX,
        f"Of the multiplier: the score is (q·K × mantissa) >> ({SHIFT_MAX} − {SHIFT_STEP}·exponent). Not wider than the core's."),
    Field("exponent", 24, EXPONENT_MAX.bit_length(), "Of the multiplier."),
    Field("length",   32, 16, "Causal length: positions 0 … length - 1 take part, 1 to rows."),
])

V_HEADER = Word("V_HEADER", "Opens a V record: the values of one KV head.", [
    Field("rows",     0, 16, "Positions T: as in the K record that filled the buffer."),
    Field("beats",   16,  5, "Beats per row: as in the K record."),
    Field("queries", 24,  5, "Query vectors: as in the K record."),
    Field("buffer",  32,  1, "Score buffer that is used."),
    Field("magic",   56,  8, "0x56."),
], magic=0x56)

# Descriptor ---------------------------------------------------------------------------------------

# One beat per descriptor: addresses and lengths are multiples of 8 bytes, so their low bits carry the flags.
DESCRIPTOR = Word("DESCRIPTOR", "A piece of memory that the reader streams; a list of them runs from one doorbell.", [
    Field("last",     0,  1, "The list ends with this descriptor."),
    Field("irq",      1,  1, "Raise the interrupt when this descriptor has been read."),
    Field("address",  3, 29, "Byte address / 8."),
    Field("length",  35, 29, "Length in beats (bytes / 8), at least 1."),
])

WORDS = (MATMUL_HEADER, MATMUL_RECORD, K_HEADER, QUERY_HEADER, V_HEADER, DESCRIPTOR)

# Helpers ------------------------------------------------------------------------------------------


def row_beats(weights, format=FORMAT_TERNARY):
    """Beats of a row of `weights` weights."""
    if format not in (FORMAT_TERNARY, FORMAT_INT8):
        raise ValueError(f"weight format {format}: must be {FORMAT_TERNARY} (ternary) or {FORMAT_INT8} (int8)")
    if not 1 <= weights <= ROW_WEIGHTS_MAX:
        raise ValueError(f"row of {weights} weights: must be 1 to {ROW_WEIGHTS_MAX}")
    return -(-weights // (TERNARY_PER_BEAT if format == FORMAT_TERNARY else INT8_PER_BEAT))


def x_beats(beats, format=FORMAT_TERNARY):
    """Beats of one x vector for rows of `beats` beats."""
    return beats*(TRITS_PER_BYTE if format == FORMAT_TERNARY else 1)


def descriptor(address, length, last=False, irq=False):
    """Packs a descriptor; `address` and `length` in bytes, both multiples of 8."""
    for name, value in (("address", address), ("length", length)):
        if value % BEAT_BYTES:
            raise ValueError(f"descriptor {name} {value:#x}: must be a multiple of {BEAT_BYTES} bytes")
    if length < BEAT_BYTES:
        raise ValueError(f"descriptor length {length}: must be at least {BEAT_BYTES} bytes")
    return DESCRIPTOR.pack(last=last, irq=irq, address=address//BEAT_BYTES, length=length//BEAT_BYTES)
