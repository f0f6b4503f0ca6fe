#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Shape of a model: the numbers that size the image, the engine and the accelerator."""

from dataclasses import dataclass

from model.fields import is_whole
from model.stream import HEAD_DIM_MAX, MATMUL_HEADER, ROW_WEIGHTS_MAX

ACTIVATIONS = ("silu", "relu2")

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
