#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""GGUF files of llama.cpp (TQ1_0, TQ2_0, floats and its other types) and of microsoft's fork (I2_S).

The package `gguf` reads the container and all types but I2_S, whose number (36) it does not know.
"""

import pathlib

import numpy as np

from model.importers import vocabulary
from model.importers.assemble import assemble, check_numbers, interleaved_to_halves, matrix_shapes
from model.importers.matrices import check_scale, exact_ternary, from_float, from_i2_s

I2_S = 36

MATRICES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
GAINS    = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "o_norm": "attn_sub_norm", "down_norm": "ffn_sub_norm"}
TABLES   = {"embedding": "token_embd.weight", "head": "output.weight"}
IGNORED  = ("rope_freqs.weight",)

# Architectures: whether q and k have neighbouring RoPE pairs, sub-norms and int8 activations in training.
ARCHITECTURES = {"llama": (True, False, False), "bitnet": (False, True, True)}

# Container ----------------------------------------------------------------------------------------


def _open(path):
    """GGUFReader that knows I2_S; ValueError for a damaged file."""
    try:
        import gguf
    except ImportError:
        raise ValueError(f"{path}: GGUF files need the package gguf: run `make setup EXTRAS=convert`") from None

    class Reader(gguf.GGUFReader):
        def _build_tensors(self, start, fields):
            # The package refuses the file for one unknown type: those tensors are kept apart.
            self.i2_s = {}
            known     = []
            for field in fields:
                _, name, _, dims, kind, offset = field.parts
                if kind[0] != I2_S:
                    known.append(field)
                    continue
                shape = tuple(int(size) for size in reversed(dims))
                first = int(start + offset[0])
                count = int(np.prod(shape))
                data  = self.data[first:first + count//4 + 4]
                if len(shape) != 2 or count % 128 or len(data) != count//4 + 4:
                    raise ValueError(f"tensor {bytes(name).decode()} of {shape}: truncated, or no I2_S matrix")
                self.i2_s[bytes(name).decode()] = shape, data
            super()._build_tensors(start, known)

    try:
        return gguf, Reader(path)
    except Exception as error:  # The package raises whatever a damaged byte leads to.
        raise ValueError(f"{path}: damaged GGUF file ({str(error).splitlines()[0] if str(error) else type(error).__name__})") from None


class Metadata:
    """Key-value pairs of a file."""
    def __init__(self, fields):
        self.fields = fields

    def get(self, key, default=None):
        field = self.fields.get(key)
        return default if field is None else field.contents()

    def need(self, key):
        value = self.get(key)
        if value is None:
            raise ValueError(f"the file does not state {key}")
        return value

# Shape and vocabulary -----------------------------------------------------------------------------


def _shape(metadata, arch, vocab, tied):
    key     = lambda name: metadata.need(f"{arch}.{name}")
    scaling = metadata.get(f"{arch}.rope.scaling.type", "none")
    if scaling != "none" and metadata.get(f"{arch}.rope.scaling.factor", 1.0) != 1.0:
        raise ValueError(f"the file asks for RoPE scaling of type {scaling!r}: only the plain one is known")
    heads, kv_heads = key("attention.head_count"), metadata.get(f"{arch}.attention.head_count_kv")
    hidden          = key("embedding_length")
    return dict(
        hidden     = hidden,
        ffn        = key("feed_forward_length"),
        layers     = key("block_count"),
        heads      = heads,
        kv_heads   = heads if kv_heads is None else kv_heads,
        head_dim   = metadata.get(f"{arch}.attention.key_length") or hidden//max(heads, 1),
        vocab      = vocab,
        context    = key("context_length"),
        norm_eps   = float(key("attention.layer_norm_rms_epsilon")),
        rope_theta = float(metadata.get(f"{arch}.rope.freq_base", 1e4)),
        sub_norms  = ARCHITECTURES[arch][1],
        tied       = tied,
    )


def _tokenizer(metadata):
    """Bytes of a `tokenizers` JSON of the vocabulary in the file; empty where it has none."""
    kind, pieces = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if kind in (None, "none") or not pieces:
        return b""
    kinds = metadata.get("tokenizer.ggml.token_type") or [vocabulary.NORMAL]*len(pieces)
    if kind == "gpt2":
        words     = metadata.get("tokenizer.ggml.pre", "default")
        tokenizer = vocabulary.from_merges(pieces, metadata.need("tokenizer.ggml.merges"), kinds, words)
    elif kind == "llama":
        tokenizer = vocabulary.from_pieces(pieces, metadata.need("tokenizer.ggml.scores"), kinds,
            prefix=metadata.get("tokenizer.ggml.add_space_prefix", True))
    else:
        raise ValueError(f"tokenizer of kind {kind!r} is not known ('llama' and 'gpt2' are)")
    return tokenizer.to_str().encode()

# Import -------------------------------------------------------------------------------------------


class _Reader:
    """Reader of `model.importers.assemble` over a file; decides the rule for float matrices."""
    def __init__(self, gguf, file, shape, interleaved):
        self.gguf, self.file, self.interleaved = gguf, file, interleaved
        self.tensors = {tensor.name: tensor for tensor in file.tensors}
        self.unread  = {*self.tensors, *file.i2_s} - {*IGNORED}
        self.heads   = {"q": shape["heads"], "k": shape["kv_heads"]}
        self.rule    = "trits"
        first        = self._matrix_name(0, "q")
        if first not in file.i2_s and exact_ternary(self._read(first, matrix_shapes(shape)["q"])) is None:
            self.rule = "int8"

    @staticmethod
    def _matrix_name(layer, key):
        return f"blk.{layer}.{MATRICES[key]}.weight"

    def _read(self, name, shape):
        """float32 array of any type that the package knows."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ValueError(f"tensor {name} is missing (must be {list(shape)})")
        found = tuple(int(size) for size in reversed(tensor.shape))
        if found != tuple(shape):
            raise ValueError(f"tensor {name} is {list(found)}: must be {list(shape)}")
        try:
            result = self.gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        except NotImplementedError:
            raise ValueError(f"tensor {name} is of type {tensor.tensor_type.name}, which the package gguf cannot read") from None
        if not np.isfinite(np.sum(result, dtype=np.float64)):
            raise ValueError(f"tensor {name} holds infinite values or NaN")
        self.unread.discard(name)
        return result.astype(np.float32, copy=False)

    def matrix(self, layer, key, shape):
        name = self._matrix_name(layer, key)
        if name in self.file.i2_s:
            found, data = self.file.i2_s[name]
            if found != shape:
                raise ValueError(f"tensor {name} is {list(found)}: must be {list(shape)}")
            self.unread.discard(name)
            weights, scale = from_i2_s(data, shape, name)
        else:
            weights, scale = from_float(self._read(name, shape), self.rule, name)
        factor = f"blk.{layer}.{MATRICES[key]}.scale"
        if factor in self.tensors:
            scale = scale*check_scale(self._read(factor, (1,)), name)
        if self.interleaved and key in self.heads:
            weights = interleaved_to_halves(weights, self.heads[key])
            scale   = interleaved_to_halves(scale, self.heads[key]) if np.ndim(scale) else scale
        return weights, scale

    def gain(self, layer, key, width):
        return self._read(f"blk.{layer}.{GAINS[key]}.weight", (width,))

    def final_norm(self, width):
        return self._read("output_norm.weight", (width,))

    def table(self, key, shape):
        return self._read(TABLES[key], shape)


