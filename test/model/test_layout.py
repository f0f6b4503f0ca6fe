#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Words, structs and trits: what is written is what is read, and what cannot be written is refused."""

import ctypes

import numpy as np
import pytest

from hypothesis import given, strategies as st

from litetern.model.common.layout import Field, Struct, Word
from litetern.model.formats import engine, stream
from litetern.model.formats.image import STRUCTS
from litetern.model.formats.trits import pack_ternary, unpack_ternary
from litetern.model.numerics.circuits import AttentionParameters, attention, matmul, reduce_rows, scores

# Words --------------------------------------------------------------------------------------------


@given(word=st.sampled_from(stream.WORDS), data=st.data())
def test_words_survive_packing(word, data):
    values = {f.name: data.draw(st.integers(0, f.mask)) for f in word.fields if f.name != "magic"}
    packed = word.pack(**values)
    assert packed < 1 << 64
    assert {name: value for name, value in word.unpack(packed).items() if name != "magic"} == values
    assert word.magic is None or word.unpack(packed)["magic"] == word.magic


def test_headers_are_told_apart_by_their_magic():
    assert len({word.magic for word in (stream.MATMUL_HEADER, stream.K_HEADER, stream.V_HEADER)}) == 3


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"MATMUL_HEADER.rows = 16777216: must lie in 0 … 16777215"):
        stream.MATMUL_HEADER.pack(rows=1 << 24)
    with pytest.raises(ValueError, match="has no field 'row'"):
        stream.MATMUL_HEADER.pack(row=1)


def test_overlapping_fields_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        Word("W", "", [Field("a", 0, 8, ""), Field("b", 7, 8, "")])


def test_structs_have_no_padding():
    for struct in STRUCTS:
        assert struct.size == sum(int(kind[1:]) if kind[0] == "S" else 4*int(kind[3:-1] or 1) for _, kind, _ in struct.members)
    with pytest.raises(ValueError, match="must be one of"):
        Struct("s", "", [("a", "u8", "")])
    with pytest.raises(ValueError, match="must be one of"):
        Struct("s", "", [("a", "u4[x]", "")])
    assert Struct("s", "", [("a", "u4[3]", ""), ("b", "i4", "")]).dtype["a"].shape == (3,)


@given(address=st.integers(0, 2**29 - 1), length=st.integers(1, 2**26))
def test_descriptor(address, length):
    word = stream.DESCRIPTOR.unpack(stream.descriptor(8*address, 8*length, last=True))
    assert word == {"last": 1, "irq": 0, "address": address, "length": length}


@pytest.mark.parametrize("address, length", [(4, 8), (8, 12), (8, 0)])
def test_unaligned_descriptors_are_refused(address, length):
    with pytest.raises(ValueError, match="must be"):
        stream.descriptor(address, length)


@pytest.mark.parametrize("weights, format, beats", [(1, 0, 1), (40, 0, 1), (41, 0, 2), (1536, 0, 39), (4096, 0, 103), (16384, 0, 410), (16384, 1, 2048)])
def test_row_beats(weights, format, beats):
    assert stream.row_beats(weights, format) == beats


@pytest.mark.parametrize("weights, format", [(0, 0), (16385, 0), (8, 2)])
def test_rows_that_no_core_takes(weights, format):
    with pytest.raises(ValueError, match="must be"):
        stream.row_beats(weights, format)

# Trits --------------------------------------------------------------------------------------------


@given(rows=st.integers(1, 6), columns=st.integers(1, 130), seed=st.integers(0, 2**32 - 1))
def test_trits_survive_packing(rows, columns, seed):
    weights = np.random.default_rng(seed).integers(-1, 2, (rows, columns), dtype=np.int8)
    packed  = pack_ternary(weights)
    assert packed.shape == (rows, 8*stream.row_beats(columns)) and packed.max() <= 242
    np.testing.assert_array_equal(unpack_ternary(packed, columns), weights)


def test_first_trit_is_the_lowest_digit():
    assert pack_ternary(np.array([[1, 0, 0, 0, -1]], np.int8))[0, 0] == 2 + 3 + 9 + 27


def test_what_is_not_ternary_is_refused():
    with pytest.raises(ValueError, match="from -1 to 2"):
        pack_ternary(np.array([[-1, 2]], np.int8))
    with pytest.raises(ValueError, match="must be int8"):
        pack_ternary(np.array([[0.5]]))
    with pytest.raises(ValueError, match="byte 243"):
        unpack_ternary(np.full((1, 8), 243, np.uint8), 40)

# Circuits -----------------------------------------------------------------------------------------


