#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Quantisers of the BitNet family and the model in the numbers that the board computes with."""

from dataclasses import dataclass

import numpy as np

from model import ops
from model.config import ModelConfig
from model.circuits import ATTENTION, AttentionParameters
from model.trits import pack_ternary, unpack_ternary

SCALE_MIN    = 1e-5  # Floor of weight scales: keeps every product a normal number.
ROWS_AT_ONCE = 1024

# Quantisers ---------------------------------------------------------------------------------------


def absmean_ternary(weights):
    """(int8 [rows, columns] of −1, 0, +1, float32 scale) of float weights: scale = mean|W|, at least 1e-5."""
    weights = np.asarray(weights, dtype=np.float32)
    scale   = np.maximum(np.float32(np.abs(weights).mean(dtype=np.float64)), np.float32(SCALE_MIN))
    return np.clip(np.rint(weights*(np.float32(1)/scale)), -1, 1).astype(np.int8), scale


def absmax_rows(weights):
    """(int8 [rows, columns], float32 [rows] steps) of float weights, each row by its absolute maximum."""
    # In pieces: an embedding and the floats between here and its int8 would be four large arrays at once.
    pieces = [ops.quantise(np.asarray(weights[first:first + ROWS_AT_ONCE], dtype=np.float32))
        for first in range(0, len(weights), ROWS_AT_ONCE)]
    return tuple(np.concatenate(part) for part in zip(*pieces))

# Model --------------------------------------------------------------------------------------------


@dataclass
class Group:
    """Matrices that share one x and so one pass: ternary weights in the stream's packing.

    packed   : uint8 [rows, 8·beats], rows of the matrices one after another.
    columns  : weights of a row.
    sections : ((rows, float32 scale), …) of the matrices.
    """
    packed   : np.ndarray
    columns  : int
    sections : tuple

    @classmethod
    def from_matrices(cls, matrices):
        """matrices: [(int8 [rows, columns], scale), …]."""
        return cls(np.concatenate([pack_ternary(w) for w, _ in matrices]), matrices[0][0].shape[1],
            tuple((len(w), np.float32(max(scale, SCALE_MIN))) for w, scale in matrices))

    def unpack(self):
        """int8 [rows, columns]."""
        return unpack_ternary(self.packed, self.columns)


@dataclass
class Layer:
    """A decoder block. Norm gains float32; k_steps, v_steps float32 [kv_heads]: fixed steps of the int8 KV cache."""
    attn_norm : np.ndarray
    qkv       : Group
    o_norm    : np.ndarray
    o         : Group
    ffn_norm  : np.ndarray
    gate_up   : Group
    down_norm : np.ndarray
    down      : Group
    k_steps   : np.ndarray
    v_steps   : np.ndarray


@dataclass
class QuantisedModel:
    """All that the image holds.

    embedding, embedding_steps : int8 [vocab, hidden], float32 [vocab].
    head, head_steps           : the same objects where the head is tied.
    cosine, sine               : float32 [context, head_dim/2].
    """
    config          : ModelConfig
    layers          : list
    final_norm      : np.ndarray
    embedding       : np.ndarray
    embedding_steps : np.ndarray
    head            : np.ndarray
    head_steps      : np.ndarray
    cosine          : np.ndarray
    sine            : np.ndarray
    name            : str   = ""
    bos             : int   = 0
    eos             : int   = 0
    tokenizer       : bytes = b""
    metadata        : bytes = b"{}"
    attention       : AttentionParameters = ATTENTION


def quantise_checkpoint(checkpoint, k_steps=None, v_steps=None):
    """QuantisedModel of a `model.checkpoint.Checkpoint`.

    k_steps, v_steps: float32 [layers, kv_heads] from `model.calibrate`; 1/16 everywhere where they are not given
    (a start for calibration itself, which does not look at the cache).
    """
    if checkpoint.weights != "ternary":
        raise ValueError(f"{checkpoint.name} has {checkpoint.weights} matrices, the image holds ternary ones: it can only be rounded to ternary")
    config = checkpoint.config
    shape  = (config.layers, config.kv_heads)
    steps  = [np.full(shape, 1/16, np.float32) if s is None else np.asarray(s, np.float32) for s in (k_steps, v_steps)]
    for name, s in zip(("k_steps", "v_steps"), steps):
        if s.shape != shape or not np.all((s > 1e-6) & (s < 1e6)):
            raise ValueError(f"{name} {s.shape}: must be {shape}, each between 1e-6 and 1e6")
    gain   = lambda tensor: ops.flush(np.asarray(tensor, dtype=np.float32))
    layers = []
    for index, layer in enumerate(checkpoint.layers):
        ones = lambda width: np.ones(width, np.float32)
        layers.append(Layer(
            attn_norm = gain(layer["attn_norm"]),
            qkv       = Group.from_matrices([layer["q"], layer["k"], layer["v"]]),
            o_norm    = gain(layer.get("o_norm", ones(config.q_width))),
            o         = Group.from_matrices([layer["o"]]),
            ffn_norm  = gain(layer["ffn_norm"]),
            gate_up   = Group.from_matrices([layer["gate"], layer["up"]]),
            down_norm = gain(layer.get("down_norm", ones(config.ffn))),
            down      = Group.from_matrices([layer["down"]]),
            k_steps   = steps[0][index],
            v_steps   = steps[1][index],
        ))
    embedding, embedding_steps = absmax_rows(checkpoint.embedding)
    head, head_steps           = (embedding, embedding_steps) if config.tied else absmax_rows(checkpoint.head)
    cosine, sine               = ops.rope_tables(config.context, config.head_dim, config.rope_theta)
    return QuantisedModel(config, layers, gain(checkpoint.final_norm), embedding, embedding_steps, head, head_steps,
        cosine, sine, checkpoint.name, checkpoint.bos, checkpoint.eos, checkpoint.tokenizer)
