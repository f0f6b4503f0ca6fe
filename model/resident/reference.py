#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The float reference of resident models, both families: what training saw, attention and KV cache in float32, to state the price."""

import math

import numpy as np

from litetern.model.numerics.reference import fake_quantise, rms_norm, rope

# Pieces -------------------------------------------------------------------------------------------


def _norm(kind, x, gain, eps):
    return rms_norm(x - x.mean(axis=-1, keepdims=True) if kind == "layer" else x, gain, eps)


def _gelu(x):
    # erf by Abramowitz and Stegun 7.1.26: below 2e-7, and numpy has none.
    z = np.abs(x)/math.sqrt(2)
    t = 1/(1 + 0.3275911*z)
    e = 1 - t*(0.254829592 + t*(-0.284496736 + t*(1.421413741 + t*(-1.453152027 + t*1.061405429))))*np.exp(-z*z)
    return x*(1 + np.sign(x)*e)/2


ACTIVATION = {
    "silu" : lambda x: x/(1 + np.exp(-np.maximum(x, -80))),
    "gelu" : _gelu,
    "relu" : lambda x: np.maximum(x, 0),
}

# Model --------------------------------------------------------------------------------------------


class ReferenceModel:
    """Whole windows at once: int [batch, positions] tokens → float32 [batch, positions, vocab] logits of a `Source`.

    observe: None, or a function (layer index, name, array) that sees "q", "k", "v" [batch, positions, heads, head_dim], "hidden" (what
    the activation gives) and "residual".
    """
    def __init__(self, source, observe=None):
        self.source, self.config = source, source.config
        self.observe   = observe or (lambda *_: None)
        self.matrices  = [{name: (value[0].astype(np.float32)*np.asarray(value[1], np.float32).reshape(-1, 1)).T
            for name, value in layer.items() if isinstance(value, tuple)} for layer in source.layers]
        self.embedding = source.embedding[0].astype(np.float32)*source.embedding[1].astype(np.float32)[:, None]

    def logits(self, tokens):
        config, source, act = self.config, self.source, ACTIVATION[self.config.activation]
        tokens = np.atleast_2d(tokens)
        batch, positions = tokens.shape
        norm   = lambda x, gain: fake_quantise(_norm(config.norm, x, gain, config.norm_eps))
        sub    = norm if config.sub_norms else (lambda x, gain: fake_quantise(x))
        x      = self.embedding[tokens]
        if source.positions:
            x = x + source.positions[0][:positions].astype(np.float32)*np.float32(source.positions[1])
        future = np.triu(np.full((positions, positions), -np.inf, np.float32), 1)
        for index, (layer, w) in enumerate(zip(source.layers, self.matrices)):
            self.observe(index, "residual", x)
            h = norm(x, layer["attn_norm"])
            q, k, v = ((h @ w[name]).reshape(batch, positions, -1, config.head_dim) for name in "qkv")
            if config.positions == "rope":
                q, k = rope(q, config.rope_theta), rope(k, config.rope_theta)
            for name, value in zip("qkv", (q, k, v)):
                self.observe(index, name, value)
            k, v    = (np.repeat(part, config.group, axis=2) for part in (k, v))
            q, k, v = (part.transpose(0, 2, 1, 3) for part in (q, k, v))
            s = q @ k.transpose(0, 1, 3, 2)/np.float32(np.sqrt(config.head_dim)) + future
            e = np.exp(s - s.max(axis=-1, keepdims=True))
            a = ((e/e.sum(axis=-1, keepdims=True)) @ v).transpose(0, 2, 1, 3).reshape(batch, positions, -1)
            x = x + sub(a, layer.get("o_norm")) @ w["o"]
            self.observe(index, "residual", x)
            h = norm(x, layer["ffn_norm"])
            f = act(h @ w["gate"])*(h @ w["up"]) if config.gated else act(h @ w["up"])
            self.observe(index, "hidden", f)
            x = x + sub(f, layer.get("down_norm")) @ w["down"]
        self.observe(config.layers, "residual", x)
        return _norm(config.norm, x, source.final_norm, config.norm_eps) @ self.embedding.T
