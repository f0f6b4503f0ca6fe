#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The exact path: a token through the model with the board's bits, in numpy. This is the definition that C and gateware equal."""

import numpy as np

from litetern.model.formats.config import GROUPS
from litetern.model.formats.head import FLOOR, plane_inputs
from litetern.model.formats.stream import FORMAT_INT8, REDUCE_TOPK
from litetern.model.formats.trits import unpack_ternary
from litetern.model.numerics import circuits, ops
from litetern.model.numerics.circuits import matmul, reduce_rows


# Head ---------------------------------------------------------------------------------------------


class ExactHead:
    """The head of a model, in whatever format (see `litetern.model.formats.head`)."""
    def __init__(self, model):
        self.model = model
        rows       = model.head if model.ternary is None else unpack_ternary(model.ternary.packed, model.ternary.planes*model.config.hidden)
        self._rows = rows.astype(np.float32)

    def __call__(self, x, estimate=False):
        """(float32 [batch, vocab] logits, int32 [batch, vocab] sums of the pass over all rows) of float32 [batch, hidden] states.

        With a shortlist all other rows are `FLOOR`; `estimate`: what the ternary pass makes of them, which the board does not see.
        """
        model, ternary = self.model, self.model.ternary
        x8, step = ops.quantise(x)
        step     = step[:, None]
        if ternary is None:
            y = matmul(self._rows, x8).T
            return ops.dequantise(y, model.head_steps*step), y
        y = self._sums(x8)
        if not ternary.shortlist:
            return ops.dequantise(y, ternary.steps*step), y
        rows   = reduce_rows(y.T, REDUCE_TOPK, ternary.shortlist)
        scores = np.einsum("bkh,bh->bk", model.head[rows].astype(np.int32), x8.astype(np.int32))
        logits = ops.dequantise(y, ternary.steps*step) if estimate else np.full(y.shape, FLOOR)
        np.put_along_axis(logits, rows, ops.dequantise(scores, model.head_steps[rows]*step), axis=-1)
        return logits, y

    def _sums(self, x8):
        """int32 [batch, vocab] sums of the ternary pass."""
        return matmul(self._rows, plane_inputs(x8, self.model.ternary.planes), largest=1).T

    def shortlist(self, x):
        """(float32 [batch, vocab] estimates of the ternary pass, int64 [batch, shortlist] rows that it lists, best first) of a hybrid head."""
        ternary, (x8, step) = self.model.ternary, ops.quantise(x)
        y = self._sums(x8)
        return ops.dequantise(y, ternary.steps*step[:, None]), reduce_rows(y.T, REDUCE_TOPK, ternary.shortlist)

# Model --------------------------------------------------------------------------------------------


