#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Formats of head and body: what planes and shortlist compute, and the same bits by the engine and the board for each of them."""

import dataclasses

import numpy as np
import pytest

from litetern.bench import head as bench, head_gateware
from equal_bits import board_logits, first_difference
from greedy import greedy
from firmware_builds import firmware_build
from firmware_engine import ERROR_PL, ERROR_SHORTLIST, OK, TOKEN, Engine
from litetern.host.link.device import Device
from litetern.model.formats.config import GROUPS
from litetern.model.formats.head import FLOOR, plane_inputs, shortlist_of, ternary_planes, with_head
from litetern.model.formats.image import HEAD_HYBRID, HEAD_INT8, HEAD_TERNARY, read_header, read_image, write_image
from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.sampling import Sampler, SamplingSettings
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.board import VirtualBoard
from tiny_checkpoint import write_checkpoint
from tiny_model import image_bytes, tiny_model, with_int8_body

TEXT  = [3, 1, 4]
HEADS = (("int8", None, None), ("ternary", 1, None), ("ternary", 3, None), ("hybrid", 1, 1), ("hybrid", 2, 9), ("hybrid", 3, 70))


@pytest.fixture(scope="module")
def model():
    return tiny_model(seed=8, vocab=258)


def expect_equal(build, model, count=4, **pl):
    """A build's engine gives numpy's logits for some greedy tokens."""
    engine = Engine(build, image_bytes(model), pl=pl)
    assert engine.error == OK and engine.generate(TEXT, count, ignore_eos=True) == OK
    logits = np.stack([event.logits for event in engine.events() if event.kind == TOKEN])
    assert first_difference(greedy(model, TEXT, count)[1], logits) is None

# Planes -------------------------------------------------------------------------------------------


def test_inputs_of_planes(c):
    x    = np.arange(-127, 128, dtype=np.int8)
    room = np.zeros(3*len(x), np.int8)
    room[:len(x)] = x
    c.free()
    data = c.put(room)
    c.call("ops_planes", data, len(x), 3)
    expected = plane_inputs(x, 3)
    np.testing.assert_array_equal(c.get(data, np.int8, len(room)), expected)
    for plane in range(3):
        np.testing.assert_array_equal(expected[len(x)*plane:len(x)*(plane + 1)], np.rint(x/np.float64(3**plane)))


@pytest.mark.parametrize("by_rows", [True, False])
def test_more_planes_come_closer(by_rows):
    weights = np.random.default_rng(1).normal(0, 0.3, (50, 64)).astype(np.float32)
    errors  = []
    for planes in (1, 2, 3):
        trits, steps = ternary_planes(weights, planes, by_rows)
        parts  = trits.reshape(50, planes, 64)
        values = sum(parts[:, i]/np.float64(3**i) for i in range(planes))*steps[:, None]
        errors.append(np.sqrt(((values - weights)**2).mean())/weights.std())
        assert set(np.unique(trits)) == {-1, 0, 1} and (len(set(steps)) == 1) == (not by_rows)
    assert errors[0] < 0.6 and errors[1] < 0.25 and errors[2] < 0.12

# Definition ---------------------------------------------------------------------------------------


def test_shortlist_holds_the_int8_head(model):
    """What is on the shortlist has the int8 head's logit; the rest is at the floor; a shortlist of all rows is the int8 head."""
    whole = ExactModel(dataclasses.replace(model, ternary=None))
    some  = ExactModel(with_head(model, "hybrid", 2, 20))
    small = dataclasses.replace(model, embedding=model.embedding[:200], embedding_steps=model.embedding_steps[:200], head=model.head[:200],
        head_steps=model.head_steps[:200], config=dataclasses.replace(model.config, vocab=200))
    every = ExactModel(with_head(small, "hybrid", 1, 200))
    for token in TEXT:
        full, short = whole.step([token])[0], some.step([token])[0]
        listed      = short > FLOOR
        assert listed.sum() == 20 and listed[full.argmax()]
        np.testing.assert_array_equal(short[listed], full[listed])
        assert (short[~listed] == FLOOR).all()
        np.testing.assert_array_equal(every.step([token])[0], full[:200])


@pytest.mark.parametrize("settings", [SamplingSettings(temperature=100.0, top_k=0, top_p=1.0, repetition_penalty=10.0, seed=3),
    SamplingSettings(temperature=100.0, top_k=0, top_p=1.0, repetition_penalty=0.1, seed=3)])
def test_sampling_never_leaves_the_shortlist(model, settings):
    exact, sampler, text = ExactModel(with_head(model, "hybrid", 2, 9)), Sampler(settings), []
    token = 1
    for _ in range(30):
        text.append(token)
        logits = exact.step([token])[0]
        token  = sampler.choose(logits, text)
        assert logits[token] > FLOOR


@pytest.mark.parametrize("kind, planes, shortlist, match", [("float", None, None, "head 'float'"), ("ternary", 4, None, "4 planes"),
    ("hybrid", 2, 257, "shortlist of 257"), ("hybrid", 2, -1, "shortlist of -1")])
def test_heads_that_cannot_be(model, kind, planes, shortlist, match):
    with pytest.raises(ValueError, match=match):
        with_head(model, kind, planes, shortlist)


