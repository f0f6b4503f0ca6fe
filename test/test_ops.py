#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Each fp32 operation in C on every build beside numpy, bit for bit, up to the edges of its domain; no subnormal anywhere."""

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from model import ops
from model.circuits import ATTENTION, MULTIPLIER_BITS, SCORE_SHIFT
from model.config import ACTIVATIONS

from firmware_builds import BUILDS, firmware_build

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


@pytest.fixture(params=list(BUILDS), scope="module")
def c(request):
    """A build; the checker has counted no subnormal when the test is over."""
    build = firmware_build(request.param)
    yield build
    if request.param == "checker":
        assert build.variable("lanes_subnormals") == 0

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


@DRAWN
@given(seed=SEED, head_dim=st.integers(1, 16).map(lambda n: 8*n))
def test_score_multiplier(c, seed, head_dim):
    q_step, k_step = scale(seed, -24, 10), scale(seed + 1, -19, 10)
    factor         = c.call("ops_k_factor", k_step, head_dim, returns=float)
    same(ops.k_factor(k_step, head_dim, ATTENTION.steps_per_nat, SCORE_SHIFT), factor)
    m = c.call("ops_score_multiplier", q_step, factor) & 0xFFFFFFFF
    assert m == ops.score_multiplier(q_step, factor, 2**MULTIPLIER_BITS - 1)


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
