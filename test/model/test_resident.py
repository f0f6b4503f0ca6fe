#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Whole resident models: every family near its float reference, nothing cut in silence, folders read or refused by name."""

import json

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st
from safetensors.numpy import load_file, save_file

from litetern.model.resident.build import RESIDUAL_BITS, build, calibrate
from litetern.model.resident.config import ResidentConfig
from litetern.model.resident.exact import ResidentExact
from litetern.model.resident.micro import micro_model, micro_source
from litetern.model.resident.price import table
from litetern.model.resident.reference import ReferenceModel
from litetern.model.resident.source import load, to_checkpoint
from tiny_checkpoint          import tokenizer

FAMILIES = {
    "llama"           : {},
    "llama, no GQA"   : {"kv_heads": 4, "sub_norms": False},
    "gpt"             : {"gated": False, "norm": "layer", "activation": "gelu", "positions": "learned", "weights": "int4",
                         "sub_norms": False},
    "gpt, rms, relu"  : {"gated": False, "activation": "relu", "positions": "learned"},
    "int8 everywhere" : {"weights": "int8", "embedding_format": "int8"},
    "odd widths"      : {"hidden": 37, "ffn": 51, "heads": 3, "kv_heads": 1, "head_dim": 10, "vocab": 7, "embedding_format": "trits3"},
}

# Families -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_resident_follows_the_float_reference(family):
    source = micro_source(3, **FAMILIES[family])
    tokens = np.random.default_rng(3).integers(0, source.config.vocab, (4, source.config.window))
    exact  = ResidentExact(build(source, calibrate(source, tokens)), batch=4)
    logits = np.stack([exact.step(tokens[:, t]) for t in range(source.config.window)], axis=1)/1024
    real   = ReferenceModel(source).logits(tokens)
    assert np.sqrt(((logits - real)**2).mean()) < 0.05*real.std(), family
    assert exact.clip.total == 0 and len(exact.clip.counts) >= 8


@settings(max_examples=20)
@given(seed=st.integers(0, 2**16), hidden=st.integers(1, 40), ffn=st.integers(1, 40), kv_heads=st.integers(1, 3), group=st.integers(1, 3),
    half=st.integers(1, 6), vocab=st.integers(2, 20), gated=st.booleans(), sub_norms=st.booleans(), norm=st.sampled_from(("rms", "layer")),
    positions=st.sampled_from(("rope", "learned")), weights=st.sampled_from(("ternary", "int4", "int8")))
def test_sessions_of_a_batch_do_not_meet(seed, hidden, ffn, kv_heads, group, half, vocab, **kinds):
    model  = micro_model(seed, hidden=hidden, ffn=ffn, layers=1, heads=kv_heads*group, kv_heads=kv_heads, head_dim=2*half, vocab=vocab,
        window=5, **kinds)
    tokens = np.random.default_rng(seed).integers(0, vocab, (3, 5))
    batch  = ResidentExact(model, batch=3)
    single = [ResidentExact(model) for _ in range(3)]
    for t in range(5):
        together = batch.step(tokens[:, t])
        np.testing.assert_array_equal(together, np.concatenate([one.step(tokens[i, t:t + 1]) for i, one in enumerate(single)]))


def test_the_window_ends():
    exact = ResidentExact(micro_model(window=2))
    exact.step([1]), exact.step([2])
    with pytest.raises(ValueError, match="position 2: the window holds 2"):
        exact.step([3])
    exact.reset()
    exact.step([1])


def test_what_is_cut_is_counted():
    source = micro_source(2)
    tokens = np.arange(source.config.window)[None]
    maxima = calibrate(source, tokens)
    tight  = {**maxima, "k": maxima["k"]/3, "v": maxima["v"]/4, "residual": maxima["residual"]/16}
    exact  = ResidentExact(build(source, tight))
    exact.trace = []
    for token in tokens[0]:
        exact.step([token])
    cut = {place for place, number in exact.clip.counts.items() if number}
    assert {"k", "v", "residual"} <= cut
    residuals = np.concatenate([value for name, value in exact.trace if name in ("embedding", "residual")])
    assert np.abs(residuals).max() == 2**(RESIDUAL_BITS - 1) - 1


def test_scores_beyond_the_multiplier_are_refused():
    source = micro_source(1)
    maxima = calibrate(source, np.array([[1, 2]]))
    with pytest.raises(ValueError, match="block 0: scores of up to .* too steep"):
        build(source, {**maxima, "q": maxima["q"]*1000})


def test_gains_beyond_their_width_are_refused():
    source = micro_source(1)
    source.layers[1]["ffn_norm"][3] = -9
    with pytest.raises(ValueError, match="block 1: a gain of 9; 16 bits hold up to 8.00"):
        build(source, calibrate(source, np.array([[1, 2]])))


