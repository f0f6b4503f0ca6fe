#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Vocabularies of all kinds as tokenizers of the library `tokenizers`: SentencePiece's model, pieces and merges as GGUF holds them, llama2.c's
tokenizer.bin. Runs in the process of `litetern.model.tokenizer.tokenizer.convert`.
"""

import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from litetern.model.tokenizer.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark of a space.

# Texts on which a converted tokenizer must agree with its library.
SAMPLES = ("Once upon a time there was a girl.", "  Two  spaces, a\ttab\nand a line.", "naïve café, Ünïcode: 数 and 🙂", "ﬁne ①", "1234567 x=y+2;", " ", "a")

# How words are cut before byte-level BPE, by GGUF's names.
_WORDS = {
    "llama": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# llama.cpp's default, for files that do not say: one cut after the other.
_DEFAULT = (r"[\p{P}$+<=>^~|]+", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)", r"\p{N}+", r"[0-9]{3}")
_PRE_TOKENIZERS = {"default": "default", "gpt-2": "gpt2", "gpt2": "gpt2", "olmo": "gpt2", "mpt": "gpt2", "smollm": "digits", "llama-bpe": "llama",
    "llama3": "llama", "llama-v3": "llama", "falcon3": "llama", "qwen2": "qwen2"}

# Pieces to JSON -----------------------------------------------------------------------------------


def _added(pieces, kinds):
    return [AddedToken(piece, special=kind == CONTROL, normalized=False) for piece, kind in zip(pieces, kinds) if kind in (CONTROL, USER)]


def _add(tokenizer, pieces, kinds):
    """Marks control tokens, which are never spelled by text, and user-defined ones."""
    added = _added(pieces, kinds)
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.add_tokens([token for token in added if not token.special])
    return tokenizer


def _unique(pieces):
    if len(set(pieces)) != len(pieces):
        raise ValueError(f"the vocabulary holds {len(pieces)} tokens of which {len(pieces) - len(set(pieces))} are repeated")


def _merges(pieces, scores):
    """Merges of a SentencePiece BPE: every way to join two pieces to a third, best score first."""
    rank = {piece: -score for piece, score in zip(pieces, scores)}
    ids  = {piece: index for index, piece in enumerate(pieces)}
    found = []
    for piece in pieces:
        parts = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        parts = [(left, right) for left, right in parts if left in ids and right in ids]
        found += [(rank[piece], ids[left], ids[right], left, right) for left, right in parts]
    return [(left, right) for *_, left, right in sorted(found)]


def from_pieces(pieces, scores, kinds, prefix=True):
    """Tokenizer of a SentencePiece BPE: pieces (str), scores, kinds; prefix: a space is put before each text.

    Control tokens have no merges, so that no text can spell them.
    """
    _unique(pieces)
    normal  = [kind in (NORMAL, USER) for kind in kinds]
    unknown = kinds.index(UNKNOWN) if UNKNOWN in kinds else None
    merges  = _merges([p for p, use in zip(pieces, normal) if use], [s for s, use in zip(scores, normal) if use])
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges, fuse_unk=True, byte_fallback=BYTE in kinds,
        unk_token=None if unknown is None else pieces[unknown]))
    replace = normalizers.Replace(" ", SPACE)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), replace]) if prefix else replace
    # The space that the prefix puts before a text goes again, before the first word only.
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] if prefix else steps)
    return _add(tokenizer, pieces, kinds)


def from_merges(pieces, merges, kinds, words):
    """Tokenizer of a byte-level BPE: pieces (str), merges ("left right"), how words are cut (GGUF's name)."""
    _unique(pieces)
    if words not in _PRE_TOKENIZERS:
        raise ValueError(f"tokenizer of kind {words!r} is not known ({', '.join(_PRE_TOKENIZERS)} are)")
    merges = [tuple(merge.split(" ")) for merge in merges]
    wrong  = next((merge for merge in merges if len(merge) != 2), None)
    if wrong is not None:
        raise ValueError(f"the merge {' '.join(wrong)[:60]!r} must be two tokens with a space between them")
    kind      = _PRE_TOKENIZERS[words]
    # Llama 3's words that are tokens are taken whole, whatever merges would make of them.
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges, ignore_merges=kind == "llama"))
    level     = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "digits"))
    first     = {"gpt2": [], "digits": [pre_tokenizers.Digits(individual_digits=True)],
        "default": [pre_tokenizers.Split(Regex(cut), "isolated") for cut in _DEFAULT]}.get(kind)
    if first is None:
        first = [pre_tokenizers.Split(Regex(_WORDS[kind]), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first, level])
    tokenizer.decoder       = decoders.ByteLevel()
    return _add(tokenizer, pieces, kinds)

