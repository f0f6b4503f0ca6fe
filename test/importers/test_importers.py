#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Importers against the libraries that define the formats: same logits, and what the board's arithmetic costs."""

import json
import re

import numpy as np
import pytest

from safetensors.numpy import load_file

from equal_bits import build_logits, first_difference
from golden_checkpoints import FORMATS, Golden, calibrated, divergence, relative_error
from litetern.model.formats.image import read_image, write_image
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.quality.rounding import round_to_ternary
from greedy import greedy
from tiny_checkpoint import write_checkpoint

# Stated price of the exact path on these models, whose random weights leave nothing redundant.
DIVERGENCE_MAX = 0.02  # Nats a token, mean.
AGREEMENT_MIN  = 0.9   # Positions with the same most likely token.


@pytest.fixture(params=FORMATS)
def golden(request, tmp_path):
    return Golden(request.param, tmp_path)


def check_equal(golden):
    """Float reference against the library. Int8 activations are rounded: a last bit of a sum may, rarely, turn one over."""
    checkpoint = load_checkpoint(golden.path)
    error      = relative_error(ReferenceModel(checkpoint).logits(golden.tokens), golden.logits)
    assert np.median(error) < 1e-5
    assert error.max() < (0.03 if checkpoint.quantised_activations else 1e-4)

# Equal --------------------------------------------------------------------------------------------


def test_all_formats_are_there():
    assert set(FORMATS) == {"bitnet_large", "bitnet_xl", "microsoft_packed", "microsoft_latent", "falcon_e", "trilm", "smollm", "gguf_tq1_0",
        "gguf_tq2_0", "gguf_i2_s", "gguf_float", "llama2c_0", "llama2c_1"}


def test_reference_equals_the_library(golden):
    check_equal(golden)


@pytest.mark.full
def test_made_anew(tmp_path):
    """Today's libraries give the stored logits, and other weights pass as well."""
    import make_golden
    for function in make_golden.FORMATS:
        arrays, stored = make_golden.make(function), np.load(make_golden.FOLDER/f"{function.__name__}.npz")
        assert sorted(arrays) == sorted(stored.files)
        assert np.median(relative_error(arrays["logits"], stored["logits"])) < 1e-5
        check_equal(Golden(function.__name__, tmp_path, arrays))
    made, stored = make_golden.ropes(), json.loads((make_golden.FOLDER/"rope.json").read_text())
    for one, other in zip(made["angles"], stored["angles"], strict=True):
        np.testing.assert_allclose(one["frequencies"], other["frequencies"], rtol=1e-6)
        assert one["config"] == other["config"] and abs(one["factor"] - other["factor"]) < 1e-9
    for one, other in zip(made["models"], stored["models"], strict=True):
        assert np.median(relative_error(np.array(one["logits"]), np.array(other["logits"]))) < 1e-5


def test_exact_path_price(golden):
    checkpoint = load_checkpoint(golden.path)
    model      = ExactModel(calibrated(checkpoint, golden.tokens), batch=len(golden.tokens))
    logits     = np.stack([model.step(tokens) for tokens in golden.tokens.T], axis=1)
    assert divergence(golden.logits, logits).mean() < DIVERGENCE_MAX
    assert (golden.logits.argmax(axis=-1) == logits.argmax(axis=-1)).mean() > AGREEMENT_MIN


def test_packs(golden, tmp_path):
    """Through the image and back, and through the firmware's engine: the same bits."""
    model = calibrated(load_checkpoint(golden.path), golden.tokens)
    write_image(model, tmp_path/"m.tern")
    one, other = (ExactModel(m).step(golden.tokens[:1, 0]) for m in (model, read_image(tmp_path/"m.tern")))
    np.testing.assert_array_equal(one, other)
    # Odd vocabularies, padded widths, GQA, both activations: the firmware takes them all.
    prompt = golden.tokens[0, :5].tolist()
    _, expected = greedy(model, prompt, 3)
    for build in ("host C scalar", "ARMv7 NEON"):
        assert first_difference(expected, build_logits(build, (tmp_path/"m.tern").read_bytes(), prompt, 3)) is None

# Which files are read -----------------------------------------------------------------------------


