#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The model in the numbers of the resident path, and how floats become them."""

import math

from dataclasses import dataclass

import numpy as np

from litetern.model.resident import activation, attention, position, sampling
from litetern.model.resident.config import ResidentConfig
from litetern.model.resident.matrix import MULTIPLIER_BITS, SCALE_BITS, Matrix, largest_step, make_matrix
from litetern.model.resident.quantise import GAIN_BITS

RESIDUAL_BITS         = 18
RESIDUAL_FRACTION_MAX = 16
HEADROOM              = 4.0   # Between the largest value of a calibration and what saturates: residual, activation.
HEADROOM_INT8         = 1.05  # Likewise of q, K and V, where every bit counts.

# Model --------------------------------------------------------------------------------------------


@dataclass
class ResidentLayer:
    """A decoder block.

    attn_gain, ffn_gain : int64 [hidden] of 16 bits, in units of 2**-12.
    o_gain, down_gain   : int64 [q_width], [ffn]; None without sub-norms.
    o_eps               : int ≥ 1, q_width·epsilon in units of the square of attention's output, which counts in the layer's steps of V.
    qkv                 : rows of q, k, v, in 1/64 of the steps of their heads.
    multipliers         : int64 [heads], m of the scores.
    ratios              : int64 [kv_heads], steps of V in 2**-16 of the largest.
    o, down             : in units of the residual.
    gate_up             : rows of gate (if there is one), then of up, in 2**-10.
    """
    attn_gain   : np.ndarray
    qkv         : Matrix
    multipliers : np.ndarray
    ratios      : np.ndarray
    o_gain      : np.ndarray
    o_eps       : int
    o           : Matrix
    ffn_gain    : np.ndarray
    gate_up     : Matrix
    down_gain   : np.ndarray
    down        : Matrix


@dataclass
class ResidentModel:
    """All that the fabric holds.

    embedding, embedding_shift : the rows of `head` times embedding [vocab] (16 bits), >> shift, are the residual of a token.
    positions, position_scale, position_shift : int64 [window, hidden] int8 rows likewise; None with RoPE.
    rope              : int64 [head_dim/2] increments; None without.
    residual_fraction : bits behind the point of the residual, which has RESIDUAL_BITS.
    hidden_shift      : activation(gate)·up is divided by 2**hidden_shift.
    eps, hidden_eps   : int ≥ 1, n·epsilon in units of the squares of the residual and of activation(gate)·up.
    table             : int64 [1024] of the activation.
    """
    config            : ResidentConfig
    layers            : list
    final_gain        : np.ndarray
    head              : Matrix
    embedding         : np.ndarray
    embedding_shift   : int
    positions         : np.ndarray
    position_scale    : int
    position_shift    : int
    rope              : np.ndarray
    residual_fraction : int
    hidden_shift      : int
    eps               : int
    hidden_eps        : int
    table             : np.ndarray
    tokenizer         : bytes = b""
    name              : str   = ""
    bos               : int   = 0
    ends              : tuple = (0,)

# Build --------------------------------------------------------------------------------------------


def _gain(values, where):
    """int64 of 16 bits in units of 2**-12."""
    integers = np.rint(np.asarray(values, np.float64)*(1 << GAIN_BITS)).astype(np.int64)
    if np.abs(integers).max() > 32767:
        raise ValueError(f"{where}: a gain of {np.abs(values).max():g}; 16 bits hold up to {32767/(1 << GAIN_BITS):.2f}")
    return integers


def _scale_and_shift(scale):
    """(int64 [rows] of 16 bits, shift): scale ≈ integers/2**shift, the largest by its 16 leading bits."""
    scale = np.atleast_1d(np.asarray(scale, np.float64))
    shift = int(np.floor(np.log2(((1 << SCALE_BITS) - 1)/scale.max())))
    return np.maximum(np.rint(scale*2.0**shift), 1).astype(np.int64), shift


def _fraction(bits, largest):
    """Bits behind the point of signed integers of `bits` that hold HEADROOM times the largest value; 0 at the least."""
    return max(0, int(np.floor(np.log2(2.0**(bits - 1)/(HEADROOM*max(largest, 2.0**-bits))))))


def _eps(config, unit, width):
    """Integer n·epsilon of vectors that count in `unit`, at least 1."""
    return max(1, round(width*config.norm_eps/unit**2))


def calibrate(source, tokens):
    """Largest values of the float reference over int [batch, positions] tokens: {"q": [layers, heads], "k", "v", "residual", "hidden"}."""
    from litetern.model.resident.reference import ReferenceModel
    config = source.config
    maxima = {"q": np.zeros((config.layers, config.heads)), "k": np.zeros((config.layers, config.kv_heads)),
        "v": np.zeros((config.layers, config.kv_heads)), "residual": 0.0, "hidden": 0.0}

    def observe(layer, name, value):
        if name in "qkv":
            maxima[name][layer] = np.maximum(maxima[name][layer], np.abs(value).max(axis=(0, 1, 3)))
        else:
            maxima[name] = max(maxima[name], float(np.abs(value).max()))

    ReferenceModel(source, observe).logits(tokens)
    return maxima