def test_exp_table_must_end():
    assert AttentionParameters().exp_table()[0] == 255
    with pytest.raises(ValueError, match="entry 255 is"):
        AttentionParameters(steps_per_nat=64).exp_table()


def test_attention_of_one_position_is_its_value():
    q, k, v = (np.full((1, 8), value, np.int8) for value in (3, -5, -128))
    numerators, denominator, maximum = attention(q[0], k, v, 131071, 1)
    assert denominator == 255 and (numerators == -128*255).all() and maximum == (8*-15*131071) >> 20


def test_attention_of_a_batch_is_that_of_its_queries():
    """With axes [KV heads, sessions, queries], each query against Python's whole numbers: the largest values, too, are exact."""
    random     = np.random.default_rng(1)
    q, k, v    = (random.choice(np.array([-128, -3, 0, 2, 127], np.int8), shape) for shape in ((2, 3, 4, 128), (2, 3, 9, 128), (2, 3, 9, 128)))
    mantissa   = random.integers(0, 1 << 17, (2, 3, 4))
    exponent   = random.integers(0, 4, (2, 3, 4))
    numerators, denominators, maxima = attention(q, k, v, mantissa, exponent)
    table = AttentionParameters().exp_table()
    for at in np.ndindex(2, 3, 4):
        dots = [sum(int(a)*int(b) for a, b in zip(q[at], row)) for row in k[at[:2]]]
        s    = [max(-32768, min(32767, dot*int(mantissa[at]) >> 24 - 4*int(exponent[at]))) for dot in dots]
        e    = [int(table[min(255, max(s) - score)]) for score in s]
        assert maxima[at] == max(s) and denominators[at] == sum(e)
        assert numerators[at].tolist() == [sum(weight*int(row[i]) for weight, row in zip(e, v[at[:2]])) for i in range(128)]
        assert scores(q[at], k[at[:2]], mantissa[at], exponent[at]).tolist() == s


@pytest.mark.parametrize("multiplier, message", [((1 << 17, 0), "mantissa 131072: must lie in 0 … 131071"), ((1, 4), "exponent 4: must lie in 0 … 3"),
    (([[3, -1]], 0), "mantissa -1: must lie in 0 … 131071")])
def test_multipliers_beyond_the_core_are_refused(multiplier, message):
    with pytest.raises(ValueError, match=message):
        attention(np.zeros((1, 2, 8), np.int8), np.zeros((1, 3, 8), np.int8), np.zeros((1, 3, 8), np.int8), *multiplier)


@pytest.mark.parametrize("columns", [1023, 1024, 16384])
def test_sums_of_long_rows_are_exact(columns):
    """On both sides of the length from which float32 does not hold every sum."""
    weights = np.full((2, columns), -128, np.int8)
    weights[1, 0] = 127
    x       = np.array([[-128]*columns, [127]*(columns - 1) + [126]], np.int8)
    assert matmul(weights, x).tolist() == (weights.astype(object) @ x.astype(object).T).tolist()
    assert matmul(weights.astype(np.float32), x).tolist() == (weights.astype(object) @ x.astype(object).T).tolist()


def test_of_equal_rows_the_lower_one_is_first():
    assert reduce_rows(np.array([[1], [7], [7], [-2]]), stream.REDUCE_TOPK, 3).tolist() == [[1, 2, 0]]
    assert reduce_rows(np.array([[1], [7], [7], [-2]]), stream.REDUCE_ARGMAX).tolist() == [[1]]

# Interfaces of C ----------------------------------------------------------------------------------


@pytest.mark.parametrize("struct", engine.INTERFACES, ids=lambda struct: struct.name)
def test_structs_lie_as_the_compiler_lays_them(struct):
    """numpy's and ctypes' layouts of this machine; the firmware's tests see that of 32 bits."""
    pointer = ctypes.sizeof(ctypes.c_void_p)
    dtype   = struct.dtype(pointer)
    assert dtype.itemsize == ctypes.sizeof(struct.ctypes)
    assert {name: dtype.fields[name][1] for name in dtype.names} == {name: getattr(struct.ctypes, name).offset for name in dtype.names}


def test_enums_count_from_zero_or_are_bits():
    assert [getattr(engine.PART, name.upper()) for name in engine.PART.names] == list(range(len(engine.PART)))
    errors = engine.LIST_ERROR.MAGIC | engine.LIST_ERROR.WRITER_OVERRUN
    assert engine.LIST_ERROR.of(errors) == ["writer_overrun", "magic"] and engine.status_names("matmul", errors) == ["writer_overrun", "matmul_magic"]
