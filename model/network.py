#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The ternary network in PyTorch, for training: LLaMA-shaped, every projection a BitLinear.

Weights carry the names and the `[out, in]` layout of 1bitLLM/bitnet_b1_58-large. They stay latent
floats; every forward pass quantises them. Integers (ternary weights, int8 activations) are what the
matrix products see, so that bfloat16 inputs are exact, and the scales multiply the result.
"""

import math

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from torch import nn

# Shape --------------------------------------------------------------------------------------------

@dataclass
class Shape:
    """Sizes of a network; the names are those of the checkpoint's `config.json`."""
    hidden_size             : int   = 192
    intermediate_size       : int   = 480
    num_hidden_layers       : int   = 6
    num_attention_heads     : int   = 3
    vocab_size              : int   = 1024
    max_position_embeddings : int   = 256
    rms_norm_eps            : float = 1e-5
    rope_theta              : float = 10000.0

    def __post_init__(self):
        if self.hidden_size % self.num_attention_heads or self.head_dim % 2:
            raise ValueError(f"hidden_size {self.hidden_size} does not divide into "
                f"{self.num_attention_heads} heads of an even size.")

    @property
    def head_dim(self):
        return self.hidden_size//self.num_attention_heads

# Quantisers ---------------------------------------------------------------------------------------

def straight_through(value, rounded):
    """`rounded` in the forward pass, the gradient of `value` in the backward pass."""
    return value + (rounded - value).detach()

def quantize_weight(weight):
    """Ternary integers (float tensor, same shape) and their scale: weight ≈ integers * scale."""
    scale  = weight.detach().abs().mean().clamp(min=1e-5)
    scaled = weight/scale
    return straight_through(scaled, scaled.round().clamp(-1, 1)), scale

def quantize_rows(x, low=-128):
    """int8 integers (float tensor, same shape) and a scale per row: x ≈ integers * scale.

    A row is the last axis; ties round to even; the scale has the shape `[..., 1]`.
    """
    inverse = 127/x.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)
    scaled  = x*inverse
    return straight_through(scaled, scaled.round().clamp(low, 127)), 1/inverse

def bit_linear(x, weights, dtype):
    """Products of `x` `[..., in]` with ternary matrices `[out_i, in]`, as one matrix product.

    Returns the results as a list of float32 tensors `[..., out_i]`; `dtype` is the product's.
    """
    x, x_scale      = quantize_rows(x)
    ternary, scales = zip(*(quantize_weight(weight) for weight in weights))
    ternary         = torch.cat(ternary) if len(ternary) > 1 else ternary[0]
    y               = F.linear(x.to(dtype), ternary.to(dtype))
    parts           = y.split([weight.shape[0] for weight in weights], dim=-1)
    return [part.float()*(x_scale*scale) for part, scale in zip(parts, scales)]

# Layers -------------------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps    = eps

    def forward(self, x):
        return x*torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)*self.weight

class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        size               = shape.hidden_size
        self.heads         = shape.num_attention_heads
        self.q_proj        = nn.Linear(size, size, bias=False)
        self.k_proj        = nn.Linear(size, size, bias=False)
        self.v_proj        = nn.Linear(size, size, bias=False)
        self.o_proj        = nn.Linear(size, size, bias=False)
        self.inner_attn_ln = RMSNorm(size, shape.rms_norm_eps)

    def forward(self, x, cos, sin, dtype):
        B, T, C = x.shape
        q, k, v = bit_linear(x, (self.q_proj.weight, self.k_proj.weight, self.v_proj.weight), dtype)
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        y       = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, dtype)
        y       = self.inner_attn_ln(y.transpose(1, 2).reshape(B, T, C))
        return bit_linear(y, (self.o_proj.weight,), dtype)[0]

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
        size, inner        = shape.hidden_size, shape.intermediate_size
        self.gate_proj     = nn.Linear(size, inner, bias=False)
        self.up_proj       = nn.Linear(size, inner, bias=False)
        self.down_proj     = nn.Linear(inner, size, bias=False)
        self.ffn_layernorm = RMSNorm(inner, shape.rms_norm_eps)

    def forward(self, x, dtype):
        gate, up = bit_linear(x, (self.gate_proj.weight, self.up_proj.weight), dtype)
        y        = self.ffn_layernorm(F.silu(gate)*up)
        return bit_linear(y, (self.down_proj.weight,), dtype)[0]

class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm          = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn                = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
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
        self.layers       = nn.ModuleList(Block(shape) for _ in range(shape.num_hidden_layers))
        self.norm         = RMSNorm(shape.hidden_size, shape.rms_norm_eps)

class Network(nn.Module):
    """Token ids `[B, T]` to logits `[B, T, vocabulary]`.

    The head is the embedding, its rows quantised to int8 like the activations that meet it, so a
    shipped int8 head computes what training saw. `dtype` is the type of the matrix products;
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
        x        = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = self.block(layer, x, cos, sin, self.dtype, self.dropout)
        return self.final(self.model.norm, self.model.embed_tokens.weight, x, targets, self.dtype)

def final(norm, embedding, x, targets, dtype):
    """Final norm, int8 head and, with targets, the mean cross-entropy."""
    x, x_scale = quantize_rows(norm(x))
    e, e_scale = quantize_rows(embedding)
    logits     = F.linear(x.to(dtype), e.to(dtype)).float()*x_scale*e_scale[:, 0]
    if targets is None:
        return logits
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
