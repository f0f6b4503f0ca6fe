#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The integers of the resident path: each step is what its docstring says, at its edges too."""

import math

from fractions import Fraction

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.model.resident import activation, attention, matrix, position, sampling
from litetern.model.resident.fixed import Clip, bit_length, reciprocal, rsqrt, shift_round
from litetern.model.resident.quantise import GAIN_BITS, center, inverse_of, quantise

# Fixed point --------------------------------------------------------------------------------------


@given(x=st.integers(-2**40, 2**40), shift=st.integers(-20, 70))
def test_shift_round_is_half_up(x, shift):
    assert int(shift_round(x, shift)) == math.floor(Fraction(x)/Fraction(2)**min(shift, 62) + Fraction(1, 2))


@given(x=st.integers(0, 2**52))
def test_bit_length(x):
    assert bit_length(x) == x.bit_length()


@given(u=st.one_of(st.integers(1, 2**52 - 1), st.integers(0, 51).map(lambda b: 2**b), st.integers(1, 52).map(lambda b: 2**b - 1)))
def test_square_root_and_reciprocal(u):
    y, k = rsqrt(u)
    assert 2**15 - 1 <= y < 2**16
    assert abs(float(y)*2.0**(-31 - int(k))*math.sqrt(u) - 1) < 2.0**-14
    r, e = reciprocal(u)
    assert 2**14 - 1 <= r < 2**16
    assert abs(float(r)*2.0**(-46 - int(e))*u - 1) < 2.0**-12


def test_saturation_is_counted():
    clip = Clip()
    np.testing.assert_array_equal(clip(np.array([-128, -127, 0, 127, 200]), 8, "k"), [-127, -127, 0, 127, 127])
    clip(np.array([5]), 8, "v")
    assert clip.counts == {"k": 2, "v": 0} and clip.total == 2

# Norm and int8 ------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 96), bits=st.integers(1, 17), norm=st.sampled_from(("none", "rms", "layer")))
def test_norm_and_int8_follow_the_float_norm(seed, width, bits, norm):
    random = np.random.default_rng(seed)
    x      = random.integers(-2**bits + 1, 2**bits, (3, width))
    gain   = random.integers(-32767, 32768, width)
    result = quantise(x, gain, norm, 7)
    assert np.abs(result.q).max() <= 127 and result.mantissa.max() < 2**17 and result.mantissa.min() >= 2**14
    if norm == "none":
        real, root = x, 1.0
    else:
        centred = center(x) if norm == "layer" else x
        real    = centred*gain/2**GAIN_BITS/np.sqrt((centred**2).sum(axis=-1, keepdims=True) + 7)
        root    = 1/np.sqrt((centred**2).sum(axis=-1, keepdims=True) + 7)
    step = (result.mantissa*2.0**(result.exponent - 38))[:, None]
    # Half a step, the rounding of z (half of a unit of X), and the square root's error.
    assert np.all(np.abs(result.q*step - real) <= 0.5*step + 0.5*root + 2.0**-12*np.abs(real))
    largest = np.abs(shift_round(x*gain, GAIN_BITS) if norm == "rms" else x).max(axis=-1)
    if norm != "layer":
        assert np.all(np.abs(result.q).max(axis=-1)[largest >= 16] >= 119)


@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 2048), offset=st.integers(-2**16, 2**16))
def test_the_mean_is_rounded_to_nearest(seed, width, offset):
    x = np.random.default_rng(seed).integers(-2**16, 2**16, width) + offset
    assert np.abs(center(x) - (x - x.mean())).max() <= 0.51
    assert 2**23 <= inverse_of(width)[0] < 2**24


@pytest.mark.parametrize("norm", ("none", "rms", "layer"))
def test_vectors_of_zeros_stay_zeros(norm):
    assert not quantise(np.zeros((2, 8)), np.full(8, 4096), norm).q.any()


def test_layer_norm_of_a_constant_is_zero():
    assert not quantise(np.full((1, 12), 70001), np.full(12, 4096), "layer").q.any()

# Matrix -------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), format=st.sampled_from(tuple(matrix.FORMATS)), rows=st.integers(1, 9), columns=st.integers(1, 64),
    spread=st.floats(0, 8))
