#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Shape of a model: the numbers that size the image, the engine and the accelerator."""

from dataclasses import dataclass, replace

from litetern.model.common.fields import is_whole
from litetern.model.formats.stream import HEAD_DIM_MAX, MATMUL_HEADER, ROW_WEIGHTS_MAX

ACTIVATIONS = ("silu", "relu2")
GROUPS      = {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}  # Matrices that share one x.

# What a file may state, before anything is computed with it. Whether a board can hold that is another question.
WIDTH_MAX   = 1 << 20
LAYERS_MAX  = 4096
VOCAB_MAX   = MATMUL_HEADER["rows"].mask  # All rows of the head may be one group.
CONTEXT_MAX = 1 << 24
RANGES      = {
    "hidden"     : (1, WIDTH_MAX),
    "ffn"        : (1, WIDTH_MAX),
    "layers"     : (1, LAYERS_MAX),
    "heads"      : (1, WIDTH_MAX),
    "kv_heads"   : (1, WIDTH_MAX),
    "head_dim"   : (1, WIDTH_MAX),
    "vocab"      : (2, VOCAB_MAX),
    "context"    : (1, CONTEXT_MAX),
    "norm_eps"   : (1e-9, 1),
    "rope_theta" : (1, 1e12),
}

# Shapes -------------------------------------------------------------------------------------------


def matrix_shapes(shape):
    """{matrix: (rows, columns)} of a decoder block; `shape` holds fields of ModelConfig, or what a file states in their place."""
    hidden, ffn       = shape["hidden"], shape["ffn"]
    q_width, kv_width = shape["heads"]*shape["head_dim"], shape["kv_heads"]*shape["head_dim"]
    return {"q": (q_width, hidden), "k": (kv_width, hidden), "v": (kv_width, hidden), "o": (hidden, q_width),
        "gate": (ffn, hidden), "up": (ffn, hidden), "down": (hidden, ffn)}


def gain_widths(shape):
    """{gain: length} of the norms of a decoder block, likewise; without `sub_norms` those before o and down are not there."""
    shapes = matrix_shapes(shape)
    gains  = {"attn_norm": "qkv", "o_norm": "o", "ffn_norm": "gate_up", "down_norm": "down"}  # What comes behind them.
    return {gain: shapes[GROUPS[group][0]][1] for gain, group in gains.items() if shape["sub_norms"] or group in ("qkv", "gate_up")}

# Config -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelConfig:
    """A LLaMA-shaped decoder.

    hidden, ffn      : widths of the residual stream and of the gated feed-forward block.
    layers           : decoder blocks.
    heads, kv_heads  : query heads and KV heads (GQA when they differ).
    head_dim         : width of a head.
    vocab            : tokens.
    context          : largest number of positions (T_max).
    sub_norms        : RMSNorm before o_proj and before down_proj (the BitNet family).
    tied             : the head uses the embedding's rows.
    """
    hidden     : int
    ffn        : int
    layers     : int
    heads      : int
    kv_heads   : int
    head_dim   : int
    vocab      : int
    context    : int
    norm_eps   : float = 1e-5
    rope_theta : float = 1e4
    activation : str   = "silu"
    sub_norms  : bool  = True
    tied       : bool  = True

    def __post_init__(self):
        for name in ("hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocab", "context"):
            if not is_whole(getattr(self, name), *RANGES[name]):
                low, high = RANGES[name]
                raise ValueError(f"{name} = {getattr(self, name)!r}: must be a whole number between {low:,} and {high:,}")
        for name in ("hidden", "ffn", "q_width", "kv_width"):
            # Sums run in four lanes; a beat holds two results or eight int8 weights of the head.
            if getattr(self, name) % 8:
                raise ValueError(f"{name} = {getattr(self, name)}: must be a multiple of 8")
            if getattr(self, name) > ROW_WEIGHTS_MAX:
                raise ValueError(f"{name} = {getattr(self, name)}: rows hold at most {ROW_WEIGHTS_MAX} weights")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads = {self.heads}: must be a multiple of kv_heads = {self.kv_heads}")
        if self.head_dim % 8 or self.head_dim > HEAD_DIM_MAX:
            raise ValueError(f"head_dim = {self.head_dim}: must be a multiple of 8 up to {HEAD_DIM_MAX}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r}: must be one of {', '.join(ACTIVATIONS)}")

    def with_context(self, context, name="the model"):
        """The ModelConfig with fewer positions. ValueError where it has not so many; `name` is for the error."""
        if not 1 <= context <= self.context:
            raise ValueError(f"context {context}: must lie in 1 … {self.context} (what {name} was trained for)")
        return replace(self, context=context)

    @property
    def group(self):
        """Query heads per KV head."""
        return self.heads//self.kv_heads

    @property
    def q_width(self):
        return self.heads*self.head_dim

    @property
    def kv_width(self):
        return self.kv_heads*self.head_dim

    @property
    def matrices(self):
        """{matrix: (rows, columns)} of a block, in the order of the groups."""
        return matrix_shapes(vars(self))

    @property
    def groups(self):
        """{group: (rows, columns)} of a block: the rows of its matrices one after another."""
        shapes = self.matrices
        return {group: (sum(shapes[name][0] for name in names), shapes[names[0]][1]) for group, names in GROUPS.items()}

    @property
    def vectors(self):
        """{vector: length} of a block that are float32 whatever its weights: gains (1 where a norm is not there), steps of the KV cache."""
        return gain_widths(vars(self) | {"sub_norms": True}) | {"k_steps": self.kv_heads, "v_steps": self.kv_heads}
