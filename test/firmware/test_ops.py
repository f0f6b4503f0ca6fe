#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Each fp32 operation in C on every build beside numpy, bit for bit, up to the edges of its domain; no subnormal anywhere."""

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.model.formats.config import ACTIVATIONS
from litetern.model.formats.stream import EXPONENT_MAX, MANTISSA_BITS_MAX, SHIFT_MAX, SHIFT_STEP
from litetern.model.numerics import ops
from litetern.model.numerics.circuits import ATTENTION, AttentionParameters

from firmware_builds import firmware_build

F     = np.float32
WIDTH = st.integers(1, 40).map(lambda n: 8*n)
SEED  = st.integers(0, 2**32 - 1)
DRAWN = settings(max_examples=60, deadline=None, derandomize=True)

# What model.ops stores: 0, or from TINY up; no model comes near 2**30.
LOW, HIGH = -40, 30


def floats(seed, count, low=LOW, high=HIGH):
    """float32 [count] of all magnitudes from 2**low to 2**high, zeros and both edges among them."""
    random = np.random.default_rng(seed)
    width  = random.uniform(0, high - low)
    start  = random.uniform(low, high - width)
    values = random.choice([-1, 1], count)*2**random.uniform(start, start + width, count)
    edges  = [0.0, -0.0, 2.0**low, -2.0**low, 2.0**high, -2.0**high]
    where  = random.random(count) < random.choice([0, 0.1, 0.5])
    values[where] = random.choice(edges, where.sum())
    return values.astype(F)


def accumulators(seed, count):
    """int32 [count] of all magnitudes."""
    random = np.random.default_rng(seed)
    values = random.integers(-2**31, 2**31, count) >> random.integers(0, 31, count)
    values[random.random(count) < 0.1] = random.choice([0, 1, -1, 2**31 - 1, -2**31, 2**24 + 1])
    return values.astype(np.int32)


def scale(seed, low=-39, high=10):
    """A positive float32."""
    return F(2**np.random.default_rng(seed).uniform(low, high))


def same(expected, got):
    np.testing.assert_array_equal(np.asarray(expected).reshape(-1).view(np.uint8), np.asarray(got).reshape(-1).view(np.uint8))


# Norm and quantisers ------------------------------------------------------------------------------


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_exp(c, seed, n):
    c.free()
    x   = floats(seed, n, -40, 8)
    out = c.room(4*n)
    c.call("ops_exp", out, c.put(x), n)
    same(ops.exp(x), c.get(out, F, n))


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_rms_norm(c, seed, n):
    c.free()
    x, gain, eps = floats(seed, n), ops.flush(floats(seed + 1, n, -20, 10)), F(10**np.random.default_rng(seed).uniform(-9, -3))
    out = c.room(4*n)
    c.call("ops_rms_norm", out, c.put(x), c.put(gain), eps, n)
    same(ops.rms_norm(x, gain, eps), c.get(out, F, n))


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_quantise(c, seed, n):
    c.free()
    x   = floats(seed, n)
    out = c.room(n)
    step = c.call("ops_quantise", out, c.put(x), n, returns=float)
    expected, expected_step = ops.quantise(x)
    same(expected, c.get(out, np.int8, n))
    same(expected_step, step)


def test_quantise_rounds_half_to_even(c):
    c.free()
    x   = np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5], F)
    out = c.room(8)
    assert c.call("ops_quantise", out, c.put(x), 8, returns=float) == 1
    assert c.get(out, np.int8, 8).tolist() == [127, 0, 2, 2, 0, -2, -2, 126]


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_quantise_fixed(c, seed, n):
    c.free()
    x, step = floats(seed, n, -40, 20), scale(seed, -19, 19)
    out     = c.room(n)
    c.call("ops_quantise_fixed", out, c.put(x), step, n)
    same(ops.quantise_fixed(x, step), c.get(out, np.int8, n))

# Results of the circuits --------------------------------------------------------------------------


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_dequantise(c, seed, n):
    c.free()
    y, factor = accumulators(seed, n), scale(seed)
    out       = c.room(4*n)
    c.call("ops_dequantise", out, c.put(y), factor, n)
    same(ops.dequantise(y, factor), c.get(out, F, n))


