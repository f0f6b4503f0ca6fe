#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Shapes of models that others publish, for sizing and measuring without their weights."""

from litetern.model.formats.config import ModelConfig

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
