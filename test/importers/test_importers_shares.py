#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Ternary models that were trained on several devices: a scale for each one's share of a matrix, blocks of rows or of columns."""

import dataclasses

import numpy as np
import pytest

from safetensors.numpy import load_file, save_file

from equal_bits import build_logits, first_difference
from greedy import greedy
from firmware_builds import BUILDS
from golden_checkpoints import Golden, calibrated, relative_error
from litetern.model.formats.config import matrix_shapes
from litetern.model.formats.image import image_parts, read_image, write_image
from litetern.model.importers import load_checkpoint
from litetern.model.importers.huggingface import MATRICES, SUB_NORMS
from litetern.model.importers.matrices import Columns, any_ternary
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.reference import ReferenceModel
from tiny_checkpoint import write_checkpoint

COLUMNS = ("o", "down")  # Whose columns are shared out; of the others, the rows are.


def shared_out(path, shares, seed=1):
    """Rewrites model.safetensors of a folder: each share of a body's matrix times a factor of its own."""
    tensors, random = load_file(path/"model.safetensors"), np.random.default_rng(seed)
    for name in tensors:
        for key, part in MATRICES.items():
            if f".{part}.weight" in name:
                tensor  = tensors[name].astype(np.float32)
                axis    = int(key in COLUMNS)
                factors = np.repeat(random.uniform(0.5, 1.5, shares), tensor.shape[axis]//shares).astype(np.float32)
                tensors[name] = np.ascontiguousarray(tensor*(factors if axis else factors[:, None]))
    save_file(tensors, path/"model.safetensors")
    return tensors


def as_floats(checkpoint, tensors):
    """The same checkpoint with the file's own floats for matrices."""
    layers = [layer | {key: (tensors[f"model.layers.{index}.{part}.weight"].astype(np.float32), np.float32(1)) for key, part in MATRICES.items()}
        for index, layer in enumerate(checkpoint.layers)]
    return dataclasses.replace(checkpoint, layers=layers, weights="float")


@pytest.mark.parametrize("shares", [2, 4])
def test_trilm_of_several_devices(tmp_path, shares):
    """It stays ternary; the float reference gives the logits of the file's own floats."""
    golden     = Golden("trilm", tmp_path)
    tensors    = shared_out(golden.path, shares)
    checkpoint = load_checkpoint(golden.path)
    expected   = ReferenceModel(as_floats(checkpoint, tensors)).logits(golden.tokens)
    assert checkpoint.weights == "ternary"
    for key in matrix_shapes(vars(checkpoint.config)):
        assert len(np.unique(checkpoint.layers[0][key][1])) == (1 if key in COLUMNS else shares)  # Those of o and v, of down and up meet.
    error = relative_error(ReferenceModel(checkpoint).logits(golden.tokens), expected)
    assert error.max() < 1e-4
    assert relative_error(golden.logits, expected).max() > 0.1  # It does matter.


@pytest.mark.parametrize("build", list(BUILDS))
def test_rows_with_steps_on_the_board(tmp_path, build):
    """Through an image, whose length is foretold, and the firmware: the numpy definition's bits."""
    golden = Golden("trilm", tmp_path)
    shared_out(golden.path, 2)
    model  = calibrated(load_checkpoint(golden.path), golden.tokens)
    size   = write_image(model, tmp_path/"m.tern")
    again  = read_image(tmp_path/"m.tern")
    assert model.row_steps and again.row_steps and again.body_format == model.body_format == 0
    assert size == sum(image_parts(model.config, row_steps=True).values())
    one, other = (ExactModel(m).step(golden.tokens[:1, 0]) for m in (model, again))
    np.testing.assert_array_equal(one, other)
    prompt = golden.tokens[0, :5].tolist()
    _, expected = greedy(again, prompt, 3)
    assert first_difference(expected, build_logits(build, (tmp_path/"m.tern").read_bytes(), prompt, 3)) is None


def test_columns_before_a_norm(tmp_path):
    """Where a norm stands before o and down, its gain takes the scales of the columns."""
    folder  = write_checkpoint(tmp_path/"m")
    tensors = load_file(folder/"model.safetensors")
    for name, tensor in tensors.items():
        if "_proj" in name:
            tensors[name] = np.sign(tensor)*np.float32(0.125)
    save_file(tensors, folder/"model.safetensors")
    config = (folder/"config.json").read_text().replace("BitnetForCausalLM", "BitNetForCausalLM")
    (folder/"config.json").write_text(config)
    tensors    = shared_out(folder, 2)
    checkpoint = load_checkpoint(folder)
    tokens     = np.arange(12)[None]
    assert checkpoint.weights == "ternary" and np.ndim(checkpoint.layers[0]["o"][1]) == 0 and np.ndim(checkpoint.layers[0]["up"][1]) == 1
    plain  = as_floats(checkpoint, tensors)
    layers = [layer | {norm: tensors[f"model.layers.{index}.{part}.weight"] for norm, part in SUB_NORMS.items()}
        for index, layer in enumerate(plain.layers)]
    expected = ReferenceModel(dataclasses.replace(plain, layers=layers)).logits(tokens)
    assert relative_error(ReferenceModel(checkpoint).logits(tokens), expected).max() < 1e-4


@pytest.mark.parametrize("name, change, line", [
    ("self_attn.k_proj", lambda w: w*np.linspace(1, 2, w.shape[1], dtype=np.float32), "matrix k of block 1: its columns have scales of their own"),
    ("self_attn.o_proj", lambda w: w*np.linspace(1, 2, w.shape[1], dtype=np.float32), "matrix o: its columns have scales that differ within"),
    ("mlp.up_proj", lambda w: w + np.linspace(0, 1, w.shape[1], dtype=np.float32), "those of a ternary checkpoint are all -s, 0 or +s"),
])
def test_what_is_not_shared_out(tmp_path, name, change, line):
    golden  = Golden("trilm", tmp_path)
    tensors = load_file(golden.path/"model.safetensors")
    key     = f"model.layers.1.{name}.weight"
    tensors[key] = np.ascontiguousarray(change(tensors[key].astype(np.float32)))
    save_file(tensors, golden.path/"model.safetensors")
    if name == "self_attn.o_proj":  # Two query heads for a KV head.
        config = (golden.path/"config.json").read_text()
        (golden.path/"config.json").write_text(config.replace('"num_key_value_heads": 4', '"num_key_value_heads": 2'))
        for other in tensors:
            if "k_proj" in other or "v_proj" in other:
                tensors[other] = np.ascontiguousarray(tensors[other][:16])
        save_file(tensors, golden.path/"model.safetensors")
    with pytest.raises(ValueError) as error:
        load_checkpoint(golden.path)
    assert line in str(error.value) and "\n" not in str(error.value)


def test_kinds_of_scales():
    trits = np.array([[1, -1, 0], [0, 1, 1], [0, 0, 0]], np.float32)
    assert np.ndim(any_ternary(trits*np.float32(0.3))[1]) == 0
    weights, scale = any_ternary(trits*np.array([[0.3], [0.7], [1]], np.float32))
    np.testing.assert_array_equal(scale, np.array([0.3, 0.7, 0.7], np.float32))
    np.testing.assert_array_equal(weights, trits)
    weights, scale = any_ternary(trits*np.array([0.3, 0.7, 0.1], np.float32))
    assert isinstance(scale, Columns) and np.array_equal(weights*scale.scales, trits*np.array([0.3, 0.7, 0.1], np.float32))
    assert any_ternary(np.array([[1, 2], [2, 4]], np.float32)) is None and any_ternary(np.zeros((2, 2), np.float32)) is None
