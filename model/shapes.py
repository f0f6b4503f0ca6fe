#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Shapes of models that others publish, for sizing and measuring without their weights; and random weights of any shape."""

import numpy as np

from model import ops
from model.config import ModelConfig
from model.quantised import Group, Layer, QuantisedModel
from model.stream import BEAT_BYTES, row_beats
from model.trits import TRIT_VALUES

SHAPES = {
    "bitnet_b1_58-large": ModelConfig(
        hidden     = 1536,
        ffn        = 4096,
        layers     = 24,
        heads      = 16,
        kv_heads   = 16,
        head_dim   = 96,
        vocab      = 32002,
        context    = 2048,
    ),
    "SmolLM2-135M": ModelConfig(
        hidden     = 576,
        ffn        = 1536,
        layers     = 30,
        heads      = 9,
        kv_heads   = 3,
        head_dim   = 64,
        vocab      = 49152,
        context    = 8192,
        rope_theta = 1e5,
        sub_norms  = False,
    ),
}


def random_model(config, seed=1, name="random weights"):
    """QuantisedModel of random weights: what a shape costs, not what a model says."""
    random = np.random.default_rng(seed)

    def group(columns, *rows):
        packed = random.integers(0, TRIT_VALUES, (sum(rows), row_beats(columns)*BEAT_BYTES), dtype=np.uint8)
        return Group(packed, columns, tuple((count, np.float32(1/np.sqrt(columns))) for count in rows))

    def vector(width, low=0.5, high=1.5):
        return random.uniform(low, high, width).astype(np.float32)

    layers = [Layer(
        attn_norm = vector(config.hidden),
        qkv       = group(config.hidden, config.q_width, config.kv_width, config.kv_width),
        o_norm    = vector(config.q_width),
        o         = group(config.q_width, config.hidden),
        ffn_norm  = vector(config.hidden),
        gate_up   = group(config.hidden, config.ffn, config.ffn),
        down_norm = vector(config.ffn),
        down      = group(config.ffn, config.hidden),
        k_steps   = vector(config.kv_heads, 0.01, 0.03),
        v_steps   = vector(config.kv_heads, 0.01, 0.03),
    ) for _ in range(config.layers)]

    def table():
        rows = random.integers(-127, 128, (config.vocab, config.hidden), dtype=np.int8)
        return rows, vector(config.vocab, 0.002, 0.003)

    embedding    = table()
    head         = embedding if config.tied else table()
    cosine, sine = ops.rope_tables(config.context, config.head_dim, config.rope_theta)
    return QuantisedModel(config, layers, vector(config.hidden), *embedding, *head, cosine, sine, name, bos=0, eos=1)