@pytest.mark.parametrize("change, words", [
    ({"kv_heads": 3},        "heads = 4: must be a multiple of kv_heads = 3"),
    ({"head_dim": 7},        "head_dim = 7: RoPE turns pairs"),
    ({"hidden": 0},          "hidden = 0: must be a whole number from 1 to 2048"),
    ({"activation": "tanh"}, "activation 'tanh': must be one of silu, gelu, relu"),
    ({"norm": "none"},       "norm 'none': must be one of rms, layer"),
    ({"norm_eps": 0.0},      "norm_eps = 0.0"),
])
def test_shapes_that_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        ResidentConfig(**({"hidden": 8, "ffn": 8, "layers": 1, "heads": 4, "kv_heads": 2, "head_dim": 8, "vocab": 9, "window": 4} | change))

# Folders ------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A trained folder as `model/training/train_export.py` writes it, of random weights."""
    random = np.random.default_rng(5)
    h, f, q, kv, vocab, layers = 24, 40, 16, 8, 320, 2
    shapes = {"input_layernorm": (h,), "post_attention_layernorm": (h,), "self_attn.inner_attn_ln": (q,), "mlp.ffn_layernorm": (f,),
        "self_attn.q_proj": (q, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, q),
        "mlp.gate_proj": (f, h), "mlp.up_proj": (f, h), "mlp.down_proj": (h, f)}
    tensors = {"model.embed_tokens.weight": random.normal(0, 1, (vocab, h)), "model.norm.weight": np.ones(h)}
    for layer in range(layers):
        for name, shape in shapes.items():
            drawn = random.normal(0, 0.3, shape) if len(shape) == 2 else random.uniform(0.5, 1.5, shape)
            tensors[f"model.layers.{layer}.{name}.weight"] = drawn
    save_file({name: value.astype(np.float16) for name, value in tensors.items()}, tmp_path/"model.safetensors")
    (tmp_path/"config.json").write_text(json.dumps({"architectures": ["BitnetForCausalLM"], "hidden_size": h, "intermediate_size": f,
        "num_hidden_layers": layers, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": vocab,
        "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": True,
        "bos_token_id": 0, "eos_token_id": 0, "resident": {"gated": True, "weights": "ternary", "norm": "rms", "positions": "rope",
        "sub_norms": True, "embedding_planes": 2, "limits": {"q": [[4, 4]]*layers, "k": [[4]]*layers, "v": [[4]]*layers}}}))
    tokenizer(vocab).save(str(tmp_path/"tokenizer.json"))
    return tmp_path


def change_config(folder, **changes):
    settings = json.loads((folder/"config.json").read_text())
    for name, value in changes.items():
        place = settings if name in settings else settings["resident"]
        place[name] = value
    (folder/"config.json").write_text(json.dumps(settings))


def test_a_folder_is_read_and_priced(folder, tmp_path):
    text = tmp_path/"text.txt"
    text.write_text("Once upon a time there was a dog.\n<|endoftext|>\nThe girl and the dog played all day.\n")
    rows, cut = table(folder, text)
    assert [row["path"] for row in rows] == ["float", "streamed", "resident"]
    # An untrained model: all paths are near each other, and per character lower than per token.
    assert max(row["perplexity"] for row in rows) < 1.1*min(row["perplexity"] for row in rows)
    assert all(1 < row["per_character"] < row["perplexity"] for row in rows)


def test_the_streamed_path_gets_the_same_weights(folder):
    source     = load(folder)
    checkpoint = to_checkpoint(source)
    np.testing.assert_array_equal(checkpoint.layers[1]["down"][0], source.layers[1]["down"][0])
    values = np.unique(np.rint(checkpoint.embedding/source.embedding[1][:, None]))
    np.testing.assert_array_equal(values, np.arange(-4, 5))


@pytest.mark.parametrize("changes, words", [
    ({"resident": None},                      "key resident"),
    ({"weights": "int3"},                     "must be one of ternary, int4, int8"),
    ({"embedding_planes": 4},                 "embedding_planes 4: must be a whole number between 0 and 3"),
    ({"limits": {"q": [[4, 4]]*2, "k": [[4]]*2, "v": [[4], [0]]}}, "v .*must be 2 lists of 1 numbers"),
    ({"limits": {"q": [[4]]*2, "k": [[4]]*2, "v": [[4]]*2}},       "q .*must be 2 lists of 2 numbers"),
    ({"hidden_act": "tanh"},                  "must be one of silu, gelu, relu"),
    ({"num_key_value_heads": 3},              "must be a multiple of kv_heads = 3"),
    ({"hidden_size": 32},                     "input_layernorm|q_proj|embed_tokens"),
    ({"positions": "learned"},                "embed_positions"),
    ({"gated": False},                        "gate_proj.weight has no place in this model"),
])
def test_folders_that_are_refused(folder, changes, words):
    change_config(folder, **changes)
    with pytest.raises(ValueError, match=words) as error:
        load(folder)
    assert str(error.value).startswith(str(folder)) and "\n" not in str(error.value)


def test_weights_that_are_no_numbers_are_refused(folder):
    tensors = load_file(folder/"model.safetensors")
    tensors["model.norm.weight"][0] = np.nan
    save_file(tensors, folder/"model.safetensors")
    with pytest.raises(ValueError, match="model.norm.weight"):
        load(folder)


def test_a_layer_norm_is_not_streamed():
    with pytest.raises(ValueError, match="the streamed path has ternary models with RMSNorm"):
        to_checkpoint(micro_source(1, norm="layer"))
