#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Random resident models of any shape, too small to say anything: for tests and simulations."""

import numpy as np

from litetern.model.resident.build import build, calibrate
from litetern.model.resident.config import ResidentConfig
from litetern.model.resident.matrix import FORMATS
from litetern.model.resident.source import Source

SHAPE = {"hidden": 32, "ffn": 48, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "vocab": 50, "window": 24}


def micro_source(seed=1, weights="ternary", embedding_format="trits2", **shape):
    """Source of random weights; `shape` replaces fields of ResidentConfig."""
    config = ResidentConfig(**(SHAPE | shape))
    random = np.random.default_rng(seed)
    h, f, q, kv = config.hidden, config.ffn, config.q_width, config.kv_width

    def rows(count, columns, format):
        limit = FORMATS[format]
        return random.integers(-limit, limit + 1, (count, columns)).astype(np.int8)

    def matrix(count, columns):
        # Results of about 1 of an input of about 1.
        scale = random.uniform(0.5, 2.0, () if weights == "ternary" else count)/(FORMATS[weights]*np.sqrt(columns/2))
        return rows(count, columns, weights), scale

    def gain(width):
        return random.uniform(0.5, 1.5, width).astype(np.float32)

    layers = []
    for _ in range(config.layers):
        layer = {"attn_norm": gain(h), "q": matrix(q, h), "k": matrix(kv, h), "v": matrix(kv, h), "o": matrix(h, q),
            "ffn_norm": gain(h), "up": matrix(f, h), "down": matrix(h, f)}
        if config.gated:
            layer["gate"] = matrix(f, h)
        if config.sub_norms:
            layer |= {"o_norm": gain(q), "down_norm": gain(f)}
        layers.append(layer)
    table     = lambda count, format: (rows(count, h, format), random.uniform(0.5, 1.0, count)/FORMATS[format])
    positions = (rows(config.window, h, "int8"), random.uniform(0.002, 0.008)) if config.positions == "learned" else None
    return Source(config, layers, gain(h), table(config.vocab, embedding_format), embedding_format, weights, positions, name="micro", ends=(1,))


def micro_model(seed=1, **arguments):
    """ResidentModel of `micro_source`, calibrated on random tokens."""
    source = micro_source(seed, **arguments)
    tokens = np.random.default_rng(seed).integers(0, source.config.vocab, (2, source.config.window))
    return build(source, calibrate(source, tokens))
