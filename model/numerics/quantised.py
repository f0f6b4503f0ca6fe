#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Quantisers of the BitNet family and the model in the numbers that the board computes with."""

from dataclasses import dataclass

import numpy as np

from litetern.model.formats.config import GROUPS, ModelConfig
from litetern.model.formats.marks import Marks
from litetern.model.formats.stream import BEAT_BYTES, FORMAT_INT8, FORMAT_TERNARY, row_beats
from litetern.model.formats.trits import pack_ternary, unpack_ternary
from litetern.model.numerics import ops
from litetern.model.numerics.circuits import ATTENTION, AttentionParameters

SCALE_MIN    = 1e-5  # Floor of weight scales: keeps every product a normal number.
STEP_MIN     = 7e-8  # Likewise of int8 rows' steps: below that of any row that `absmax_rows` makes.
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
    """Matrices that share one x and so one pass, in the stream's packing.

    packed   : uint8 [rows, 8·beats], rows of the matrices one after another.
    columns  : weights of a row.
    sections : ((rows, float32 scale), …) of ternary matrices; none of int8 ones.
    steps    : float32 [rows] of int8 weights, and of ternary ones that have more than a scale a matrix (which is 1 then); else None.
    """
    packed   : np.ndarray
    columns  : int
    sections : tuple
    steps    : np.ndarray = None

    @classmethod
    def from_matrices(cls, matrices, row_steps=False):
        """matrices: [(int8 [rows, columns] of −1, 0, +1, scale), …]; row_steps: a scale may be float32 [rows], too."""
        packed, columns = np.concatenate([pack_ternary(w) for w, _ in matrices]), matrices[0][0].shape[1]
        if not row_steps:
            return cls(packed, columns, tuple((len(w), np.float32(max(scale, SCALE_MIN))) for w, scale in matrices))
        steps = np.concatenate([np.broadcast_to(np.maximum(scale, SCALE_MIN), len(w)) for w, scale in matrices]).astype(np.float32)
        return cls(packed, columns, tuple((len(w), np.float32(1)) for w, _ in matrices), steps)

    @classmethod
    def from_int8(cls, matrices):
        """matrices: [(int8 [rows, columns], float32 [rows] steps), …]."""
        rows, columns = np.concatenate([w for w, _ in matrices]), matrices[0][0].shape[1]
        packed = np.zeros((len(rows), row_beats(columns, FORMAT_INT8)*BEAT_BYTES), np.int8)
        packed[:, :columns] = rows
        steps  = np.maximum(np.concatenate([np.broadcast_to(steps, len(w)) for w, steps in matrices]), STEP_MIN).astype(np.float32)
        return cls(packed.view(np.uint8), columns, (), steps)

    @property
    def format(self):
        """Of model.stream's weight formats."""
        return FORMAT_TERNARY if self.sections or self.steps is None else FORMAT_INT8

    def unpack(self):
        """int8 [rows, columns]."""
        return unpack_ternary(self.packed, self.columns) if self.format == FORMAT_TERNARY else self.packed.view(np.int8)[:, :self.columns]

    def scales(self):
        """float32 [rows]: what an accumulator counts in, apart from the step of x."""
        return self.steps if self.steps is not None else np.concatenate([np.full(rows, scale, np.float32) for rows, scale in self.sections])


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
class TernaryHead:
    """Ternary rows of the head; `litetern.model.formats.head` makes them.

    packed    : uint8 [vocab, 8·beats], rows of planes·hidden trits in the stream's packing.
    planes    : of a row.
    steps     : float32 [vocab]: what an accumulator counts in, apart from the step of x.
    shortlist : rows that the int8 head scores exactly; 0: none, the ternary rows are the head.
    """
    packed    : np.ndarray
    planes    : int
    steps     : np.ndarray
    shortlist : int


@dataclass
class QuantisedModel(Marks):
    """All that the image holds; the tokens around texts are `litetern.model.formats.marks`'.

    embedding, embedding_steps : int8 [vocab, hidden], float32 [vocab].
    head, head_steps           : int8 rows likewise; the same objects where the head is tied, None where only ternary rows are left.
    ternary                    : TernaryHead, or None where int8 rows are all.
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
    add_bos         : bool  = True
    ends            : tuple = (0,)
    tokenizer       : bytes = b""
    metadata        : bytes = b"{}"
    attention       : AttentionParameters = ATTENTION
    ternary         : TernaryHead = None

    @property
    def body_format(self):
        """Weight format of the decoder blocks, of model.stream's."""
        return self.layers[0].qkv.format

    @property
    def row_steps(self):
        """Whether the rows of the decoder blocks have steps of their own: those of int8 weights have, of ternary ones where a matrix has
        several scales."""
        return self.layers[0].qkv.steps is not None

    @property
    def head_bytes(self):
        """Bytes of head rows that a token reads."""
        if self.ternary is None:
            return self.head.nbytes
        return self.ternary.packed.nbytes + self.ternary.shortlist*self.config.hidden


def quantise_checkpoint(checkpoint, k_steps=None, v_steps=None):
    """QuantisedModel of a `litetern.model.formats.checkpoint.Checkpoint`.

    k_steps, v_steps: float32 [layers, kv_heads] from `litetern.model.calibrate`; 1/16 everywhere where they are not given
    (a start for calibration itself, which does not look at the cache).
    """
    config = checkpoint.config
    if checkpoint.weights == "float":
        raise ValueError(f"{checkpoint.name} holds floats: images hold ternary or int8 matrices")
    shape  = (config.layers, config.kv_heads)
    steps  = [np.full(shape, 1/16, np.float32) if s is None else np.asarray(s, np.float32) for s in (k_steps, v_steps)]
    for name, s in zip(("k_steps", "v_steps"), steps):
        if s.shape != shape or not np.all((s > 1e-6) & (s < 1e6)):
            raise ValueError(f"{name} {s.shape}: must be {shape}, each between 1e-6 and 1e6")
    several = any(np.ndim(layer[matrix][1]) for layer in checkpoint.layers for matrices in GROUPS.values() for matrix in matrices)
    group  = (lambda matrices: Group.from_matrices(matrices, several)) if checkpoint.weights == "ternary" else Group.from_int8
    gain   = lambda tensor: ops.flush(np.asarray(tensor, dtype=np.float32))
    layers = []
    for index, layer in enumerate(checkpoint.layers):
        given = {"k_steps": steps[0][index], "v_steps": steps[1][index]}
        gains = {name: gain(layer.get(name, np.ones(width, np.float32))) for name, width in config.vectors.items() if name not in given}
        layers.append(Layer(**{name: group([layer[matrix] for matrix in matrices]) for name, matrices in GROUPS.items()}, **gains, **given))
    embedding, embedding_steps = absmax_rows(checkpoint.embedding)
    head, head_steps           = (embedding, embedding_steps) if config.tied else absmax_rows(checkpoint.head)
    cosine, sine               = ops.rope_tables(config.context, config.head_dim, config.rope_theta, checkpoint.angles)
    return QuantisedModel(config, layers, gain(checkpoint.final_norm), embedding, embedding_steps, head, head_steps,
        cosine, sine, checkpoint.name, checkpoint.bos, checkpoint.add_bos, checkpoint.ends, checkpoint.tokenizer)
