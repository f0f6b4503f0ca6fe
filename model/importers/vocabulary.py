#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tokenizers of all kinds as the bytes of one `tokenizers` JSON file, and chat templates as text.

Sources: tokenizer.json, SentencePiece's tokenizer.model, the vocabulary inside a GGUF file, llama2.c's tokenizer.bin.
"""

import pathlib
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from model.config import VOCAB_MAX
from model.fields import Fields
from model.files import TOKENIZER_LIMIT, read_bytes, read_json, read_text

TEMPLATE_LIMIT = 1 << 20  # Bytes of a chat template.
TOKEN_LONGEST  = 1024     # Characters of a token.

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark of a space.

# Kinds of SentencePiece's and GGUF's tokens.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# Texts on which a converted tokenizer must agree with its library.
SAMPLES = ("Once upon a time there was a girl.", "  Two  spaces, a\ttab\nand a line.", "naïve café, Ünïcode: 数 and 🙂", "ﬁne ①", "1234567 x=y+2;", " ", "a")

# How words are cut before byte-level BPE, by GGUF's names.
_WORDS = {
    "llama": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
_PRE_TOKENIZERS = {"default": "gpt2", "gpt-2": "gpt2", "gpt2": "gpt2", "olmo": "gpt2", "mpt": "gpt2", "smollm": "digits", "llama-bpe": "llama",
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
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, [tuple(merge.split(" ")) for merge in merges]))
    kind      = _PRE_TOKENIZERS[words]
    level     = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "digits"))
    first     = {"gpt2": [], "digits": [pre_tokenizers.Digits(individual_digits=True)]}.get(kind)
    if first is None:
        first = [pre_tokenizers.Split(Regex(_WORDS[kind]), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first, level])
    tokenizer.decoder       = decoders.ByteLevel()
    return _add(tokenizer, pieces, kinds)

# SentencePiece ------------------------------------------------------------------------------------


def from_sentencepiece(data, name="tokenizer.model"):
    """Tokenizer of the bytes of a SentencePiece model; ValueError where no conversion agrees with the library on `SAMPLES`."""
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
            return tokenizer
    raise ValueError(f"{name}: no BPE without a normalisation of its own, only such SentencePiece models are known; save it as tokenizer.json")

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

# Folders ------------------------------------------------------------------------------------------


def _more_tokens(folder, tokenizer):
    """Adds what stands beside a tokenizer.model: added_tokens.json, added_tokens_decoder of tokenizer_config.json."""
    added = {}
    if (folder/"added_tokens.json").exists():
        stated = Fields(read_json(folder/"added_tokens.json"), folder/"added_tokens.json")
        added  = {stated.whole(text, 0, VOCAB_MAX): AddedToken(text, special=True, normalized=False) for text in stated.values}
    tokens = _settings(folder).fields("added_tokens_decoder")
    for index in tokens.values:
        token = tokens.fields(index)
        if not (index.isascii() and index.isdigit() and int(index[:9]) <= VOCAB_MAX):
            raise ValueError(f"{tokens.where} {index[:60]!r}: names must be token ids")
        added[int(index)] = AddedToken(token.text("content", longest=TOKEN_LONGEST), special=token.flag("special", False), normalized=False)
    for index in sorted(added):
        tokenizer.add_special_tokens([added[index]]) if added[index].special else tokenizer.add_tokens([added[index]])
        if tokenizer.token_to_id(added[index].content) != index:
            raise ValueError(f"{folder}: added token {added[index].content!r} should be {index}, the vocabulary makes it "
                f"{tokenizer.token_to_id(added[index].content)}")
    return tokenizer


def _settings(folder):
    """Fields of tokenizer_config.json; without any where there is none."""
    path = folder/"tokenizer_config.json"
    return Fields(read_json(path) if path.exists() else {}, path)


def chat_template(folder):
    """Jinja text of a folder's chat template; empty where there is none."""
    if (folder/"chat_template.jinja").exists():
        return read_text(folder/"chat_template.jinja", TEMPLATE_LIMIT)
    settings = _settings(folder)
    if not isinstance(settings.values.get("chat_template"), list):
        return settings.text("chat_template", "", TEMPLATE_LIMIT)
    # Several, by name.
    entries = settings.value("chat_template", lambda entries: all(isinstance(entry, dict) for entry in entries), "text, or a list of objects")
    entries = [Fields(entry, f"{settings.where}: chat_template") for entry in entries]
    named   = {entry.text("name"): entry.text("template", longest=TEMPLATE_LIMIT) for entry in entries}
    return named.get("default", "")


def from_folder(folder):
    """{"tokenizer": bytes, "chat_template": str} of the files in a folder; empty where it has none."""
    folder = pathlib.Path(folder)
    data   = b""
    if (folder/"tokenizer.json").exists():
        data = read_bytes(folder/"tokenizer.json", TOKENIZER_LIMIT)
    elif (folder/"tokenizer.model").exists():
        data = _more_tokens(folder, from_sentencepiece(read_bytes(folder/"tokenizer.model", TOKENIZER_LIMIT))).to_str().encode()
    return {"tokenizer": data, "chat_template": chat_template(folder)}


def check_size(data, vocab):
    """ValueError where a tokenizer (bytes, may be empty) knows tokens beyond the embedding's rows."""
    if not data:
        return
    try:
        largest = max(Tokenizer.from_str(data.decode()).get_vocab(with_added_tokens=True).values(), default=0)
    except Exception as error:  # The library raises plain Exception.
        raise ValueError(f"tokenizer cannot be read ({error})") from None
    if largest >= vocab:
        raise ValueError(f"the tokenizer has tokens up to {largest:,}: the embedding has {vocab:,} rows")
