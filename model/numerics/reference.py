#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The float reference: the model as it was trained, in float32, to state what the exact path costs. Nothing runs it on the board."""

import numpy as np

from litetern.model.numerics.ops import QUANTISE_FLOOR
from litetern.model.numerics.rope import plain

# Pieces -------------------------------------------------------------------------------------------


def rms_norm(x, gain, eps):
    """ValueError for what float32 cannot hold the squares of: all that runs over comes to a norm."""
    squares = (x*x).mean(axis=-1, keepdims=True)
    if not np.isfinite(squares).all():
        raise ValueError("activations run over float32: weights or gains are damaged")
    return x/np.sqrt(squares + eps)*gain


def fake_quantise(x):
    """int8 activations of the BitNet family, back in float."""
    scale = 127/np.maximum(np.abs(x).max(axis=-1, keepdims=True), QUANTISE_FLOOR)
    return np.clip(np.rint(x*scale), -128, 127)/scale


def rope(x, theta, angles=None):
    """Half-split rotation of x [batch, positions, heads, head_dim], positions from 0; angles: `litetern.model.numerics.rope.Angles` where RoPE is scaled."""
    half = x.shape[-1]//2
    cosine, sine = (table.astype(np.float32)[:, None] for table in (angles or plain(theta, 2*half)).tables(range(x.shape[1])))
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low*cosine - high*sine, high*cosine + low*sine], axis=-1)


ACTIVATION = {
    "silu"  : lambda x: x/(1 + np.exp(-np.maximum(x, -80))),  # Below, float32 has no exp.
    "relu2" : lambda x: np.maximum(x, 0)**2,
}

# Model --------------------------------------------------------------------------------------------


class ReferenceModel:
    """Whole windows at once: int [batch, positions] tokens → float32 [batch, positions, vocab] logits.

    observe: None, or a function (layer index, "q", "k" or "v", float32 [batch, positions, heads, head_dim]) that sees what attention
    gets, in this order (k and v: what the KV cache would hold); calibration uses it.
    inputs: None, or a function (layer index, group of `model.config.GROUPS`, float32 [batch, positions, columns] x of the group, float32
    [batch, positions, hidden] residual stream that its results are for or are added to); equalising uses it.

    Matrices become floats when their turn comes and are dropped again: all at once would take four times the checkpoint.
    """
    def __init__(self, checkpoint, observe=None, inputs=None):
        self.checkpoint, self.config, self.observe, self.inputs = checkpoint, checkpoint.config, observe, inputs

    @staticmethod
    def _product(x, matrix):
        """x [..., in] by a matrix (int8 or float32 [out, in], scale or float32 [out] scales)."""
        weights, scale = matrix
        return (x.reshape(-1, x.shape[-1]) @ weights.astype(np.float32).T*scale).reshape(*x.shape[:-1], -1)

    def states(self, tokens):
        """float32 [batch, positions, hidden]: what the head multiplies. ValueError where it runs over."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # Said by rms_norm.
                return self._states(tokens)
        except ValueError as error:
            raise ValueError(f"{self.checkpoint.name}: {error}") from None

    def _states(self, tokens):
        config, checkpoint = self.config, self.checkpoint
        tokens = np.atleast_2d(tokens)
        batch, positions = tokens.shape
        quantise = fake_quantise if checkpoint.quantised_activations else (lambda x: x)
        x = checkpoint.embedding[tokens].astype(np.float32)
        future = np.triu(np.full((positions, positions), -np.inf, np.float32), 1)
        see = self.inputs or (lambda index, group, x, stream: None)
        for index, layer in enumerate(checkpoint.layers):
            h = quantise(rms_norm(x, layer["attn_norm"], config.norm_eps))
            see(index, "qkv", h, x)
            q, k, v = (self._product(h, layer[name]).reshape(batch, positions, -1, config.head_dim) for name in "qkv")
            q, k = (rope(part, config.rope_theta, checkpoint.angles) for part in (q, k))
            if self.observe:
                self.observe(index, "q", q)
                self.observe(index, "k", k)
                self.observe(index, "v", v)
            k, v = (np.repeat(part, config.group, axis=2) for part in (k, v))
            q, k, v = (part.transpose(0, 2, 1, 3) for part in (q, k, v))
            s = q @ k.transpose(0, 1, 3, 2)/np.float32(np.sqrt(config.head_dim)) + future
            e = np.exp(s - s.max(axis=-1, keepdims=True))
            a = ((e/e.sum(axis=-1, keepdims=True)) @ v).transpose(0, 2, 1, 3).reshape(batch, positions, -1)
            if config.sub_norms:
                a = rms_norm(a, layer["o_norm"], config.norm_eps)
            a = quantise(a)
            see(index, "o", a, x)
            x = x + self._product(a, layer["o"])
            h = quantise(rms_norm(x, layer["ffn_norm"], config.norm_eps))
            see(index, "gate_up", h, x)
            f = ACTIVATION[config.activation](self._product(h, layer["gate"]))*self._product(h, layer["up"])
            if config.sub_norms:
                f = rms_norm(f, layer["down_norm"], config.norm_eps)
            f = quantise(f)
            see(index, "down", f, x)
            x = x + self._product(f, layer["down"])
        return rms_norm(x, checkpoint.final_norm, config.norm_eps)

    def logits(self, tokens):
        return self.states(tokens) @ (self.checkpoint.embedding if self.config.tied else self.checkpoint.head).T
