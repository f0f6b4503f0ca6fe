#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Random models in the board's numbers, of any shape and too small to say anything: for tests and simulations."""

from dataclasses import fields

import numpy as np

from litetern.model.formats.config import GROUPS, ModelConfig
from litetern.model.numerics import ops
from litetern.model.numerics.quantised import Group, Layer, QuantisedModel, absmax_rows

# Micro model --------------------------------------------------------------------------------------

SHAPE = {"hidden": 64, "ffn": 96, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 130, "context": 40}


def micro_model(seed=1, **shape):
    """QuantisedModel of random weights; `shape` replaces fields of ModelConfig."""
    config = ModelConfig(**(SHAPE | shape))
    random = np.random.default_rng(seed)

    def vector(width, low=0.5, high=1.5):
        return random.uniform(low, high, width).astype(np.float32)

    def member(name):
        if name in GROUPS:
            return Group.from_matrices([(random.integers(-1, 2, config.matrices[matrix]).astype(np.int8), random.uniform(0.02, 0.2))
                for matrix in GROUPS[name]])
        return vector(config.vectors[name], *((0.005, 0.05) if name.endswith("steps") else ()))

    # In the order of Layer's members: a seed means the same weights for ever.
    layers       = [Layer(**{field.name: member(field.name) for field in fields(Layer)}) for _ in range(config.layers)]
    table        = lambda: absmax_rows(random.normal(0, 0.3, (config.vocab, config.hidden)).astype(np.float32))
    embedding    = table()
    head         = embedding if config.tied else table()
    cosine, sine = ops.rope_tables(config.context, config.head_dim, config.rope_theta)
    return QuantisedModel(config, layers, vector(config.hidden), *embedding, *head, cosine, sine, "tiny", 0, True, (1,), b"{}")