@DRAWN
@given(seed=SEED, n=st.integers(1, 200))
def test_dequantise_rows(c, seed, n):
    c.free()
    y, steps, step = accumulators(seed, n), np.abs(floats(seed, n, -23, 0)) + F(2**-23), scale(seed, -23, 10)
    out            = c.room(4*n)
    c.call("ops_dequantise_rows", out, c.put(y), c.put(steps), step, n)
    same(ops.dequantise(y, steps*step), c.get(out, F, n))


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_residual(c, seed, n):
    c.free()
    x, y, factor = floats(seed, n), accumulators(seed, n), scale(seed)
    # Sums that nearly cancel are where a value below TINY would come from.
    x[::3] = ops.flush(-ops.dequantise(y, factor)*F(1 + 2**-23))[::3]
    out    = c.put(x)
    c.call("ops_residual", out, c.put(y), factor, n)
    same(ops.residual(x, ops.dequantise(y, factor)), c.get(out, F, n))


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_residual_rows(c, seed, n):
    c.free()
    x, y, steps, step = floats(seed, n), accumulators(seed, n), np.abs(floats(seed, n, -23, 0)) + F(2**-23), scale(seed, -23, 10)
    x[::3] = ops.flush(-ops.dequantise(y, steps*step)*F(1 + 2**-23))[::3]
    out    = c.put(x)
    c.call("ops_residual_rows", out, c.put(y), c.put(steps), step, n)
    same(ops.residual(x, ops.dequantise(y, steps*step)), c.get(out, F, n))


@DRAWN
@given(seed=SEED, n=WIDTH)
def test_embed(c, seed, n):
    c.free()
    row, step = np.random.default_rng(seed).integers(-128, 128, n).astype(np.int8), scale(seed, -45, 4)
    out       = c.room(4*n)
    c.call("ops_embed", out, c.put(row), step, n)
    same(ops.flush(row.astype(F)*step), c.get(out, F, n))

# Heads --------------------------------------------------------------------------------------------


@DRAWN
@given(seed=SEED, heads=st.integers(1, 6), head_dim=st.integers(1, 16).map(lambda n: 8*n), position=st.integers(0, 4095))
def test_rope(c, seed, heads, head_dim, position):
    c.free()
    x            = floats(seed, heads*head_dim).reshape(heads, head_dim)
    cosine, sine = (table[position] for table in ops.rope_tables(position + 1, head_dim, 10000.0))
    out          = c.put(x)
    c.call("ops_rope", out, c.put(cosine), c.put(sine), head_dim, heads)
    same(ops.rope(x, cosine, sine), c.get(out, F, heads*head_dim))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@DRAWN
@given(seed=SEED, n=WIDTH)
def test_activate(c, activation, seed, n):
    c.free()
    gate, up               = accumulators(seed, n), accumulators(seed + 1, n)
    gate_scale, up_scale   = scale(seed, -39, -5), scale(seed + 1, -39, -5)
    gates, ups             = ops.dequantise(gate, gate_scale), ops.dequantise(up, up_scale)
    out                    = c.room(4*n)
    c.call("ops_activate", ACTIVATIONS.index(activation), out, c.put(gate), gate_scale, c.put(up), up_scale, n)
    same(ops.ACTIVATION[activation](gates, ups), c.get(out, F, n))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@DRAWN
@given(seed=SEED, n=WIDTH)
def test_activate_rows(c, activation, seed, n):
    c.free()
    gate, up             = accumulators(seed, n), accumulators(seed + 1, n)
    gate_steps, up_steps = (np.abs(floats(seed + i, n, -23, -5)) + F(2**-23) for i in range(2))
    step                 = scale(seed, -16, 0)
    out                  = c.room(4*n)
    c.call("ops_activate_rows", ACTIVATIONS.index(activation), out, c.put(gate), c.put(gate_steps), c.put(up), c.put(up_steps), step, n)
    same(ops.ACTIVATION[activation](ops.dequantise(gate, gate_steps*step), ops.dequantise(up, up_steps*step)), c.get(out, F, n))


def multiplier(c, q_step, factor, bits):
    """(mantissa, exponent) of C."""
    exponent = c.room(4)
    mantissa = c.call("ops_score_multiplier", q_step, factor, bits, exponent) & 0xFFFFFFFF
    return mantissa, int(c.get(exponent, np.uint32, 1)[0])


@DRAWN
@given(seed=SEED, head_dim=st.integers(1, 16).map(lambda n: 8*n), steps=st.integers(1, 45), bits=st.integers(8, MANTISSA_BITS_MAX))
def test_score_multiplier(c, seed, head_dim, steps, bits):
    c.free()
    q_step, k_step = scale(seed, -24, 10), scale(seed + 1, -19, 10)
    factor         = c.call("ops_k_factor", k_step, head_dim, steps, returns=float)
    same(ops.k_factor(k_step, head_dim, steps), factor)
    mantissa, exponent = multiplier(c, q_step, factor, bits)
    limit = 2**bits - 1
    assert (mantissa, exponent) == ops.score_multiplier(q_step, factor, limit)
    exact = float(q_step)*float(factor)
    if ops.multiplier_clips(q_step, factor, limit):
        assert (mantissa, exponent) == (limit, EXPONENT_MAX)
    else:
        # The best value that the exponent allows, to the rounding of the product; and the smallest exponent.
        assert abs(mantissa*2.0**(SHIFT_STEP*exponent) - exact) <= 2.0**(SHIFT_STEP*exponent - 1) + exact*2.0**-23
        assert exponent == 0 or exact > limit*2.0**(SHIFT_STEP*(exponent - 1))*(1 - 2.0**-23)