def test_results_follow_the_float_product(seed, format, rows, columns, spread):
    random  = np.random.default_rng(seed)
    limit   = matrix.FORMATS[format]
    weights = random.integers(-limit, limit + 1, (rows, columns)).astype(np.int8)
    scale   = 2.0**random.uniform(-spread, 0, rows)
    gain    = random.integers(1024, 8192, columns)
    bound   = matrix.largest_step(gain_max=gain.max()/2**GAIN_BITS)
    m       = matrix.make_matrix(weights, format, scale*math.sqrt(columns), 2.0**-10, bound)
    x       = random.integers(-2**17 + 1, 2**17, (4, columns))
    q       = quantise(x, gain, "rms", 1)
    assert np.all(q.mantissa*2.0**(q.exponent - 38) < bound)
    clip = Clip()
    y    = m.results(q, clip)
    real = (q.q @ weights.T.astype(np.int64))*(q.mantissa*2.0**(q.exponent - 38))[:, None]*scale*math.sqrt(columns)*1024
    assert clip.total == 0
    # Half a result, half of c, and half of a scale.
    acc  = np.abs(q.q @ weights.T.astype(np.int64))
    assert np.all(np.abs(y - real) <= 0.51 + 0.51*acc*2.0**-m.result_shift + np.abs(real)/m.scale)


@given(seed=st.integers(0, 2**32 - 1), groups=st.integers(1, 6), size=st.integers(1, 8))
def test_scales_of_groups_weigh_their_sums(seed, groups, size):
    random = np.random.default_rng(seed)
    w      = random.integers(-7, 8, (5, groups*size)).astype(np.int8)
    g      = random.integers(1, 256, (5, groups))
    q      = random.integers(-127, 128, (2, groups*size))
    m      = matrix.make_matrix(w, "int4", 1.0, 1.0, 1.0, groups=g)
    sums   = (w.astype(np.int64)[None]*q[:, None]).reshape(2, 5, groups, size).sum(axis=-1)
    np.testing.assert_array_equal(m.accumulate(q), (sums*g).sum(axis=-1))


def test_multipliers_that_do_not_fit_are_counted():
    clip = Clip()
    m = matrix.make_matrix(np.ones((1, 4), np.int8), "ternary", 1.0, 1.0, 0.001)
    m.results(quantise(np.array([[500, 1, 2, 3]])), clip)
    assert clip.counts["multiplier"] == 1


@pytest.mark.parametrize("change, words", [
    ({"format": "int5"},                           "'int5': must be one of ternary"),
    ({"format": "ternary"},                        "beyond ±1"),
    ({"scale": np.array([0, 1])},                  r"must be \[2\] of 1 … 65535"),
    ({"result_shift": 25},                         "result_shift 25: must lie in 0 … 24"),
    ({"groups": np.array([[1, 2], [3, 256]])},     "each 1 … 255"),
    ({"groups": np.array([[1, 2, 3], [3, 4, 5]])}, "must divide the columns"),
])
def test_matrices_that_are_refused(change, words):
    good = {"weights": np.array([[4, -4], [1, 0]], np.int8), "format": "trits2", "scale": np.array([9, 1]), "shift": 20, "result_shift": 4}
    matrix.Matrix(**good)
    with pytest.raises(ValueError, match=words):
        matrix.Matrix(**(good | change))

# Activation ---------------------------------------------------------------------------------------


CURVES = {
    "silu" : lambda x: x/(1 + math.exp(-x)),
    "gelu" : lambda x: x*(1 + math.erf(x/math.sqrt(2)))/2,
    "relu" : lambda x: max(x, 0),
}


@pytest.mark.parametrize("name", activation.ACTIVATIONS)
def test_activation_follows_its_curve(name):
    x = np.arange(-32767, 32768)
    y = activation.activate(x, activation.activation_table(name))
    assert np.abs(y).max() < 2**15
    np.testing.assert_allclose(y/1024, [CURVES[name](v/1024) for v in x], atol=0.012)
    if name == "relu":
        np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="'tanh': must be one of silu, gelu, relu"):
        activation.activation_table("tanh")

# Position -----------------------------------------------------------------------------------------