# SentencePiece ------------------------------------------------------------------------------------


def from_sentencepiece(data, name="tokenizer.model", added=()):
    """Tokenizer of the bytes of a SentencePiece model; ValueError where no conversion agrees with the library on `SAMPLES`.

    added: (id, text, whether it is special) of tokens that stand beside it.
    """
    try:
        import sentencepiece
    except ImportError:
        raise ValueError(f"{name} needs the package sentencepiece: run `make setup EXTRAS=convert`") from None
    try:
        library = sentencepiece.SentencePieceProcessor(model_proto=data or b"empty")
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: not a SentencePiece model ({str(error).splitlines()[0] or 'it cannot be parsed'})") from None
    ids    = range(library.get_piece_size())
    pieces = [library.id_to_piece(i) for i in ids]
    scores = [library.get_score(i) for i in ids]
    kinds  = [UNKNOWN if library.is_unknown(i) else CONTROL if library.is_control(i) else BYTE if library.is_byte(i)
        else UNUSED if library.is_unused(i) else NORMAL for i in ids]
    # The library does not say what the file is; what it does decides.
    for prefix in (True, False):
        tokenizer = from_pieces(pieces, scores, kinds, prefix)
        if all(tokenizer.encode(text, add_special_tokens=False).ids == library.encode(text) for text in SAMPLES):
            return _add_more(tokenizer, added, name)
    raise ValueError(f"{name}: no BPE without a normalisation of its own, only such SentencePiece models are known; save it as tokenizer.json")


def _add_more(tokenizer, added, name):
    for index, text, special in sorted(added):
        token = AddedToken(text, special=special, normalized=False)
        tokenizer.add_special_tokens([token]) if special else tokenizer.add_tokens([token])
        if tokenizer.token_to_id(text) != index:
            raise ValueError(f"{name}: added token {text!r} should be {index}, the vocabulary makes it {tokenizer.token_to_id(text)}")
    return tokenizer

# llama2.c -----------------------------------------------------------------------------------------


def from_llama2c(data, vocab, name="tokenizer.bin"):
    """Tokenizer of llama2.c's tokenizer.bin: int32 longest token, then per token float32 score, int32 length, bytes."""
    pieces, scores, offset = [], [], 4
    try:
        for _ in range(vocab):
            score, length = struct.unpack_from("<fi", data, offset)
            piece   = data[offset + 8:offset + 8 + length]
            offset += 8 + length
            if length < 0 or len(piece) != length:
                raise ValueError
            pieces.append(piece.decode("utf-8").replace(" ", SPACE))
            scores.append(score)
    except (struct.error, ValueError):
        raise ValueError(f"{name}: damaged, or not of {vocab:,} tokens") from None
    if offset != len(data):
        raise ValueError(f"{name}: {len(data) - offset} bytes after the last of {vocab:,} tokens")
    # The format keeps no kinds: these places are fixed, and its control tokens carry newlines around their names.
    kinds  = [UNKNOWN, CONTROL, CONTROL] + [BYTE if len(p) == 6 and p.startswith("<0x") else NORMAL for p in pieces[3:]]
    pieces = [piece.strip("\n") if kind == CONTROL else piece for piece, kind in zip(pieces, kinds)]
    return from_pieces(pieces, scores, kinds)
