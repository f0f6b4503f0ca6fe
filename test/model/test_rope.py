#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Scaled RoPE: frequencies, factors and logits are those of transformers (rope.json, see make_golden.py), and GGUF's are llama.cpp's."""

import json
import math

import gguf
import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from golden_checkpoints import FOLDER, Golden, calibrated, relative_error
from litetern.model.common.fields import Fields
from litetern.model.formats.image import read_image, write_image
from litetern.model.importers import load_checkpoint
from litetern.model.importers.huggingface import angles_from_json, shape_from_json
from litetern.model.numerics import rope, ops
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.reference import ReferenceModel
from test_importers_refusals import rewritten

ROPE = json.loads((FOLDER/"rope.json").read_text())

# As transformers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("golden", ROPE["angles"], ids=lambda golden: json.dumps(golden["config"])[:60])
def test_frequencies_are_transformers(golden):
    config = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 10,
        "max_position_embeddings": 2048} | golden["config"]
    fields = Fields(config, "config.json")
    angles = angles_from_json(fields, shape_from_json(fields, False, True))
    np.testing.assert_allclose(angles.frequencies, golden["frequencies"], rtol=2e-6)  # Theirs are computed in float32.
    assert abs(angles.gain/golden["factor"] - 1) < 1e-9


def turned(tmp_path, stated):
    """The golden "smollm" with another rope_scaling: Golden."""
    golden = Golden("smollm", tmp_path)
    config = json.loads((golden.path/"config.json").read_text())
    config.pop("rope_parameters", None)
    (golden.path/"config.json").write_text(json.dumps(config | {"rope_scaling": stated}))
    return golden


@pytest.mark.parametrize("case", ROPE["models"], ids=lambda case: case["rope_scaling"].get("type", case["rope_scaling"].get("rope_type")))
def test_logits_are_transformers(tmp_path, case):
    """The float reference's, and the exact path's through an image."""
    golden     = turned(tmp_path, case["rope_scaling"])
    checkpoint = load_checkpoint(golden.path)
    tokens, expected = np.array([ROPE["tokens"]]), np.array(case["logits"])
    assert relative_error(ReferenceModel(checkpoint).logits(tokens)[0], expected).max() < 1e-4
    checkpoint.angles = None
    assert relative_error(ReferenceModel(checkpoint).logits(tokens)[0], expected).max() > 0.05  # It does matter here.
    write_image(calibrated(load_checkpoint(golden.path), tokens), tmp_path/"m.tern")
    exact = ExactModel(read_image(tmp_path/"m.tern"))
    steps = np.stack([exact.step([token])[0] for token in tokens[0]])
    assert (steps.argmax(axis=-1) == expected.argmax(axis=-1)).mean() > 0.9


@settings(max_examples=100, deadline=None, derandomize=True)
@given(theta=st.floats(2, 1e7), head_dim=st.sampled_from([8, 16, 64, 128]), factor=st.floats(1, 128), original=st.integers(16, 1 << 17))
def test_scaled_frequencies_lie_between(theta, head_dim, factor, original):
    """Every kind slows each pair by something between 1 and its factor; a factor of 1 is plain RoPE."""
    plain = rope.plain(theta, head_dim).frequencies
    for make in (lambda factor: rope.llama3(theta, head_dim, factor, 1, 4, original), lambda factor: rope.yarn(theta, head_dim, factor, original),
            lambda factor: rope.linear(theta, head_dim, factor)):
        slowed = plain/make(factor).frequencies
        assert (slowed > 1 - 1e-9).all() and (slowed < factor*(1 + 1e-9)).all()
        np.testing.assert_allclose(make(1).frequencies, plain, rtol=1e-12)
        assert make(1).gain == 1


def test_tables_grow_by_the_gain():
    angles = rope.yarn(1e4, 16, 4, 64)
    cosine, sine = ops.rope_tables(40, 16, 1e4, angles)
    np.testing.assert_allclose(cosine**2 + sine**2, angles.gain**2, rtol=1e-5)
    assert abs(angles.gain - (1 + 0.1*math.log(4))) < 1e-12
    for one, other in zip(ops.rope_tables(40, 16, 1e4), ops.rope_tables(40, 16, 1e4, rope.plain(1e4, 16))):
        np.testing.assert_array_equal(one, other)

# GGUF ---------------------------------------------------------------------------------------------


def of_gguf(tmp_path, edit, **tensors):
    golden = Golden("gguf_float", tmp_path)
    return load_checkpoint(rewritten(golden.path, edit, **tensors)).angles


@pytest.mark.parametrize("kind, values, expected", [
    (None,     {},                                   lambda theta: rope.plain(theta, 8)),
    ("none",   {"scaling.factor": 4.0},              lambda theta: rope.plain(theta, 8)),
    ("linear", {"scaling.factor": 4.0},              lambda theta: rope.linear(theta, 8, 4)),
    (None,     {"scaling.factor": 4.0},              lambda theta: rope.linear(theta, 8, 4)),
    (None,     {"scale_linear": 4.0},                lambda theta: rope.linear(theta, 8, 4)),
    ("linear", {"scale_linear": 2.0, "scaling.factor": 4.0}, lambda theta: rope.linear(theta, 8, 4)),
    ("yarn",   {"scaling.factor": 4.0, "scaling.original_context_length": 16}, lambda theta: rope.yarn(theta, 8, 4, 16)),
    ("yarn",   {"scaling.factor": 4.0, "scaling.attn_factor": 0.5}, lambda theta: rope.yarn(theta, 8, 4, 32, 0.5*rope.yarn_gain(4))),
])
def test_scaling_of_a_gguf(tmp_path, kind, values, expected):
    def edit(writer):
        if kind:
            writer.add_string("llama.rope.scaling.type", kind)
        for name, value in values.items():
            (writer.add_uint32 if isinstance(value, int) else writer.add_float32)(f"llama.rope.{name}", value)
    angles = of_gguf(tmp_path, edit)
    theta  = load_checkpoint(tmp_path/"gguf_float"/"tiny.gguf").config.rope_theta
    np.testing.assert_allclose(angles.frequencies, expected(theta).frequencies, rtol=1e-12)
    assert abs(angles.gain - expected(theta).gain) < 1e-12


def test_divisors_of_a_gguf(tmp_path):
    """Llama 3.1's files: the tensor that llama.cpp's converter makes of "llama3" gives its frequencies."""
    theta    = load_checkpoint(Golden("gguf_float", tmp_path).path).config.rope_theta
    wanted   = rope.llama3(theta, 8, 8, 1, 4, 16).frequencies
    divisors = (rope.plain(theta, 8).frequencies/wanted).astype(np.float32)
    assert len(set(divisors)) > 1
    angles   = of_gguf(tmp_path, lambda writer: None, **{"rope_freqs.weight": divisors})
    np.testing.assert_allclose(angles.frequencies, wanted, rtol=1e-6)
    angles   = of_gguf(tmp_path, lambda writer: writer.add_rope_scaling_factor(2.0), **{"rope_freqs.weight": divisors})
    np.testing.assert_allclose(angles.frequencies, wanted/2, rtol=1e-6)