@given(at=st.integers(0, 2**15 - 1), pairs=st.integers(1, 32), theta=st.sampled_from((1e2, 1e4, 1e6)))
def test_rotation_follows_cosine_and_sine(at, pairs, theta):
    cosine, sine = position.rotation(at, position.increments(2*pairs, theta))
    angle        = at*theta**(-np.arange(0, 2*pairs, 2)/(2*pairs))
    error        = 2*np.pi*(2.0**-13 + at*2.0**-25) + 2.0**-14  # Half an index, half an increment a position, half an entry.
    assert np.abs(cosine/2**14 - np.cos(angle)).max() <= error and np.abs(sine/2**14 - np.sin(angle)).max() <= error


def test_rotation_keeps_position_zero_nearly():
    x = np.arange(-8, 8)*2000
    np.testing.assert_allclose(position.rotate(x, *position.rotation(0, position.increments(16, 1e4)), 6), x/64, atol=1)

# Attention ----------------------------------------------------------------------------------------


def test_attention_of_one_position_is_its_value():
    v = np.array([[-127, 127, 0, 5]])
    o = attention.attend(np.full(4, 127), np.full((1, 4), -127), v, np.int64(2**17 - 1), np.int64(1 << 16))
    np.testing.assert_allclose(o, 128*v[0], atol=4)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), T=st.integers(1, 300), dim=st.integers(1, 64), m=st.integers(1, 2**17 - 1),
    ratio=st.integers(2**12, 2**16))
def test_attention_follows_the_float_softmax(seed, T, dim, m, ratio):
    random  = np.random.default_rng(seed)
    q, k, v = random.integers(-127, 128, dim), random.integers(-127, 128, (T, dim)), random.integers(-127, 128, (T, dim))
    s       = k @ q*(m*2.0**-attention.SCORE_SHIFT)
    e       = np.exp(-(s.max() - s)/attention.STEPS_PER_NAT)
    o       = attention.attend(q, k, v, np.int64(m), np.int64(ratio))
    assert np.abs(o).max() < 2**(attention.OUTPUT_BITS - 1)
    # 1/32 of a natural unit cut, and half of 1/255 of each weight.
    assert np.abs(o*2.0**(16 - 7)/ratio - e @ v/e.sum()).max() <= 127*(2/32 + 2*T*0.5/255/e.sum()) + 1

# Sampling -----------------------------------------------------------------------------------------


LOGITS = np.array([1000, 3000, 2500, 3000, -9000, 2999])


def test_greedy_takes_the_lower_token_of_equals():
    assert sampling.Sampler(sampling.SamplingSettings()).choose(LOGITS) == 1


def test_best_of_one_is_greedy():
    sampler = sampling.Sampler(sampling.SamplingSettings(5.0, top_k=1, seed=3))
    assert {sampler.choose(LOGITS) for _ in range(20)} == {1}


def test_draws_are_defined_to_the_bit():
    sampler = sampling.Sampler(sampling.SamplingSettings(1.0, seed=7))
    assert [sampler.choose(LOGITS) for _ in range(12)] == [1, 5, 5, 5, 1, 2, 1, 1, 5, 1, 5, 3]
    assert sampler.random.next() == 0x9cc310f0457e794f


def test_draws_follow_the_softmax():
    weights = np.exp(LOGITS/1024/0.7)
    sampler = sampling.Sampler(sampling.SamplingSettings(0.7, seed=11))
    counts  = np.bincount([sampler.choose(LOGITS) for _ in range(20000)], minlength=6)/20000
    np.testing.assert_allclose(counts, weights/weights.sum(), atol=0.015)


def test_only_the_best_are_drawn():
    sampler = sampling.Sampler(sampling.SamplingSettings(100.0, top_k=3, seed=1))
    assert {sampler.choose(LOGITS) for _ in range(300)} == {1, 3, 5}


@pytest.mark.parametrize("arguments, words", [
    ((0.01,),      "temperature = 0.01: must be 0"),
    ((-1.0,),      "temperature = -1.0"),
    ((1.0, 33),    "top_k = 33: must lie in 0 … 32"),
    ((1.0, 0, -1), "seed = -1"),
])
def test_settings_that_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        sampling.SamplingSettings(*arguments)
