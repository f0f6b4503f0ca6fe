#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The network in PyTorch, for training: LLaMA-like or GPT-like, every projection with integer weights.

Weights carry the names and the `[out, in]` layout of 1bitLLM/bitnet_b1_58-large. They stay latent
floats; every forward pass quantises them. Integers (weights, int8 activations) are what the matrix
products see, so that bfloat16 inputs are exact, and the scales multiply the result.

Shape.path says whose numbers training sees: "streamed" (weights, activations and an int8 head are
integers, the KV cache is float) or "resident" (q, K and V in int8 with fixed steps, too, and an
embedding of few levels that the ternary lanes can multiply).
"""

import math

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from torch import nn

from litetern.model.formats.planes import PLANES_MAX
from litetern.model.training.network_quant import (WEIGHT_LEVELS, follow, quantize_heads, quantize_planes, quantize_rows,
    quantize_table, quantize_weight)

# Shape --------------------------------------------------------------------------------------------

# What a choice of the family means, where it is not given.
FAMILIES = {
    "llama" : {"activation": "silu", "norm": "rms",   "positions": "rope"},
    "gpt"   : {"activation": "gelu", "norm": "layer", "positions": "learned"},
}
CHOICES = {
    "family"     : tuple(FAMILIES),
    "weights"    : tuple(WEIGHT_LEVELS),
    "activation" : ("silu", "gelu", "relu"),
    "norm"       : ("rms", "layer"),
    "positions"  : ("rope", "learned"),
    "path"       : ("streamed", "resident"),
}

@dataclass
class Shape:
    """Sizes and kinds of a network; the sizes' names are those of the checkpoint's `config.json`.

    family           : "llama" has a gated FFN (activation(gate)·up), "gpt" a plain one.
    embedding_planes : trits of an embedding (and head) weight; 0: int8 head, float embedding.
    sub_norms        : norms before o_proj and down_proj (BitNet).
    """
    hidden_size             : int   = 192
    intermediate_size       : int   = 480
    num_hidden_layers       : int   = 6
    num_attention_heads     : int   = 3
    vocab_size              : int   = 1024
    max_position_embeddings : int   = 256
    rms_norm_eps            : float = 1e-5
    rope_theta              : float = 10000.0
    num_key_value_heads     : int   = None
    head_dim                : int   = None
    family                  : str   = "llama"
    weights                 : str   = "ternary"
    activation              : str   = None
    norm                    : str   = None
    positions               : str   = None
    sub_norms               : bool  = True
    path                    : str   = "streamed"
    embedding_planes        : int   = 0

    def __post_init__(self):
        if self.family in FAMILIES:
            for name, value in FAMILIES[self.family].items():
                if getattr(self, name) is None:
                    setattr(self, name, value)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} {getattr(self, name)!r}: must be one of {', '.join(choices)}.")
        if self.head_dim is None:
            if self.hidden_size % self.num_attention_heads:
                raise ValueError(f"hidden_size {self.hidden_size} does not divide into "
                    f"{self.num_attention_heads} heads: name a head_dim.")
            self.head_dim = self.hidden_size//self.num_attention_heads
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        if self.head_dim % 2:
            raise ValueError(f"head_dim {self.head_dim}: must be even (hidden_size {self.hidden_size}, "
                f"{self.num_attention_heads} heads).")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(f"{self.num_attention_heads} heads: must be a multiple of "
                f"{self.num_key_value_heads} KV heads.")
        if not 0 <= self.embedding_planes <= PLANES_MAX:
            raise ValueError(f"embedding_planes {self.embedding_planes}: must be 0 (int8) to {PLANES_MAX}.")
        if self.path == "streamed" and not (self.is_bitnet and self.embedding_planes == 0):
            raise ValueError("The streamed path takes the llama family with ternary weights, silu, rms, rope, sub-norms and "
                "an int8 embedding only: train other shapes with --path resident.")

    @property
    def is_bitnet(self):
        """Whether the blocks are those of 1bitLLM's BitNet, which the streamed path runs as well."""
        return self.sub_norms and (self.family, self.weights, self.activation, self.norm, self.positions) == (
            "llama", "ternary", "silu", "rms", "rope")

    @property
    def q_width(self):
        return self.num_attention_heads*self.head_dim

    @property
    def kv_width(self):
        return self.num_key_value_heads*self.head_dim