def test_defaults(model):
    assert [shortlist_of(vocab) for vocab in (100, 1024, 32002, 128256)] == [1, 8, 250, 256]
    assert with_head(model, "ternary").ternary.planes == 1 and with_head(model, "hybrid").ternary.planes == 2

def test_bench(tmp_path):
    rows = {row.row: row for row in bench.measure(write_checkpoint(tmp_path/"tiny", vocab_size=320), None, 200)}
    assert rows["states"].ours >= 200 and rows["shortlist"].ours == 2
    assert rows["int8 head: choice of the int8 head"].ours == 100
    assert rows["hybrid head, 2 rows by 3 planes: choice of the int8 head"].ours > 90
    assert rows["ternary head, 3 planes: perplexity over the int8 head's"].ours == pytest.approx(1, abs=0.1)

def test_bench_on_the_gateware():
    """Results are compared with numpy inside; a shortlist saves what it must, and its scores are cheap."""
    rows = {row.row.removeprefix("bitnet_large.head"): row.ours for row in head_gateware.measure(vocabulary=1280)}
    assert rows[": of that, 10 scores"] < rows[" ternary, 1 plane: time"] < rows[" hybrid, 1 plane: time"] < rows[" hybrid, 2 planes: time"]
    assert rows[" hybrid, 2 planes: time"] < rows[" int8: time"]

# Image --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind, number", [("int8", HEAD_INT8), ("ternary", HEAD_TERNARY), ("hybrid", HEAD_HYBRID)])
def test_image_keeps_the_head(tmp_path, tied, kind, number):
    model = with_head(tiny_model(seed=2, tied=tied), kind)
    write_image(model, tmp_path/"m.tern")
    again = read_image(tmp_path/"m.tern")
    assert read_header((tmp_path/"m.tern").read_bytes())[0]["head_format"] == number and again.config.tied == tied
    assert (again.head is None) == (kind == "ternary" and not tied)
    if kind != "int8":
        for name in ("packed", "planes", "steps", "shortlist"):
            np.testing.assert_array_equal(getattr(again.ternary, name), getattr(model.ternary, name))
    assert (kind == "int8") == (again.ternary is None)
    if again.head is None:
        with pytest.raises(ValueError, match="no int8 head"):
            with_head(again, "int8")


def test_image_keeps_the_body(tmp_path, model):
    model = with_int8_body(model)
    write_image(model, tmp_path/"m.tern")
    again = read_image(tmp_path/"m.tern")
    assert again.body_format == FORMAT_INT8 and read_header((tmp_path/"m.tern").read_bytes())[0]["body_format"] == FORMAT_INT8
    for one, other in zip(again.layers, model.layers):
        for name in GROUPS:
            np.testing.assert_array_equal(getattr(one, name).unpack(), getattr(other, name).unpack())
            np.testing.assert_array_equal(getattr(one, name).scales(), getattr(other, name).scales())

# Equal bits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [FORMAT_TERNARY, FORMAT_INT8])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head[0]}-{head[1]}-{head[2]}")
def test_engine_equals_numpy(c, model, head, body):
    expect_equal(c, with_head(with_int8_body(model) if body == FORMAT_INT8 else model, *head))


@pytest.mark.parametrize("ports", [1, 2])
@pytest.mark.parametrize("vocab", [8, 9, 16, 258])
@pytest.mark.parametrize("shortlist", [1, 2, 7, 8, 9, 16, 17, 255, 256])
def test_any_split_of_the_shortlist(ports, vocab, shortlist):
    if shortlist > vocab:
        shortlist = vocab
    expect_equal(firmware_build("host C scalar"), with_head(tiny_model(seed=shortlist, vocab=vocab, layers=1), "hybrid", 1, shortlist), 3, ports=ports)


@pytest.mark.parametrize("activation", ["silu", "relu2"])
@pytest.mark.parametrize("ports", [1, 2])
def test_int8_bodies(ports, activation):
    model = with_int8_body(tiny_model(seed=3, kv_heads=1, activation=activation, sub_norms=False))
    expect_equal(firmware_build("host C scalar"), model, ports=ports)


@pytest.mark.parametrize("pl", ["none", "c", "rtl"])
@pytest.mark.parametrize("head, body", [(("hybrid", 2, 9), FORMAT_TERNARY), (("ternary", 2, None), FORMAT_INT8)])
def test_board_equals_numpy(model, pl, head, body):
    model    = with_head(with_int8_body(model) if body == FORMAT_INT8 else model, *head)
    expected = greedy(model, TEXT, 3)[1]
    assert first_difference(expected, board_logits(pl, image_bytes(model), TEXT, 3)) is None

# Limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pl, error", [({"topk_max": 8}, ERROR_SHORTLIST), ({"topk_max": 0}, ERROR_SHORTLIST), ({"topk_max": 9}, OK),
    ({"row_weights_max": 127}, ERROR_PL), ({"row_weights_max": 128}, OK)])
def test_what_the_core_cannot_keep(model, pl, error):
    assert Engine(firmware_build("host C scalar"), image_bytes(with_head(model, "hybrid", 2, 9)), pl=pl).error == error


def test_board_says_what_its_accelerator_lacks(model):
    with Device(VirtualBoard(image_bytes(with_head(model, "hybrid")), pl="c", config=AcceleratorConfig())) as device:
        assert "no shortlist as long" in device.identity["problem"]