def build(source, maxima):
    """ResidentModel of a `litetern.model.resident.source.Source`.

    maxima: of `calibrate`; the source's own limits of q, k and v come first where it has them.
    """
    config    = source.config
    limits    = source.limits or {name: np.maximum(maxima[name]*HEADROOM_INT8, 1e-3) for name in "qkv"}
    residual  = min(_fraction(RESIDUAL_BITS, maxima["residual"]), RESIDUAL_FRACTION_MAX)
    points    = 2*activation.FRACTION if config.gated else activation.FRACTION  # Behind the point of the activation's product.
    shift     = max(0, points - _fraction(activation.HIDDEN_BITS, maxima["hidden"]))
    root      = {name: math.sqrt(getattr(config, name)) for name in ("hidden", "q_width", "ffn")}
    layers    = []
    for index, layer in enumerate(source.layers):
        steps = {name: limits[name][index]/127 for name in "qkv"}
        where = f"block {index}"
        gains = {name: _gain(layer[name], where) for name in ("attn_norm", "ffn_norm", "o_norm", "down_norm") if name in layer}
        step  = lambda name: largest_step(gain_max=np.abs(layer[name]).max())

        def join(names, before, units):
            """One matrix of several; `units` of each one's rows."""
            parts = [layer[name] for name in names]
            scale = np.concatenate([np.broadcast_to(np.asarray(s, np.float64), len(w)) for w, s in parts])
            return make_matrix(np.concatenate([w for w, _ in parts]), source.weights, scale*root["hidden"],
                np.concatenate([np.broadcast_to(u, len(w)) for u, (w, _) in zip(units, parts)]), step(before))

        def back(name, norm, width, bits, point):
            """A matrix back into the residual; the vector before it has `bits` bits, one of which is worth `point`."""
            weights, scale = layer[name]
            before = (root[width], step(norm)) if norm in layer else (point, largest_step(bits=bits))
            return make_matrix(weights, source.weights, np.asarray(scale)*before[0], 2.0**-residual, before[1])

        top    = steps["v"].max()
        heads  = [np.repeat(steps[name], config.head_dim)/(1 << attention.FRACTION) for name in "qkv"]
        m      = steps["q"]*np.repeat(steps["k"], config.group)*2.0**attention.SCORE_SHIFT
        m      = m*attention.STEPS_PER_NAT/math.sqrt(config.head_dim)
        if m.max() >= 1 << MULTIPLIER_BITS:
            largest = " · ".join(f"{limits[name][index].max():g}" for name in "qk")
            raise ValueError(f"{where}: scores of up to {largest} a product: too steep for {MULTIPLIER_BITS} bits")
        unit   = 2.0**-activation.FRACTION
        layers.append(ResidentLayer(
            attn_gain   = gains["attn_norm"],
            qkv         = join("qkv", "attn_norm", heads),
            multipliers = np.maximum(np.rint(m), 1).astype(np.int64),
            ratios      = np.maximum(np.rint(steps["v"]/top*(1 << attention.RATIO_BITS)), 1).astype(np.int64),
            o_gain      = gains.get("o_norm"),
            o_eps       = _eps(config, top*2.0**-attention.OUTPUT_FRACTION, config.q_width),
            o           = back("o", "o_norm", "q_width", attention.OUTPUT_BITS, top*2.0**-attention.OUTPUT_FRACTION),
            ffn_gain    = gains["ffn_norm"],
            gate_up     = join(("gate", "up") if config.gated else ("up",), "ffn_norm", (unit,)*(1 + config.gated)),
            down_gain   = gains.get("down_norm"),
            down        = back("down", "down_norm", "ffn", activation.HIDDEN_BITS, 2.0**(shift - points)),
        ))
    weights, scale = source.embedding
    embedding, embedding_shift = _scale_and_shift(np.asarray(scale)*2.0**residual)
    position_scale, position_shift = _scale_and_shift(source.positions[1]*2.0**residual) if source.positions else (np.ones(1, np.int64), 0)
    return ResidentModel(
        config            = config,
        layers            = layers,
        final_gain        = _gain(source.final_norm, "final norm"),
        head              = make_matrix(weights, source.embedding_format, np.asarray(scale)*root["hidden"],
            2.0**-sampling.LOGIT_FRACTION, largest_step(gain_max=np.abs(source.final_norm).max())),
        embedding         = np.broadcast_to(embedding, len(weights)),
        embedding_shift   = embedding_shift,
        positions         = source.positions[0].astype(np.int64) if source.positions else None,
        position_scale    = int(position_scale[0]),
        position_shift    = position_shift,
        rope              = position.increments(config.head_dim, config.rope_theta) if config.positions == "rope" else None,
        residual_fraction = residual,
        hidden_shift      = shift,
        eps               = _eps(config, 2.0**-residual, config.hidden),
        hidden_eps        = _eps(config, 2.0**(shift - points), config.ffn),
        table             = activation.activation_table(config.activation),
        tokenizer         = source.tokenizer,
        name              = source.name,
        bos               = source.bos,
        ends              = source.ends,
    )
