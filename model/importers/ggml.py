#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""GGUF files of llama.cpp (TQ1_0, TQ2_0, floats and its other types) and of microsoft's fork (I2_S).

The package `gguf` reads all types but I2_S, whose number it does not know.
"""

import pathlib

import numpy as np

from litetern.model.common.fields import REQUIRED, is_number, is_whole
from litetern.model.common.files import naming
from litetern.model.formats.config import RANGES
from litetern.model.formats.image import LENGTH_MAX
from litetern.model.importers import vocabulary
from litetern.model.importers.assemble import assemble, check_fits, interleaved_to_halves, matrix_shapes, model_config
from litetern.model.importers.gguf_file import I2_S, open_gguf
from litetern.model.importers.matrices import check_scale, from_float, from_i2_s, ternary_rows
from litetern.model.numerics import rope
from litetern.model.tokenizer.tokenizer import BYTE, CONTROL, NORMAL, USER, convert

MATRICES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
GAINS    = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "o_norm": "attn_sub_norm", "down_norm": "ffn_sub_norm"}
TABLES   = {"embedding": "token_embd.weight", "head": "output.weight"}
FACTORS  = "rope_freqs.weight"  # Divisors of RoPE's frequencies, one for each pair.

SCALINGS = ("none", "linear", "yarn")

# Byte-level vocabularies (`tokenizer.ggml.pre`) whose texts begin with bos where a file does not say.
BOS_FIRST = ("llama3", "llama-v3", "llama-bpe", "falcon3")

# Architectures: whether q and k have neighbouring RoPE pairs, sub-norms and int8 activations in training.
ARCHITECTURES = {"llama": (True, False, False), "bitnet": (False, True, True)}

# Shape and vocabulary -----------------------------------------------------------------------------


def _shape(metadata, arch, vocab, tied):
    whole   = lambda name, field, default=REQUIRED: metadata.whole(f"{arch}.{name}", *RANGES[field], default)
    hidden, heads = whole("embedding_length", "hidden"), whole("attention.head_count", "heads")
    return dict(
        hidden     = hidden,
        ffn        = whole("feed_forward_length", "ffn"),
        layers     = whole("block_count", "layers"),
        heads      = heads,
        kv_heads   = whole("attention.head_count_kv", "kv_heads", heads),
        head_dim   = whole("attention.key_length", "head_dim", max(hidden//heads, 1)),
        vocab      = vocab,
        context    = whole("context_length", "context"),
        norm_eps   = metadata.number(f"{arch}.attention.layer_norm_rms_epsilon", *RANGES["norm_eps"]),
        rope_theta = metadata.number(f"{arch}.rope.freq_base", *RANGES["rope_theta"], 1e4),
        sub_norms  = ARCHITECTURES[arch][1],
        tied       = tied,
    )


def _angles(metadata, arch, shape):
    """`litetern.model.numerics.rope.Angles` that the metadata ask for, as llama.cpp computes them. ValueError for kinds that are not known."""
    number  = lambda name, limits, default: metadata.number(f"{arch}.rope.{name}", *limits, default)
    turned  = metadata.whole(f"{arch}.rope.dimension_count", 1, RANGES["head_dim"][1], shape["head_dim"])
    if turned != shape["head_dim"]:
        raise ValueError(f"{arch}.rope.dimension_count: RoPE turns {turned} of each head's {shape['head_dim']} values: only whole heads are known")
    kind    = metadata.text(f"{arch}.rope.scaling.type", "linear")  # A factor alone means this one.
    if kind not in SCALINGS:
        raise ValueError(f"the file asks for RoPE scaling of type {kind!r}: {', '.join(SCALINGS)} are known")
    factor  = number("scaling.factor", rope.FACTORS, number("scale_linear", rope.FACTORS, 1.0))  # The second is what files of 2023 say.
    gain    = number("scaling.attn_factor", rope.GAINS, 1.0)
    theta, width = shape["rope_theta"], shape["head_dim"]
    if kind == "yarn":
        original = metadata.whole(f"{arch}.rope.scaling.original_context_length", *RANGES["context"], shape["context"])
        return rope.yarn(theta, width, factor, original, gain*rope.yarn_gain(factor),
            number("scaling.yarn_beta_fast", rope.ROTATIONS, rope.BETA_FAST), number("scaling.yarn_beta_slow", rope.ROTATIONS, rope.BETA_SLOW))
    return rope.Angles(rope.linear(theta, width, factor if kind == "linear" else 1.0).frequencies, gain)


def _tokenizer(metadata):
    """Bytes of a `tokenizers` JSON of the vocabulary in the file; empty where it has none."""
    kind, pieces = metadata.text("tokenizer.ggml.model", "none"), metadata.texts("tokenizer.ggml.tokens", vocabulary.TOKEN_LONGEST)
    if kind == "none" or not pieces:
        return b""
    numbers = lambda name, good, default=REQUIRED: metadata.value(name, lambda values: isinstance(values, list) and len(values) == len(pieces)
        and all(map(good, values)), f"a list of {len(pieces):,} numbers, one for each token", default)
    kinds   = numbers("tokenizer.ggml.token_type", lambda value: is_whole(value, NORMAL, BYTE),
        [NORMAL]*len(pieces))
    if kind == "gpt2":
        words  = metadata.text("tokenizer.ggml.pre", "default")
        merges = metadata.texts("tokenizer.ggml.merges", 2*vocabulary.TOKEN_LONGEST)
        return convert("from_merges", pieces=pieces, merges=merges, kinds=kinds, words=words)
    if kind == "llama":
        scores = numbers("tokenizer.ggml.scores", lambda value: is_number(value, -1e30, 1e30))
        return convert("from_pieces", pieces=pieces, scores=scores, kinds=kinds, prefix=metadata.flag("tokenizer.ggml.add_space_prefix", True))
    raise ValueError(f"tokenizer of kind {kind!r} is not known ('llama' and 'gpt2' are)")


def _marks(metadata, vocab):
    """{"bos", "add_bos", "ends"} (`litetern.model.formats.marks`) as llama.cpp takes them: stated ids, the defaults of the kind, ends by their names."""
    kind     = metadata.text("tokenizer.ggml.model", "none")
    bos, eos = (1, 2) if kind == "llama" and vocab > 2 else (None, None)
    token    = lambda name, default=None: metadata.whole(f"tokenizer.ggml.{name}_token_id", 0, vocab - 1, default)
    bos      = token("bos", bos)
    pieces   = metadata.texts("tokenizer.ggml.tokens", vocabulary.TOKEN_LONGEST)
    kinds    = metadata.values.get("tokenizer.ggml.token_type") or []
    named    = {piece: index for index, (piece, kind) in enumerate(zip(pieces, kinds)) if kind in (CONTROL, USER)}
    first    = kind == "llama" or metadata.text("tokenizer.ggml.pre", "default") in BOS_FIRST
    return {
        "bos"     : bos,
        "add_bos" : metadata.flag("tokenizer.ggml.add_bos_token", first and bos is not None),
        "ends"    : vocabulary.unique([token("eos", eos), token("eot"), token("eom")], [named.get(name) for name in vocabulary.ENDS]),
    }


def _template(metadata, marks):
    """Jinja text of the chat template. llama.cpp puts bos before its prompts as before any text: it is written into a template that does not."""
    text   = metadata.text("tokenizer.chat_template", "", vocabulary.TEMPLATE_LIMIT)
    pieces = metadata.texts("tokenizer.ggml.tokens", vocabulary.TOKEN_LONGEST)
    bos    = pieces[marks["bos"]] if marks["add_bos"] and marks["bos"] is not None and marks["bos"] < len(pieces) else ""
    return text if not (text and bos) or "bos_token" in text or bos in text else "{{ bos_token }}" + text


def _notes(metadata):
    """What a user should know of the vocabulary."""
    if metadata.text("tokenizer.ggml.model", "none") != "gpt2" or "tokenizer.ggml.pre" in metadata:
        return []
    return ["the file does not say how texts are cut into words (tokenizer.ggml.pre): they are as llama.cpp cuts them by default, which may be "
        "other than what the model was trained with"]

# Import -------------------------------------------------------------------------------------------


class _Reader:
    """Reader of `litetern.model.importers.assemble` over a file; decides the rule for float matrices."""
    def __init__(self, file, shape, interleaved, rule):
        self.file, self.tensors, self.interleaved = file, file.tensors, interleaved
        self.unread  = {*self.tensors}
        self.heads   = {"q": shape["heads"], "k": shape["kv_heads"]}
        self.rule    = "trits"
        first        = self._matrix_name(0, "q")
        if not self._is_i2_s(first) and ternary_rows(self._read(first, matrix_shapes(shape)["q"])) is None:
            self.rule = rule

    @staticmethod
    def _matrix_name(layer, key):
        return f"blk.{layer}.{MATRICES[key]}.weight"

    def _is_i2_s(self, name):
        return name in self.tensors and self.tensors[name].kind == I2_S

    def _check(self, name, shape):
        if name not in self.tensors:
            raise ValueError(f"tensor {name} is missing (must be {list(shape)})")
        if self.tensors[name].shape != tuple(shape):
            raise ValueError(f"tensor {name} is {list(self.tensors[name].shape)}: must be {list(shape)}")

    def _read(self, name, shape):
        """float32 array of any type that the package knows."""
        self._check(name, shape)
        result = self.file.read(name)
        if not np.isfinite(np.sum(result, dtype=np.float64)):
            raise ValueError(f"tensor {name} holds infinite values or NaN")
        self.unread.discard(name)
        return result.astype(np.float32, copy=False)

    def matrix(self, layer, key, shape):
        name = self._matrix_name(layer, key)
        if self._is_i2_s(name):
            self._check(name, shape)
            self.unread.discard(name)
            weights, scale = from_i2_s(self.file.raw(name), shape, name)
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

    def divisors(self, pairs):
        """float32 [pairs] of RoPE's frequencies, as Llama 3.1's files hold them; 1 where there are none."""
        if FACTORS not in self.tensors:
            return np.float32(1)
        result = self._read(FACTORS, (pairs,))
        if not np.all((result >= rope.FACTORS[0]) & (result <= rope.FACTORS[1])):
            raise ValueError(f"tensor {FACTORS} holds {result.min():g} … {result.max():g}: divisors of frequencies lie between "
                f"{rope.FACTORS[0]:g} and {rope.FACTORS[1]:g}")
        return result

    def final_norm(self, width):
        return self._read("output_norm.weight", (width,))

    def table(self, key, shape):
        return self._read(TABLES[key], shape)


def load_gguf(path, progress=None, rule="int8", limit=LENGTH_MAX):
    """Checkpoint of a GGUF file. rule: of matrices that hold any floats (`matrices`). Raises ValueError with one clear line."""
    path     = pathlib.Path(path)
    file     = open_gguf(path)
    metadata = file.metadata
    try:
        arch = metadata.text("general.architecture")
        if arch not in ARCHITECTURES:
            raise ValueError(f"architecture {arch!r} is not known ({', '.join(ARCHITECTURES)} are)")
        interleaved, _, quantised = ARCHITECTURES[arch]
        if TABLES["embedding"] not in file.tensors:
            raise ValueError(f"tensor {TABLES['embedding']} is missing")
        vocab  = file.tensors[TABLES["embedding"]].shape[0]
        shape  = _shape(metadata, arch, vocab, TABLES["head"] not in file.tensors)
        check_fits(shape, "ternary", file.stem, limit)  # At the least; nothing is read of what is too large.
        model_config(shape)
        marks  = _marks(metadata, vocab)
        angles = _angles(metadata, arch, shape)
        reader = _Reader(file, shape, interleaved, rule)
        checkpoint = assemble(reader, shape, rule if reader.rule == rule else "ternary", progress, limit,
            tokenizer     = _tokenizer(metadata),
            chat_template = _template(metadata, marks),
            name = metadata.text("general.name", file.stem) or file.stem,
            **marks,
            notes  = _notes(metadata),
            angles = angles.divided(reader.divisors(shape["head_dim"]//2)),
            quantised_activations = quantised)
        if reader.unread:
            name = sorted(reader.unread)[0]
            raise ValueError(f"tensor {name} has no place in a model of architecture {arch!r} ({len(reader.unread)} such tensors)")
    except ValueError as error:
        raise naming(path, error) from error
    return checkpoint
