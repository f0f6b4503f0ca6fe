#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The exact path beside the float reference, batches beside single sessions, and what perplexity counts."""

import io

from dataclasses import replace

import numpy as np
import pytest

from hypothesis import given, strategies as st

from litetern.model.calibrate import kv_steps, read_steps, write_steps
from litetern.model.common.progress import Progress
from litetern.model.importers import load_checkpoint
from litetern.model.numerics import ops
from litetern.model.numerics.circuits import AttentionParameters
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.quantised import quantise_checkpoint
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.numerics.saturation import Saturation
from litetern.model.perplexity import HEADS, VARIANTS, table
from litetern.model.quality.likelihood import negative_log_likelihood, perplexity_exact, perplexity_float
from litetern.model.tokenizer.text import read_records, windows
from litetern.model.tokenizer.tokenizer import load_tokenizer

from tiny_checkpoint import write_checkpoint

TOKENS = np.random.default_rng(5).integers(0, 60, 48)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return load_checkpoint(write_checkpoint(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def model(checkpoint):
    return quantise_checkpoint(checkpoint, *kv_steps(checkpoint))

# Exact beside float -------------------------------------------------------------------------------


def test_exact_path_follows_the_reference(checkpoint, model):
    exact     = ExactModel(model)
    logits    = np.stack([exact.step([token])[0] for token in TOKENS])
    reference = ReferenceModel(checkpoint).logits(TOKENS)[0]
    # Random weights attend sharply and amplify every rounding: a trained model stays far closer.
    assert np.abs(logits - reference).mean() < 0.15*reference.std()
    assert np.corrcoef(logits.ravel(), reference.ravel())[0, 1] > 0.97


def test_sessions_of_a_batch_do_not_meet(model):
    streams = np.stack([TOKENS, TOKENS[::-1]])
    both    = ExactModel(model, batch=2)
    singles = [ExactModel(model) for _ in streams]
    for position in range(streams.shape[1]):
        logits = both.step(streams[:, position])
        for session, single in enumerate(singles):
            np.testing.assert_array_equal(logits[session], single.step([streams[session, position]])[0])


def test_reset_forgets(model):
    exact = ExactModel(model)
    first = exact.step([7])
    exact.step([9])
    exact.reset()
    np.testing.assert_array_equal(exact.step([7]), first)


def test_context_has_an_end(model):
    exact = ExactModel(model, context=1)
    exact.step([1])
    with pytest.raises(ValueError, match="the context holds 1"):
        exact.step([1])

# Calibration --------------------------------------------------------------------------------------


def test_steps_cover_what_the_text_shows(checkpoint, tmp_path):
    seen = {}

    def observe(layer, name, value):
        seen[layer, name] = np.abs(value).max(axis=(0, 1, 3))

    text   = "Once upon a time"
    steps  = kv_steps(checkpoint, [text])
    tokens = [checkpoint.bos, *load_tokenizer(checkpoint.tokenizer).encode(text)]
    ReferenceModel(checkpoint, observe).logits(tokens)
    for index in range(checkpoint.config.layers):
        np.testing.assert_allclose(127*steps[0][index], seen[index, "k"], rtol=1e-5)
        np.testing.assert_allclose(127*steps[1][index], seen[index, "v"], rtol=1e-5)
    write_steps(tmp_path/"calibration.json", *steps, "text")
    for written, read in zip(steps, read_steps(tmp_path/"calibration.json", checkpoint.config)):
        np.testing.assert_array_equal(written, read)


def test_steps_that_do_not_fit_the_model(checkpoint):
    with pytest.raises(ValueError, match="k_steps"):
        quantise_checkpoint(checkpoint, np.ones((1, 1)))

# Perplexity ---------------------------------------------------------------------------------------


@given(count=st.integers(2, 200), length=st.integers(1, 40), data=st.data())
def test_windows_score_each_token_once(count, length, data):
    stride = data.draw(st.integers(1, length))
    scored = []
    for window, first in windows(np.arange(count), length, stride):
        assert len(window) <= length + 1
        scored += list(window[1:][max(first, 0):])
    assert scored == list(range(1, count))


def test_uniform_logits_cost_the_vocabulary():
    assert np.exp(negative_log_likelihood(np.zeros((5, 64), np.float32), np.arange(5))/5) == pytest.approx(64)


def test_perplexity_is_the_mean_over_all_windows(checkpoint):
    logits = ReferenceModel(checkpoint).logits(TOKENS[:-1])[0]
    whole  = np.exp(negative_log_likelihood(logits, TOKENS[1:])/(len(TOKENS) - 1))
    assert perplexity_float(checkpoint, TOKENS, len(TOKENS) - 1) == pytest.approx(whole, rel=1e-5)


def test_price_of_the_exact_path_is_small(checkpoint, model):
    exact, as_trained = (np.log(f(m, TOKENS, 16)) for f, m in ((perplexity_exact, model), (perplexity_float, checkpoint)))
    assert exact == pytest.approx(as_trained, rel=0.02)


def test_table(tmp_path):
    folder, text = write_checkpoint(tmp_path/"tiny"), tmp_path/"text.txt"
    text.write_text("Once upon a time there was a cat.\n<|endoftext|>\nThe end.\n")
    rows = table(folder, text, progress=Progress(io.StringIO()))
    assert [row["path"].split(", ")[:2] for row in rows] == [["float"], *(["exact", f"{kind} head"] for kind, _ in HEADS),
        *[["exact", "int8 head"]]*len(VARIANTS)]
    assert rows[1]["perplexity"] == pytest.approx(rows[0]["perplexity"], rel=0.2)
    assert len(read_records(text)) == 2
    text.write_text("<|endoftext|>")
    with pytest.raises(ValueError, match="holds no text"):
        table(folder, text)

# What is clipped ----------------------------------------------------------------------------------


def saturation_of(model, tokens=TOKENS, length=16):
    saturation = Saturation()
    return perplexity_exact(model, tokens, length, saturation=saturation), saturation


def test_nothing_is_clipped_where_nothing_must(checkpoint, model):
    """Calibrated with head room, q small; counting changes no figure, and no position counts that only fills a batch."""
    layers        = [{**layer, "q": (layer["q"][0], layer["q"][1]/8)} for layer in checkpoint.layers]
    model         = quantise_checkpoint(replace(checkpoint, layers=layers), *(2*steps for steps in kv_steps(checkpoint)))
    price, counts = saturation_of(model, TOKENS[:-5])
    assert price == perplexity_exact(model, TOKENS[:-5], 16)
    assert counts.lines() == []
    positions, config = len(TOKENS) - 6, model.config
    assert counts.total("multipliers") == (0, positions*config.layers*config.heads)
    assert counts.total("keys") == counts.total("values") == (0, positions*config.layers*config.kv_width)
    assert counts.total("scores") == (0, (16*17//2*2 + 10*11//2)*config.layers*config.heads)


@pytest.mark.parametrize("name", ["keys", "values"])
def test_steps_that_are_too_small_are_counted(checkpoint, model, name):
    steps  = [np.stack([getattr(layer, f"{letter}_steps") for layer in model.layers]) for letter in "kv"]
    steps["keys values".split().index(name)][1] /= 4
    counts = saturation_of(quantise_checkpoint(checkpoint, *steps))[1]
    assert {layer for (kind, layer), number in counts.clipped.items() if kind == name and number} >= {1}
    assert 0 < counts.total(name)[0] < counts.total(name)[1]
    assert [line for line in counts.lines() if line.startswith(f"{name}: ")]


def test_scores_that_leave_their_range_are_counted(model):
    narrow = replace(model, attention=AttentionParameters(5, 32, 8))
    counts = saturation_of(narrow)[1]
    assert 0 < counts.total("scores")[0] < counts.total("scores")[1]


def test_a_multiplier_that_leaves_its_range_is_counted(checkpoint):
    """K a million times larger: an absurd model, but not a silent one."""
    counts = saturation_of(quantise_checkpoint(checkpoint, np.full((2, 1), 1e5, np.float32)))[1]
    assert counts.total("multipliers")[0] == counts.total("multipliers")[1] > 0


def test_only_known_kinds_are_counted():
    with pytest.raises(ValueError, match="saturation of 'planes'"):
        Saturation().see("planes", 0, np.zeros(1, bool))


@given(values=st.lists(st.floats(-300, 300, width=32), min_size=1), step=st.sampled_from([1.0, 0.75, 3e-3]))
def test_leaving_int8_is_what_clipping_changes(values, step):
    x = np.array(values, np.float32)*np.float32(step)
    rounded = ops.round_even(x*(np.float32(1)/np.float32(step)))
    np.testing.assert_array_equal(ops.leaves_int8(x, np.float32(step)), rounded != ops.quantise_fixed(x, np.float32(step)))