@pytest.mark.parametrize("exponent", range(EXPONENT_MAX + 1))
def test_edges_of_the_multiplier(c, exponent):
    """The largest mantissa of an exponent, the value behind it, and what rounds up to a power of two."""
    limit, unit = ATTENTION.mantissa_max, F(2.0**(SHIFT_STEP*exponent))
    for value in (F(limit), np.nextafter(F(limit), F(2**18)), F(limit) + F(0.25), F(limit) - F(0.5), F(2**17), F(2**13), F(0.5), F(1.5)):
        c.free()
        expected = ops.score_multiplier(value*unit, F(1), limit)
        assert multiplier(c, value*unit, F(1), ATTENTION.mantissa_bits) == expected
        assert ops.multiplier_clips(value*unit, F(1), limit) == (exponent == EXPONENT_MAX and value > limit)
    assert ops.score_multiplier(F(limit)*unit, F(1), limit) == (limit, exponent)
    assert ops.score_multiplier(F(2**17)*unit, F(1), limit) == ((2**13, exponent + 1) if exponent < EXPONENT_MAX else (limit, EXPONENT_MAX))


def test_multiplier_beyond_all(c):
    for value in (F(3e38), F(np.inf)):
        c.free()
        with np.errstate(over="ignore"):
            assert multiplier(c, value, F(2), 17) == ops.score_multiplier(value, F(2), 2**17 - 1) == (2**17 - 1, EXPONENT_MAX)


def test_a_score_step_is_what_it_says():
    """q·k/√head_dim in steps of 1/steps_per_nat, by mantissa and shift: three random heads of each size."""
    random = np.random.default_rng(9)
    for size in (0.02, 1.0, 8.0, 50.0):
        for head_dim in (8, 64, 128):
            q, k     = (random.normal(0, size, head_dim).astype(F) for _ in range(2))
            q8, step = ops.quantise(q)
            k8, k_step = ops.quantise(k)
            mantissa, exponent = ops.score_multiplier(step, ops.k_factor(k_step, head_dim, 32), ATTENTION.mantissa_max)
            score    = (int(q8.astype(int) @ k8)*int(mantissa)) >> (SHIFT_MAX - SHIFT_STEP*int(exponent))
            expected = 32*float(q8.astype(np.float64)*step @ (k8*np.float64(k_step)))/np.sqrt(head_dim)
            assert abs(score - expected) <= 1 + abs(expected)*2.0**-12


# Softmax's resolution -----------------------------------------------------------------------------

NUMBERS = [st.integers(0, 20), st.one_of(st.integers(0, 60), st.integers(4090, 4100)), st.integers(0, 18), st.integers(5, 23)]


@settings(DRAWN, max_examples=150)
@given(numbers=st.tuples(*NUMBERS))
def test_softmax(c, numbers):
    """C knows the same resolutions as numpy, and computes the same table for them."""
    c.free()
    softmax, table = c.put(np.array(numbers, np.uint32)), c.room(512)
    try:
        parameters = AttentionParameters(*numbers)
    except ValueError:
        parameters = None
    assert (c.call("softmax_valid", softmax) & 0xFFFFFFFF) == (parameters is not None)
    if parameters:
        c.call("softmax_exp_table", softmax, table)
        np.testing.assert_array_equal(c.get(table, np.uint16, 256), parameters.exp_table())


@pytest.mark.parametrize("exp_bits", range(1, 17))
def test_exp_table_is_rounded_to_nearest(exp_bits):
    for steps in range(1, 46):
        try:
            table = AttentionParameters(16, steps, exp_bits).exp_table()
        except ValueError:
            continue
        exact = (2**exp_bits - 1)*np.exp(-np.arange(256)/steps)
        assert np.abs(table - exact).max() < 0.5 + 1e-2


@DRAWN
@given(seed=SEED, head_dim=st.integers(1, 16).map(lambda n: 8*n))
def test_attention_output(c, seed, head_dim):
    c.free()
    random      = np.random.default_rng(seed)
    positions   = int(random.integers(1, 4097))
    numerators  = random.integers(-128*255*positions, 127*255*positions + 1, head_dim).astype(np.int32)
    denominator = int(random.integers(255, 255*positions + 1))
    v_step      = scale(seed, -19, 10)
    out         = c.room(4*head_dim)
    c.call("ops_attention_output", out, c.put(numerators), denominator, v_step, head_dim)
    same(ops.attention_output(numerators, np.int32(denominator), v_step), c.get(out, F, head_dim))

# Checker ------------------------------------------------------------------------------------------


def test_checker_sees_subnormals():
    c     = firmware_build("checker")
    start = c.variable("lanes_subnormals")
    c.free()
    x = np.full(8, 2.0**-70, F)
    c.call("ops_rope", c.put(x), c.put(x), c.put(x), 8, 1)
    seen = c.variable("lanes_subnormals")
    c.set_variable("lanes_subnormals", start)
    assert seen > start
