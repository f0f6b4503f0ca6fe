#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The resident path: a token from embedding to logits in integers. This is the definition that C and gateware equal."""

import numpy as np

from litetern.model.resident import activation, attention, position, sampling
from litetern.model.resident.build import RESIDUAL_BITS
from litetern.model.resident.fixed import Clip, shift_round
from litetern.model.resident.quantise import quantise

# Model --------------------------------------------------------------------------------------------


class ResidentExact:
    """Runs `batch` sessions in step, one position at a time.

    k_cache, v_cache : int8 [layers, kv_heads, batch, window, head_dim].
    position         : positions that the cache holds.
    clip             : counts of what was cut, by place; nothing saturates in silence.
    trace            : None, or a list that receives (name, array) of every step, in order.
    """
    def __init__(self, model, batch=1, window=None):
        config = model.config
        self.model, self.batch = model, batch
        self.window  = min(window or config.window, config.window)
        self.k_cache = np.zeros((config.layers, config.kv_heads, batch, self.window, config.head_dim), np.int8)
        self.v_cache = np.zeros_like(self.k_cache)
        self.clip    = Clip()
        self.trace   = None
        self.reset()

    def reset(self):
        self.position = 0

    def _record(self, name, value):
        if self.trace is not None:
            self.trace.append((name, np.array(value)))
        return value

    def _quantise(self, name, x, gain, norm, eps):
        quantised = quantise(x, gain, norm, eps)
        self._record(name, quantised.q)
        return quantised

    def _embed(self, tokens):
        """int64 [batch, hidden]: the residual of tokens at the present position."""
        model = self.model
        x     = shift_round(model.head.weights[tokens].astype(np.int64)*model.embedding[tokens, None], model.embedding_shift)
        if model.positions is not None:
            x = x + shift_round(model.positions[self.position]*model.position_scale, model.position_shift)
        return self._record("embedding", self.clip(x, RESIDUAL_BITS, "residual"))

    def _add(self, x, matrix, quantised):
        """Residual plus a matrix's results."""
        return self._record("residual", self.clip(x + matrix.results(quantised, self.clip), RESIDUAL_BITS, "residual"))

    def _heads(self, layer, quantised):
        """int8 (as int64) q [batch, heads, head_dim], k and v [batch, kv_heads, head_dim]."""
        config, model = self.model.config, self.model
        y = self.clip(layer.qkv.results(quantised, self.clip), attention.BITS, "q, k, v")
        q, k, v = (part.reshape(self.batch, -1, config.head_dim) for part in
            np.split(y, [config.q_width, config.q_width + config.kv_width], axis=-1))
        if model.rope is None:
            q, k = (shift_round(part, attention.FRACTION) for part in (q, k))
        else:
            turn = position.rotation(self.position, model.rope)
            q, k = (position.rotate(part, *turn, attention.FRACTION) for part in (q, k))
        parts = q, k, shift_round(v, attention.FRACTION)
        return [self._record(name, self.clip(part, 8, name)) for name, part in zip("qkv", parts)]

    def _attend(self, index, layer, quantised):
        """int64 [batch, q_width] of OUTPUT_BITS bits."""
        config, t = self.model.config, self.position
        q, k, v   = self._heads(layer, quantised)
        keys, values    = self.k_cache[index], self.v_cache[index]
        keys[:, :, t]   = k.transpose(1, 0, 2)
        values[:, :, t] = v.transpose(1, 0, 2)
        # [kv_heads, batch, group, ·]: the query heads of a KV head lie together.
        q   = q.reshape(self.batch, config.kv_heads, config.group, -1).transpose(1, 0, 2, 3)
        m   = layer.multipliers.reshape(config.kv_heads, 1, config.group)
        out = attention.attend(q, keys[:, :, None, :t + 1], values[:, :, None, :t + 1], np.broadcast_to(m, q.shape[:-1]),
            layer.ratios.reshape(-1, 1, 1))
        out = self.clip(out, attention.OUTPUT_BITS, "attention")
        return self._record("attention", out.transpose(1, 0, 2, 3).reshape(self.batch, -1))

    def _activate(self, layer, quantised):
        """int64 [batch, ffn] of HIDDEN_BITS bits."""
        model = self.model
        y     = self.clip(layer.gate_up.results(quantised, self.clip), activation.BITS, "gate, up")
        if model.config.gated:
            hidden = activation.gated(*np.split(y, 2, axis=-1), model.table, model.hidden_shift, self.clip)
        else:
            hidden = shift_round(activation.activate(y, model.table), model.hidden_shift)
        return self._record("hidden", hidden)

    def step(self, tokens):
        """int64 [batch, vocab] logits in 2**-10 after `tokens` (int [batch]); advances one position."""
        logits = self.model.head.results(self.states(tokens), self.clip)
        return self._record("logits", self.clip(logits, sampling.LOGIT_BITS, "logits"))

    def states(self, tokens):
        """`Quantised` [batch, hidden]: what the head gets of `tokens` (int [batch]); advances one position."""
        model, config = self.model, self.model.config
        if self.position >= self.window:
            raise ValueError(f"position {self.position}: the window holds {self.window}")
        sub = config.norm if config.sub_norms else "none"
        x = self._embed(np.asarray(tokens).reshape(self.batch))
        for index, layer in enumerate(model.layers):
            attended = self._attend(index, layer, self._quantise("attn_norm", x, layer.attn_gain, config.norm, model.eps))
            x        = self._add(x, layer.o, self._quantise("o_norm", attended, layer.o_gain, sub, layer.o_eps))
            hidden   = self._activate(layer, self._quantise("ffn_norm", x, layer.ffn_gain, config.norm, model.eps))
            x        = self._add(x, layer.down, self._quantise("down_norm", hidden, layer.down_gain, sub, model.hidden_eps))
        self.position += 1
        return self._quantise("final_norm", x, model.final_gain, config.norm, model.eps)
