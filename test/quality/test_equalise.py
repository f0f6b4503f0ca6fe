#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Equalised bodies: the same model in floats, a better one in int8, one for all who make images, and nothing for ternary models."""

import io

from dataclasses import replace

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from litetern.bench import exact_price
from litetern.host import pack as packer
from litetern.model import calibrate
from litetern.model.common.progress import Progress
from litetern.model.formats.checkpoint import MATRICES, Checkpoint
from litetern.model.formats.config import ModelConfig
from litetern.model.formats.image import read_image, write_image
from litetern.model.importers import load_checkpoint
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.quantised import absmax_rows, quantise_checkpoint
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.numerics.saturation import KINDS, Saturation
from litetern.model.paths import ROOT
from litetern.model.perplexity import calibrated
from litetern.model.quality.equalise import column_factors, equalise, factors, key_factors
from litetern.model.quality.likelihood import perplexity_exact, perplexity_float
from litetern.soc.generator.design import convert

from tiny_checkpoint import tokenizer, write_checkpoint

TEXT = "Once upon a time there was a girl and a dog. They played all day, and the dog ran fast. "

# Models -------------------------------------------------------------------------------------------


def uneven(seed=1, size=1.0, **shape):
    """Float Checkpoint of random weights whose channels differ up to thirtyfold; size: of q and k beside unit variance."""
    config = ModelConfig(**(dict(hidden=64, ffn=96, layers=2, heads=4, kv_heads=2, head_dim=8, vocab=320, context=64, sub_norms=False) | shape))
    random = np.random.default_rng(seed)
    spread = lambda count: np.exp(random.uniform(-1.7, 1.7, count)).astype(np.float32)
    layers = []
    for _ in range(config.layers):
        layer = {name: random.normal(0, 1/np.sqrt(columns), (rows, columns)).astype(np.float32) for name, (rows, columns) in config.matrices.items()}
        gains = {name: spread(config.hidden) for name in ("attn_norm", "ffn_norm")}
        layer["q"], layer["k"] = (layer[name]/gains["attn_norm"]*np.float32(size) for name in "qk")
        layer["v"]             = layer["v"]/gains["attn_norm"]
        layer["gate"], layer["up"] = (layer[name]/gains["ffn_norm"] for name in ("gate", "up"))
        hidden        = spread(config.ffn)
        layer["up"]   = layer["up"]*hidden[:, None]
        layer["down"] = layer["down"]/hidden
        pairs         = np.tile(spread(config.kv_width//2).reshape(config.kv_heads, -1), 2)
        layer["k"]    = layer["k"]*pairs.reshape(-1)[:, None]
        layer["q"]    = layer["q"]/np.repeat(pairs, config.group, axis=0).reshape(-1)[:, None]
        layers.append({name: (matrix, np.float32(1)) for name, matrix in layer.items()} | gains)
    embedding = random.normal(0, 1, (config.vocab, config.hidden)).astype(np.float32)
    return Checkpoint(config, layers, np.full(config.hidden, 0.3, np.float32), embedding, weights="float", name="uneven",
        tokenizer=tokenizer(config.vocab).to_str().encode(), quantised_activations=False)


def rounded(checkpoint):
    """The int8 Checkpoint of a float one, as importers make it."""
    return replace(checkpoint, weights="int8", layers=[{name: absmax_rows(value[0]) if name in MATRICES else value for name, value in layer.items()}
        for layer in checkpoint.layers])


def tokens_of(count, seed=3, vocab=320):
    return np.random.default_rng(seed).integers(0, vocab, count)

# The same in floats -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [{}, {"activation": "relu2"}, {"kv_heads": 4}, {"head_dim": 16, "kv_heads": 1}])
def test_floats_stay_the_same(shape):
    checkpoint = uneven(**shape)
    result     = equalise(checkpoint, tokens_of(96))
    before, after = (ReferenceModel(c).logits(tokens_of(40, 4)) for c in (checkpoint, result))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5*np.abs(before).max())
    floats  = lambda layer, name: layer[name] if name not in MATRICES else layer[name][0]*np.broadcast_to(layer[name][1], len(layer[name][0]))[:, None]
    changed = {name for old, new in zip(checkpoint.layers, result.layers) for name in old if not np.array_equal(floats(old, name), floats(new, name))}
    assert changed == {*MATRICES, "attn_norm", "ffn_norm"} - {"o"}


def test_factors_of_keys_go_with_rope_and_groups():
    """Both channels of a pair share a factor, the largest is 1; K's channels become more alike."""
    random = np.random.default_rng(7)
    spread = np.tile(np.exp(random.uniform(-2, 2, (2, 4))), 2)
    k, q   = random.normal(0, 1, (50, 2, 8))*spread, random.normal(0, 1, (50, 6, 8))/np.repeat(spread, 3, axis=0)
    s      = key_factors(q.astype(np.float32), k.astype(np.float32))
    np.testing.assert_array_equal(s[:, :4], s[:, 4:])
    assert np.all(s.max(axis=1) == 1) and np.all(s > 0)
    ratio  = lambda values: np.ptp(np.log(np.abs(values).max(axis=0)), axis=-1)
    assert np.all(ratio(k/s) < ratio(k))


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0, 1e-38, 1e-20, 1, 1e18, 1e38]), zero=st.booleans())
def test_factors_are_numbers_whatever_the_weights(seed, scale, zero):
    random  = np.random.default_rng(seed)
    weights = (random.uniform(-1, 1, (8, 16))*scale).astype(np.float32)
    x       = (random.normal(0, 1, (5, 16))*min(scale, 1e18)).astype(np.float32)
    if zero:
        weights[:, ::2], x[0] = 0, 0
    for s in (column_factors(x, [(weights, np.float32(1))]), key_factors(x.reshape(5, 2, 8), x.reshape(5, 2, 8)[:, :1])):
        assert s.dtype == np.float32 and np.all(np.isfinite(s)) and np.all((s > 1e-9) & (s < 1e9))


