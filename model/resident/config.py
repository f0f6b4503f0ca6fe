#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Shape of a resident model: LLaMA-like (gated FFN) or GPT-like (plain FFN)."""

from dataclasses import dataclass

from litetern.model.resident.activation import ACTIVATIONS
from litetern.model.resident.quantise import NORMS

POSITIONS = ("rope", "learned")

# What the fixed widths of the numerics allow.
WIDTH_MAX  = 2048     # Elements of a vector, and so columns of a matrix: sums of squares stay below 2**52.
WINDOW_MAX = 1 << 15
VOCAB_MAX  = 1 << 16
EPS        = (1e-9, 1e-1)


@dataclass(frozen=True)
class ResidentConfig:
    """Sizes and kinds.

    gated     : activation(gate)·up, else activation(up).
    norm      : "rms" or "layer" (without a bias).
    positions : "rope", or "learned" int8 rows that are added to the embedding.
    sub_norms : norms before o and before down.
    window    : positions that the KV cache holds.
    """
    hidden     : int
    ffn        : int
    layers     : int
    heads      : int
    kv_heads   : int
    head_dim   : int
    vocab      : int
    window     : int
    gated      : bool  = True
    activation : str   = "silu"
    norm       : str   = "rms"
    positions  : str   = "rope"
    sub_norms  : bool  = True
    norm_eps   : float = 1e-5
    rope_theta : float = 1e4

    def __post_init__(self):
        for name, high in (("hidden", WIDTH_MAX), ("ffn", WIDTH_MAX), ("layers", 255), ("heads", 255), ("kv_heads", 255), ("head_dim", 256),
            ("vocab", VOCAB_MAX), ("window", WINDOW_MAX), ("q_width", WIDTH_MAX)):
            if not isinstance(getattr(self, name), int) or not 1 <= getattr(self, name) <= high:
                raise ValueError(f"{name} = {getattr(self, name)!r}: must be a whole number from 1 to {high}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads = {self.heads}: must be a multiple of kv_heads = {self.kv_heads}")
        if self.positions == "rope" and self.head_dim % 2:
            raise ValueError(f"head_dim = {self.head_dim}: RoPE turns pairs, it must be even")
        for name, choices in (("activation", ACTIVATIONS), ("norm", NORMS[1:]), ("positions", POSITIONS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} {getattr(self, name)!r}: must be one of {', '.join(choices)}")
        if not EPS[0] <= self.norm_eps <= EPS[1]:
            raise ValueError(f"norm_eps = {self.norm_eps}: must lie in {EPS[0]} … {EPS[1]}")

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
    def block_weights(self):
        """Weights of all blocks."""
        return self.layers*self.hidden*(2*self.q_width + 2*self.kv_width + (2 + self.gated)*self.ffn)