@pytest.mark.parametrize("stray", ["shards absent", "shards of other weights", "a copy of other weights"])
def test_model_safetensors_is_the_model(tmp_path, stray):
    """As in transformers: what an index or other files beside it say does not count."""
    folder, other = write_checkpoint(tmp_path/"tiny"), write_checkpoint(tmp_path/"other", seed=2)
    expected = load_checkpoint(folder).embedding
    assert not np.array_equal(expected, load_checkpoint(other).embedding)
    names = load_file(folder/"model.safetensors")
    if stray == "a copy of other weights":
        (folder/"model_old.safetensors").write_bytes((other/"model.safetensors").read_bytes())
    else:
        (folder/"model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}))
    if stray == "shards of other weights":
        (folder/"model-00001-of-00001.safetensors").write_bytes((other/"model.safetensors").read_bytes())
    np.testing.assert_array_equal(load_checkpoint(folder).embedding, expected)

# What the files say -------------------------------------------------------------------------------


def load(name, tmp_path, **options):
    return load_checkpoint(Golden(name, tmp_path).path, **options)


def test_shapes(tmp_path):
    shape = lambda name: load(name, tmp_path).config
    assert (shape("bitnet_large").sub_norms, shape("bitnet_large").tied, shape("bitnet_large").activation) == (True, True, "silu")
    microsoft = shape("microsoft_packed")
    assert (microsoft.sub_norms, microsoft.activation, microsoft.group) == (True, "relu2", 2)
    assert (shape("falcon_e").sub_norms, shape("falcon_e").rope_theta, shape("falcon_e").tied) == (False, 500000.0, False)
    assert (shape("smollm").heads, shape("smollm").kv_heads) == (9, 3)


def test_ffn_is_padded_with_zeros(tmp_path):
    """44 → 48: what no file holds multiplies nothing."""
    checkpoint = load("bitnet_xl", tmp_path)
    layer      = checkpoint.layers[0]
    assert checkpoint.config.ffn == 48 and checkpoint.config.vocab == 99
    assert not layer["gate"][0][44:].any() and not layer["up"][0][44:].any() and not layer["down"][0][:, 44:].any()
    assert layer["down"][0][:, :44].any() and not layer["down_norm"][44:].any()


def test_weights(tmp_path):
    for name, weights, quantised in (("bitnet_large", "ternary", True), ("microsoft_packed", "ternary", True), ("trilm", "ternary", False),
            ("smollm", "int8", False), ("gguf_tq2_0", "ternary", False), ("gguf_i2_s", "ternary", True), ("llama2c_0", "int8", False)):
        checkpoint = load(name, tmp_path)
        assert (checkpoint.weights, checkpoint.quantised_activations) == (weights, quantised), name
        matrix, scale = checkpoint.layers[0]["gate"]
        assert matrix.dtype == np.int8 and scale.dtype == np.float32
        assert scale.shape == ((len(matrix),) if weights == "int8" else ())
        assert np.abs(matrix).max() == (127 if weights == "int8" else 1)


def test_names_and_tokens(tmp_path):
    assert [(c.name, c.bos, c.eos) for c in (load(n, tmp_path) for n in ("bitnet_large", "gguf_tq1_0", "llama2c_1"))] == [
        ("bitnet_large", 1, 2), ("tiny", 1, 2), ("tiny", 1, 1)]


def test_progress(tmp_path):
    seen = []
    load("bitnet_large", tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2)]


def test_rounding_to_ternary_states_its_price(tmp_path):
    golden  = Golden("gguf_float", tmp_path)
    rounded = round_to_ternary(load_checkpoint(golden.path))
    assert rounded.weights == "ternary" and set(np.unique(rounded.layers[1]["up"][0])) == {-1, 0, 1}
    assert "unknown: there is no tokenizer" in rounded.notes[0]
    # transformers' BitNet class without a quantisation holds plain floats.
    write_checkpoint(tmp_path/"floats", architectures=["BitNetForCausalLM"])
    assert load_checkpoint(tmp_path/"floats").weights == "int8"
    note = round_to_ternary(load_checkpoint(tmp_path/"floats")).notes[0]
    assert re.fullmatch(r"floats was not trained in ternary and is rounded to it: its perplexity on a short English text goes "
        r"from [\d,.]+ to [\d,.]+", note)
    # What is ternary already stays as it is.
    assert round_to_ternary(load("trilm", tmp_path)).notes == []