class ExactModel:
    """Runs `batch` sessions in step, one position at a time.

    k_cache, v_cache : int8 [layers, kv_heads, batch, context, head_dim].
    position         : positions that the cache holds.
    trace            : None, or a list that receives (name, array) of every group of results, in order.
    saturation       : None, or a `litetern.model.numerics.saturation.Saturation` that counts what is clipped.
    """
    def __init__(self, model, batch=1, context=None, saturation=None):
        config = model.config
        self.model, self.batch = model, batch
        self.context = min(context or config.context, config.context)
        self.k_cache = np.zeros((config.layers, config.kv_heads, batch, self.context, config.head_dim), np.int8)
        self.v_cache = np.zeros_like(self.k_cache)
        self.trace   = None
        self.saturation = saturation
        self.reset()
        p = model.attention
        self._groups = [{name: (getattr(layer, name).unpack().astype(np.float32), getattr(layer, name).scales())
            for name in GROUPS} for layer in model.layers]
        self._body   = 128 if model.body_format == FORMAT_INT8 else 1  # Largest weight.
        self.head    = ExactHead(model)
        self._k_factors = [ops.k_factor(layer.k_steps, config.head_dim, p.steps_per_nat) for layer in model.layers]

    def reset(self):
        self.position = 0

    def _record(self, name, value):
        if self.trace is not None:
            self.trace.append((name, value.copy()))
        return value

    def _group(self, index, name, x):
        """float32 [batch, rows] of a group."""
        weights, scales = self._groups[index][name]
        x8, step = ops.quantise(x)
        return ops.dequantise(self._record(name, matmul(weights, x8, self._body).T), scales*step[:, None])

    def _count(self, index, multipliers, scores, k, v):
        """Tells `saturation` of a layer: bool [batch, heads], bool [kv_heads, batch, …], k and v as in `_attention`."""
        layer, see = self.model.layers[index], self.saturation.see
        see("multipliers", index, multipliers)
        see("scores",      index, scores.swapaxes(0, 1))
        see("keys",        index, ops.leaves_int8(k, layer.k_steps[:, None]))
        see("values",      index, ops.leaves_int8(v, layer.v_steps[:, None]))

    def _attention(self, index, q, k, v):
        """float32 [batch, heads·head_dim] of q [batch, heads, head_dim], k and v [batch, kv_heads, head_dim]."""
        config, layer, t = self.model.config, self.model.layers[index], self.position
        keys, values     = self.k_cache[index], self.v_cache[index]
        keys[:, :, t]    = ops.quantise_fixed(k, layer.k_steps[:, None]).transpose(1, 0, 2)
        values[:, :, t]  = ops.quantise_fixed(v, layer.v_steps[:, None]).transpose(1, 0, 2)
        q8, q_step       = ops.quantise(q)
        k_factor         = np.repeat(self._k_factors[index], config.group)
        p                = self.model.attention
        mantissa, exponent = ops.score_multiplier(q_step, k_factor, p.mantissa_max)
        # [kv_heads, batch, group, ·] so that one product serves the query heads of a KV head.
        q8, mantissa, exponent = (part.reshape(self.batch, config.kv_heads, config.group, *part.shape[2:]).swapaxes(0, 1)
            for part in (q8, mantissa, exponent))
        free = circuits.products(q8, keys[:, :, :t + 1], mantissa, exponent, p)
        s    = circuits.clamp(free, p)
        if self.saturation is not None:
            self._count(index, ops.multiplier_clips(q_step, k_factor, p.mantissa_max), free != s, k, v)
        numerators, denominator, _ = circuits.weigh(s, values[:, :, :t + 1], p)
        self._record("attention", numerators)
        out = ops.attention_output(numerators, denominator, layer.v_steps[:, None, None])
        return out.transpose(1, 0, 2, 3).reshape(self.batch, -1)

    def step(self, tokens):
        """float32 [batch, vocab] logits after `tokens` (int [batch]); advances one position."""
        logits, y = self.head(self.states(tokens))
        self._record("head", y)
        return logits

    def states(self, tokens):
        """float32 [batch, hidden]: what the head gets of `tokens` (int [batch]); advances one position."""
        config, model, t = self.model.config, self.model, self.position
        if t >= self.context:
            raise ValueError(f"position {t}: the context holds {self.context}")
        tokens = np.asarray(tokens).reshape(self.batch)
        x      = ops.flush(model.embedding[tokens].astype(np.float32)*model.embedding_steps[tokens, None])
        norm   = lambda v, gain: ops.rms_norm(v, gain, config.norm_eps)
        for index, layer in enumerate(model.layers):
            qkv  = self._group(index, "qkv", norm(x, layer.attn_norm))
            q, k, v = (part.reshape(self.batch, -1, config.head_dim) for part in
                np.split(qkv, [config.q_width, config.q_width + config.kv_width], axis=-1))
            q, k = (ops.rope(part, model.cosine[t], model.sine[t]) for part in (q, k))
            attn = self._attention(index, q, k, v)
            x    = ops.residual(x, self._group(index, "o", norm(attn, layer.o_norm) if config.sub_norms else attn))
            gate, up = np.split(self._group(index, "gate_up", norm(x, layer.ffn_norm)), 2, axis=-1)
            act  = ops.ACTIVATION[config.activation](gate, up)
            x    = ops.residual(x, self._group(index, "down", norm(act, layer.down_norm) if config.sub_norms else act))
        self.position += 1
        return norm(x, model.final_norm)