def load_gguf(path, progress=None):
    """Checkpoint of a GGUF file. Raises ValueError with one clear line."""
    path       = pathlib.Path(path)
    gguf, file = _open(path)
    metadata   = Metadata(file.fields)
    try:
        arch = metadata.need("general.architecture")
        if arch not in ARCHITECTURES:
            raise ValueError(f"architecture {arch!r} is not known ({', '.join(ARCHITECTURES)} are)")
        interleaved, _, quantised = ARCHITECTURES[arch]
        tables = {tensor.name: tensor for tensor in file.tensors}
        if TABLES["embedding"] not in tables:
            raise ValueError(f"tensor {TABLES['embedding']} is missing")
        vocab  = int(tables[TABLES["embedding"]].shape[-1])
        shape  = _shape(metadata, arch, vocab, TABLES["head"] not in tables)
        check_numbers(shape)
        reader = _Reader(gguf, file, shape, interleaved)
        eos    = metadata.get("tokenizer.ggml.eos_token_id", 0)
        checkpoint = assemble(reader, shape, "int8" if reader.rule == "int8" else "ternary", progress,
            tokenizer     = _tokenizer(metadata),
            chat_template = metadata.get("tokenizer.chat_template", ""),
            name = metadata.get("general.name") or path.stem,
            bos  = metadata.get("tokenizer.ggml.bos_token_id", eos),
            eos  = eos,
            quantised_activations = quantised)
        if reader.unread:
            name = sorted(reader.unread)[0]
            raise ValueError(f"tensor {name} has no place in a model of architecture {arch!r} ({len(reader.unread)} such tensors)")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return checkpoint