# Products -----------------------------------------------------------------------------------------

def bit_linear(x, weights, dtype, kind="ternary"):
    """Products of `x` `[..., in]` with matrices `[out_i, in]` of a kind, as one matrix product.

    Returns the results as a list of float32 tensors `[..., out_i]`; `dtype` is the product's.
    """
    x, x_scale       = quantize_rows(x)
    integers, scales = zip(*(quantize_weight(weight, kind) for weight in weights))
    integers         = torch.cat(integers) if len(integers) > 1 else integers[0]
    y                = F.linear(x.to(dtype), integers.to(dtype))
    parts            = y.split([weight.shape[0] for weight in weights], dim=-1)
    return [part.float()*(x_scale*(scale if scale.dim() == 0 else scale[:, 0]))
        for part, scale in zip(parts, scales)]

ACTIVATION = {"silu": F.silu, "gelu": F.gelu, "relu": F.relu}

# Layers -------------------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps    = eps

    def forward(self, x):
        return x*torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)*self.weight

class LayerNorm(RMSNorm):
    """Without a bias, so that the step of the int8 activations is all that the norm's scale changes."""
    def forward(self, x):
        return super().forward(x - x.mean(dim=-1, keepdim=True))

NORM = {"rms": RMSNorm, "layer": LayerNorm}

class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        size          = shape.hidden_size
        self.shape    = shape
        self.q_proj   = nn.Linear(size, shape.q_width,  bias=False)
        self.k_proj   = nn.Linear(size, shape.kv_width, bias=False)
        self.v_proj   = nn.Linear(size, shape.kv_width, bias=False)
        self.o_proj   = nn.Linear(shape.q_width, size,  bias=False)
        if shape.sub_norms:
            self.inner_attn_ln = NORM[shape.norm](shape.q_width, shape.rms_norm_eps)
        if shape.path == "resident": # Largest values of q, K and V, for their fixed steps.
            for name, heads in (("q", shape.num_attention_heads), ("k", shape.num_key_value_heads),
                ("v", shape.num_key_value_heads)):
                self.register_buffer(f"{name}_limit", torch.zeros(heads))

    def forward(self, x, cos, sin, dtype):
        shape   = self.shape
        B, T, _ = x.shape
        weights = (self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)
        q, k, v = bit_linear(x, weights, dtype, shape.weights)
        q, k, v = (y.view(B, T, -1, shape.head_dim).transpose(1, 2) for y in (q, k, v))
        if shape.positions == "rope":
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if shape.path == "resident":
            q, k, v = (self.fix(y, limit) for y, limit in
                ((q, self.q_limit), (k, self.k_limit), (v, self.v_limit)))
        group = shape.num_attention_heads//shape.num_key_value_heads
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        y = attend(q, k, v, dtype).transpose(1, 2).reshape(B, T, shape.q_width)
        if shape.sub_norms:
            y = self.inner_attn_ln(y)
        return bit_linear(y, (self.o_proj.weight,), dtype, shape.weights)[0]

    def fix(self, y, limit):
        """`y` in int8 steps; the limit follows the data while training."""
        if self.training:
            follow(limit, y)
        return quantize_heads(y, limit)