def test_int8_is_rounded_once():
    """Weights of an int8 body are the floats, times the factors, rounded once: within half a step of their row."""
    checkpoint, tokens = uneven(), tokens_of(96)
    int8       = rounded(checkpoint)
    result     = equalise(int8, tokens, lambda: replace(checkpoint, layers=list(checkpoint.layers)))
    again      = equalise(int8, tokens)
    for layer, source, twice, f in zip(result.layers, checkpoint.layers, again.layers, factors(int8, tokens)):
        for name, s in (("gate", f["gate_up"]), ("down", f["down"]), ("v", f["qkv"])):
            expected, (weights, steps) = source[name][0]*s, layer[name]
            assert weights.dtype == np.int8 and np.all(np.abs(weights*steps[:, None] - expected) <= 0.5001*steps[:, None])
            weights, steps = twice[name]
            assert np.abs(weights*steps[:, None] - expected).max() > 0.51*steps.min()

# The price ----------------------------------------------------------------------------------------


def price(checkpoint, model, tokens):
    """(exact over float perplexity, {kind: clipped})."""
    saturation = Saturation()
    exact      = perplexity_exact(model, tokens, 32, saturation=saturation)
    return exact/perplexity_float(checkpoint, tokens, 32), {kind: saturation.total(kind)[0] for kind in KINDS}


