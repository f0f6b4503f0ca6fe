#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The measured choice of a head: its counts beside heads that are run one by one, its least number of states, and what the packer makes of it."""

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.host import pack as packer, plan
from litetern.host.chat import Settings
from litetern.model.formats.head import with_head
from litetern.model.formats.image import read_image
from litetern.model.formats.stream import REDUCE_TOPK, TOPK_MAX
from litetern.model.numerics.circuits import reduce_rows
from litetern.model.numerics.exact import ExactHead
from litetern.model.numerics.micro import micro_model
from litetern.model.quality import choose_head
from litetern.model.quality.choose_head import Measured, cheapest, many_states, measure, nucleus
from litetern.model.quality.likelihood import negative_log_likelihood

from tiny_checkpoint import write_checkpoint


@pytest.fixture(scope="module")
def model():
    return micro_model(seed=8, vocab=258)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 300), topk=st.integers(1, TOPK_MAX), spread=st.sampled_from([1, 5, 2**31 - 1]))
def test_best_rows_are_those_of_a_stable_sort(seed, rows, topk, spread):
    y = np.random.default_rng(seed).integers(-spread, spread, (rows, 3), endpoint=True)
    np.testing.assert_array_equal(reduce_rows(y, REDUCE_TOPK, topk), np.argsort(-y, axis=0, kind="stable")[:topk].T)


def test_counts_are_those_of_heads_run_one_by_one(model):
    text          = np.random.default_rng(2).integers(0, 258, 60)
    rows, of_text, own = measure(model, text, 200)
    assert of_text == 59 and own >= 141 and all(row.states == of_text + own for row in rows)
    whole = ExactHead(model)
    for row in rows:
        if row.kind == "int8":
            assert row.agreed == row.states and row.mass == 1 and row.serves
        head = ExactHead(with_head(model, row.kind, row.planes, row.shortlist))
        agreed, mass, lost = 0, 0.0, 0.0
        for states, targets, _ in many_states(model, text, 200):
            full, listed = whole(states)[0], head(states)[0]
            agreed += int((full.argmax(axis=-1) == listed.argmax(axis=-1)).sum())
            mass   += (nucleus(full)*(listed > -2.0**29)).sum()
            lost   += negative_log_likelihood(head(states, estimate=True)[0], targets)
        assert row.agreed == agreed and row.bytes == with_head(model, row.kind, row.planes, row.shortlist).head_bytes
        assert row.mass == pytest.approx(mass/row.states, abs=1e-9) and row.perplexity == pytest.approx(np.exp(lost/row.states), rel=1e-5)


def test_states_are_never_fewer(model):
    for length in (0, 1, 2, 300):
        parts = list(many_states(model, np.arange(length) % 258, 250))
        assert sum(len(states) for states, _, _ in parts) >= 250
        assert sum(len(states) for states, _, text in parts if text) == min(max(length - 1, 0), 250)
    first, second = (np.concatenate([states for states, _, _ in many_states(model, np.zeros(0, int), 100)]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert choose_head.STATES >= 10000 and choose_head.TOP_P == Settings.DEFAULTS["top_p"]


def test_nucleus_holds_the_fewest_best():
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05], [0.91, 0.03, 0.03, 0.03]]))
    np.testing.assert_allclose(nucleus(logits, 0.9), [[0.5/0.95, 0.3/0.95, 0.15/0.95, 0], [1, 0, 0, 0]])


@pytest.mark.parametrize("agreed, mass, taken", [(9990, 0.995, 10), (9989, 0.995, 100), (10000, 0.9949, 100)])
def test_cheapest_that_serves(agreed, mass, taken):
    rows = [Measured("int8", None, None, 100, 10000, 10000, 1.0, 5.0), Measured("hybrid", 1, 8, 10, 10000, agreed, mass, 5.0)]
    assert cheapest(rows).bytes == taken


@pytest.mark.parametrize("share, measured", [(0.05, True), (0.95, False)])
def test_measured_where_nobody_chooses_and_int8_is_dear(tmp_path, monkeypatch, share, measured):
    monkeypatch.setattr(packer, "HEAD_SHARE", share)
    monkeypatch.setattr(choose_head, "STATES", 500)
    monkeypatch.setattr(choose_head, "measure", lambda model, tokens, progress: measure(model, tokens, 500, progress))
    result = packer.pack(write_checkpoint(tmp_path/"tiny"), tmp_path/"m.tern", head=None)
    assert ("head_measured" in result) == measured


def test_packer_takes_it_and_prints_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(choose_head, "STATES", 500)
    monkeypatch.setattr(choose_head, "measure", lambda model, tokens, progress: measure(model, tokens, 500, progress))
    folder = write_checkpoint(tmp_path/"tiny")
    result = packer.pack(folder, tmp_path/"m.tern", head="auto")
    taken, = [head for head in result["head_measured"]["heads"] if head["chosen"]]
    image  = read_image(tmp_path/"m.tern")
    found  = ("int8", None, None) if image.ternary is None else ("hybrid", image.ternary.planes, image.ternary.shortlist)
    assert found == (taken["kind"], taken["planes"], taken["shortlist"]) and taken["serves"] and result["head_bytes"] == taken["bytes"]
    assert sum(result["head_measured"][name] for name in ("states_of_text", "states_of_the_models_own")) >= 500
    lines  = plan.lines(result)
    first  = next(index for index, line in enumerate(lines) if line.startswith("heads measured on ")) + 2
    table  = lines[first:lines.index("", first)]
    assert len(table) == len(result["head_measured"]["heads"]) and sum(line.endswith("taken") for line in table) == 1
    with pytest.raises(ValueError, match="head auto: finds planes and shortlist itself"):
        packer.pack(folder, tmp_path/"m.tern", head="auto", planes=1)