def rotate(x, cos, sin):
    """Half-split RoPE: element i turns with element i + head_dim/2. `x` is `[B, heads, T, dim]`."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a*cos - b*sin, b*cos + a*sin), dim=-1)

def attend(q, k, v, dtype):
    """Causal attention of `[B, heads, T, head_dim]` float32 tensors; `dtype` is the products'.

    Below float32 plain products win: PyTorch's fused kernel for CPUs takes 2.5 times as long. The
    queries go in parts of 128, which skips most of the keys that the mask hides.
    """
    if dtype == torch.float32:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    q, k, v = (q/math.sqrt(q.shape[-1])).to(dtype), k.to(dtype), v.to(dtype)
    T, part = q.shape[2], 128
    hidden  = torch.full((T, T), -math.inf).triu(1)
    parts   = []
    for first in range(0, T, part):
        last   = min(first + part, T)
        scores = q[:, :, first:last] @ k[:, :, :last].mT
        share  = torch.softmax(scores.float() + hidden[first:last, :last], dim=-1)
        parts.append((share.to(dtype) @ v[:, :, :last]).float())
    return torch.cat(parts, dim=2)

class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        size, inner = shape.hidden_size, shape.intermediate_size
        self.shape  = shape
        if shape.family == "llama":
            self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj   = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)
        if shape.sub_norms:
            self.ffn_layernorm = NORM[shape.norm](inner, shape.rms_norm_eps)

    def forward(self, x, dtype):
        shape, act = self.shape, ACTIVATION[self.shape.activation]
        if shape.family == "llama":
            gate, up = bit_linear(x, (self.gate_proj.weight, self.up_proj.weight), dtype, shape.weights)
            y        = act(gate)*up
        else:
            y = act(bit_linear(x, (self.up_proj.weight,), dtype, shape.weights)[0])
        if shape.sub_norms:
            y = self.ffn_layernorm(y)
        return bit_linear(y, (self.down_proj.weight,), dtype, shape.weights)[0]

class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        norm                          = NORM[shape.norm]
        self.input_layernorm          = norm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn                = Attention(shape)
        self.post_attention_layernorm = norm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp                      = FeedForward(shape)

    def forward(self, x, cos, sin, dtype, dropout):
        y = self.self_attn(self.input_layernorm(x), cos, sin, dtype)
        x = x + F.dropout(y, dropout, self.training)
        y = self.mlp(self.post_attention_layernorm(x), dtype)
        return x + F.dropout(y, dropout, self.training)

# Network ------------------------------------------------------------------------------------------

class Decoder(nn.Module):
    """The part whose parameters the checkpoint calls `model.*`."""
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        if shape.positions == "learned":
            self.embed_positions = nn.Embedding(shape.max_position_embeddings, shape.hidden_size)
        self.layers       = nn.ModuleList(Block(shape) for _ in range(shape.num_hidden_layers))
        self.norm         = NORM[shape.norm](shape.hidden_size, shape.rms_norm_eps)

class Network(nn.Module):
    """Token ids `[B, T]` to logits `[B, T, vocabulary]`.

    The head is the embedding, its rows quantised (int8, or few levels that the input sees as well),
    so a shipped head computes what training saw. `dtype` is the type of the matrix products;
    `dropout` acts on both branches of a block while training.
    """
    def __init__(self, shape, dtype=torch.float32, dropout=0.0):
        super().__init__()
        self.shape   = shape
        self.dtype   = dtype
        self.dropout = dropout
        self.model   = Decoder(shape)
        self.block   = Block.forward # Replaced by its compiled form.
        self.final   = final

        half   = shape.head_dim//2
        rate   = shape.rope_theta**(-torch.arange(half, dtype=torch.float64)/half)
        angles = torch.arange(shape.max_position_embeddings, dtype=torch.float64)[:, None]*rate
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        self.reset()

    def reset(self):
        """Draw the initial weights from PyTorch's global generator."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                std = 0.02 if "embed" in name else 1/math.sqrt(weight.shape[1])
                nn.init.normal_(weight, std=std)

    def compile(self):
        """Compile the block (once for all layers) and the head with `torch.compile`."""
        self.block = torch.compile(Block.forward, dynamic=False)
        self.final = torch.compile(final, dynamic=False)

    def forward(self, tokens, targets=None):
        """Logits, or with `targets` `[B, T]` the mean cross-entropy in nats per token."""
        T        = tokens.shape[1]
        cos, sin = self.cos[:T], self.sin[:T]
        planes   = self.shape.embedding_planes
        if planes:
            integers, scale = quantize_planes(self.model.embed_tokens.weight, planes)
            x               = F.embedding(tokens, integers*scale)
        else:
            x = self.model.embed_tokens(tokens)
        if self.shape.positions == "learned":
            x = x + quantize_table(self.model.embed_positions.weight)[:T]
        for layer in self.model.layers:
            x = self.block(layer, x, cos, sin, self.dtype, self.dropout)
        return self.final(self.model.norm, self.model.embed_tokens.weight, x, targets, self.dtype, planes)

def final(norm, embedding, x, targets, dtype, planes=0):
    """Final norm, head (int8, or of `planes` trits) and, with targets, the mean cross-entropy."""
    x, x_scale = quantize_rows(norm(x))
    e, e_scale = quantize_planes(embedding, planes) if planes else quantize_rows(embedding)
    logits     = F.linear(x.to(dtype), e.to(dtype)).float()*x_scale*e_scale[:, 0]
    if targets is None:
        return logits
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
