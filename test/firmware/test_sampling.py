#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The sampler in numpy by its rules, and in C on every build token for token as in numpy."""

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.model.numerics.sampling import CANDIDATES_MAX, PENALTY_WINDOW, Sampler, SamplingSettings, SplitMix64

from firmware_engine import settings_bytes

STATE = 8 + 4 + 4*PENALTY_WINDOW + 4  # struct sampling_state.
DRAWN = settings(max_examples=60, deadline=None, derandomize=True)

SETTINGS = st.builds(SamplingSettings,
    temperature        = st.one_of(st.just(0.0), st.sampled_from([0.01, 0.7, 1.0, 100.0]), st.floats(2**-6, 100, width=32)),
    top_k              = st.one_of(st.just(0), st.just(1), st.integers(0, CANDIDATES_MAX)),
    top_p              = st.one_of(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.floats(0, 1, width=32)),
    repetition_penalty = st.one_of(st.just(1.0), st.sampled_from([0.125, 1.25, 10.0]), st.floats(0.125, 10, width=32)),
    seed               = st.integers(0, 2**64 - 1),
)


def logits_like(random, vocab):
    """float32 [vocab] with the spread of logits; often with ties, sometimes all equal."""
    logits = random.normal(0, random.choice([0.0, 0.01, 3, 30]), vocab)
    return (np.round(logits, random.integers(0, 4)) if random.random() < 0.5 else logits).astype(np.float32)

# C beside numpy -----------------------------------------------------------------------------------


@DRAWN
@given(choice=SETTINGS, seed=st.integers(0, 2**32 - 1), vocab=st.sampled_from([2, 7, 130, 256, 257, 1024]), tokens=st.integers(0, 100))
def test_c_chooses_what_numpy_chooses(c, choice, seed, vocab, tokens):
    c.free()
    random = np.random.default_rng(seed)
    state, settings, where = c.room(STATE), c.put(settings_bytes(choice)), c.room(4*vocab)
    assert c.call("sampling_check", settings) & 0xFFFFFFFF
    c.call("sampling_reset", state)
    c.call("sampling_seed", state, np.uint64(choice.seed))
    recent = random.integers(0, vocab, tokens).tolist()
    for token in recent:
        c.call("sampling_see", state, token)
    sampler = Sampler(choice)
    for _ in range(4):
        logits = logits_like(random, vocab)
        c.view(where, np.float32, vocab)[:] = logits
        token  = c.call("sampling_choose", state, settings, where, vocab) & 0xFFFFFFFF
        assert token == sampler.choose(logits, recent)
        np.testing.assert_array_equal(c.get(where, np.float32, vocab), logits)  # Penalties are taken back.
        recent.append(token)
        c.call("sampling_see", state, token)


@pytest.mark.parametrize("name, value", [("temperature", 0.001), ("temperature", -1.0), ("temperature", 101.0), ("temperature", float("nan")),
    ("top_k", CANDIDATES_MAX + 1), ("top_p", -0.5), ("top_p", 1.5), ("top_p", float("nan")), ("repetition_penalty", 0.0),
    ("repetition_penalty", 11.0), ("repetition_penalty", float("nan"))])
def test_settings_out_of_range(c, name, value):
    c.free()
    good = SamplingSettings(temperature=1.0)
    object.__setattr__(good, name, value)  # Past its own check.
    assert not c.call("sampling_check", c.put(settings_bytes(good))) & 0xFFFFFFFF
    if value == value:
        with pytest.raises(ValueError, match=name):
            SamplingSettings(**{name: value})

@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers(c, value):
    """Weights beyond all reason may give any logits: the choice is still a token of the list, whatever earlier choices left behind it."""
    vocab, before = 300, np.arange(4000, dtype=np.float32)
    for choice in (SamplingSettings(), SamplingSettings(temperature=1.0, top_k=3), SamplingSettings(temperature=0.01, top_p=0.0, repetition_penalty=10.0)):
        for share in (0.5, 1.0):
            c.free()
            state, settings = c.room(STATE), c.put(settings_bytes(choice))
            logits = np.zeros(vocab, np.float32)
            logits[:int(share*vocab)] = value
            c.call("sampling_reset", state)
            c.call("sampling_seed", state, np.uint64(1))
            c.call("sampling_see", state, 7)
            c.call("sampling_choose", state, c.put(settings_bytes(SamplingSettings(temperature=100.0))), c.put(before), len(before))
            assert c.call("sampling_choose", state, settings, c.put(logits), vocab) & 0xFFFFFFFF < vocab

# The definition -----------------------------------------------------------------------------------


def test_splitmix64_of_its_authors():
    random = SplitMix64(1234567)
    assert [random.next() for _ in range(5)] == [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
        16408922859458223821]


def test_greedy_takes_the_first_of_the_largest():
    assert Sampler(SamplingSettings()).choose(np.array([1, 3, 3, 2], np.float32)) == 1


def test_penalty_moves_seen_tokens_down():
    sampler = Sampler(SamplingSettings(repetition_penalty=2.0))
    logits  = np.array([4, 3, -1, -1.5], np.float32)
    assert sampler.choose(logits) == 0
    assert sampler.choose(logits, [0]) == 1
    assert sampler.penalise(logits, [0, 2]).tolist() == [2, 3, -2, -1.5]
    assert sampler.choose(logits, [0] + [3]*PENALTY_WINDOW) == 0  # Out of the window.


def test_top_k_and_top_p_bound_the_choice():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05])).astype(np.float32)
    draw   = lambda **choice: {Sampler(SamplingSettings(temperature=1.0, seed=seed, **choice)).choose(logits) for seed in range(300)}
    assert draw() == {0, 1, 2, 3}
    assert draw(top_k=2) == {0, 1}
    assert draw(top_p=0.7) == {0, 1}
    assert draw(top_p=0.0) == {0}


def test_frequencies_follow_the_probabilities():
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    sampler       = Sampler(SamplingSettings(temperature=1.0, seed=9))
    counts        = np.bincount([sampler.choose(np.log(probabilities).astype(np.float32)) for _ in range(4000)], minlength=4)
    assert np.abs(counts/4000 - probabilities).max() < 0.03  # Fixed seed: the same every time.


def test_same_seed_same_choices():
    logits = np.random.default_rng(1).normal(0, 2, 100).astype(np.float32)

    def run(seed):
        sampler = Sampler(SamplingSettings(temperature=1.0, seed=seed))
        return [sampler.choose(logits) for _ in range(20)]

    assert run(5) == run(5) and run(5) != run(6)