def own_text(checkpoint, count=256, seed=5):
    """Tokens that the float model itself draws, so that its perplexity means something: int [count], in windows of 32."""
    model, random = ReferenceModel(checkpoint), np.random.default_rng(seed)
    tokens = random.integers(0, checkpoint.config.vocab, (count//32, 1))
    for _ in range(31):
        logits = model.logits(tokens)[:, -1]
        tokens = np.concatenate([tokens, (logits + random.gumbel(size=logits.shape)).argmax(axis=-1)[:, None]], axis=1)
    return np.append(tokens.reshape(-1), 0)


@pytest.mark.parametrize("size", [1, 10])
def test_price_of_uneven_channels(size):
    """Heads of 8 whose q and k are so many times larger: nothing clips, and at most 3 % are lost; more without equalising."""
    checkpoint      = uneven(size=size)
    int8, tokens    = rounded(checkpoint), own_text(checkpoint)
    equal, *steps, _ = calibrate.prepare(int8)
    ratio, clipped  = price(checkpoint, quantise_checkpoint(equal, *steps), tokens)
    plain, _        = price(checkpoint, quantise_checkpoint(int8, *steps), tokens)
    assert clipped == dict.fromkeys(KINDS, 0)
    assert ratio <= 1.03 and abs(ratio - 1) < abs(plain - 1)

# One model for all --------------------------------------------------------------------------------


def image_of(model, path):
    write_image(model, path)
    return read_image(path)


def test_packer_perplexity_and_generator_make_one_model(tmp_path):
    folder = write_checkpoint(tmp_path/"llama", architectures=["LlamaForCausalLM"])
    packer.pack(folder, tmp_path/"m.tern")
    packed = read_image(tmp_path/"m.tern")
    for name, model in (("perplexity", calibrated(load_checkpoint(folder), folder)), ("generator", convert(folder).quantised)):
        other = image_of(model, tmp_path/f"{name}.tern")
        for mine, theirs in zip(packed.layers, other.layers):
            for key, value in vars(mine).items():
                fields = vars(value) if hasattr(value, "packed") else {key: value}
                for field, array in fields.items():
                    np.testing.assert_array_equal(array, vars(getattr(theirs, key))[field] if hasattr(value, "packed") else getattr(theirs, key))
    plain  = load_checkpoint(folder)
    assert not np.array_equal(packed.layers[0].attn_norm, plain.layers[0]["attn_norm"])
    tokens = tokens_of(32)
    logits = np.stack([exact.step([token])[0] for exact in [ExactModel(packed)] for token in tokens])
    floats = ReferenceModel(load_checkpoint(folder, floats=True)).logits(tokens)[0]
    assert np.corrcoef(logits.ravel(), floats.ravel())[0, 1] > 0.97


@pytest.mark.parametrize("source", ["stories", "bitnet", "sub-norms"])
def test_other_models_are_untouched(tmp_path, source):
    """Ternary models, those trained with int8 activations, those with sub-norms: the very same checkpoint and steps as without."""
    folder = ROOT/"model"/"zoo"/"stories" if source == "stories" else write_checkpoint(tmp_path/"tiny",
        **({"architectures": ["BitNetForCausalLM"]} if source == "sub-norms" else {}))
    checkpoint = load_checkpoint(folder)
    result, *steps, _ = calibrate.prepare(checkpoint, folder)
    assert result is checkpoint
    for step, expected in zip(steps, calibrate.kv_steps(checkpoint)):
        np.testing.assert_array_equal(step, expected)


def test_steps_of_the_owner_are_taken(tmp_path):
    folder = write_checkpoint(tmp_path/"llama", architectures=["LlamaForCausalLM"])
    calibrate.write_steps(folder/calibrate.FILE, *np.full((2, 2, 1), 0.25), "mine")
    checkpoint, k_steps, v_steps, stored = calibrate.prepare(load_checkpoint(folder), folder)
    assert stored == str(folder/calibrate.FILE) and np.all(k_steps == 0.25) and np.all(v_steps == 0.25)


def test_bench_states_the_price(tmp_path):
    folder, text = write_checkpoint(tmp_path/"llama", architectures=["LlamaForCausalLM"]), tmp_path/"text.txt"
    text.write_text(TEXT*4)
    rows = {row.row: row.ours for row in exact_price.measure(folder, text, 64, 32, Progress(io.StringIO()))}
    assert rows["tokens"] == 64
    assert rows["exact over float"] == rows["perplexity of the exact path"]/rows["perplexity of the floats"]
    assert {name for name in rows if name.startswith("clipped ")} == {f"clipped {kind}" for kind in KINDS}
