#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tokenizers of others: a `tokenizers` JSON is a program (regular expressions, replacements), which runs in `litetern.model.common.sandbox`."""

import base64
import functools
import json

from litetern.model.common.sandbox import SECONDS, Sandbox, SandboxEnded, SandboxError

# Kinds of SentencePiece's and GGUF's tokens.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

MEMORY  = 768 << 20  # Bytes beside those of Python and the library: a vocabulary of 256k tokens takes a third of it.
LOADED  = 1 << 20    # Bytes of a tokenizer that may take another second to load.
ENCODED = 1 << 18    # Characters of a text that may take another second.


def _sandbox():
    return Sandbox("litetern.model.tokenizer.tokenizer_process", MEMORY, "tokenizers")


class Tokenizer:
    """data: bytes of a `tokenizers` JSON. All methods raise ValueError where the library fails or takes too much.

    largest : largest token id.
    special : {id: text} of the special tokens.
    bytes   : ids of the tokens that stand for a byte, where the decoder falls back to bytes.
    """
    def __init__(self, data):
        self._json    = data.decode()
        self._sandbox = _sandbox()
        about         = self._load()
        self.largest  = about["largest"]
        self.special  = {int(index): text for index, text in about["special"].items()}
        self.bytes    = frozenset(about["bytes"])

    def _load(self):
        return self._sandbox.ask({"call": "load", "text": self._json}, SECONDS + len(self._json)/LOADED, most=len(self._json) + (1 << 20))

    def _ask(self, call, size=0, **arguments):
        """size: characters of the arguments."""
        try:
            if not self._sandbox.running:
                self._load()
            return self._sandbox.ask({"call": call, **arguments}, SECONDS + size/ENCODED, most=64*size + (1 << 20))
        except SandboxError as error:
            raise ValueError(f"the tokenizer cannot {call} this ({error})") from None

    def encode(self, text, special=False):
        """Token ids of a text (str), without any that stand around every text. special: it may spell special tokens."""
        return self.encode_batch([text], special)[0]

    def encode_batch(self, texts, special=False):
        return self._ask("encode", sum(map(len, texts)), texts=texts, special=special)["ids"]

    def before(self):
        """Ids that the library itself puts before a text (its post-processor)."""
        plain, whole = (self._ask("encode", 1, texts=["a"], special=False, around=around)["ids"][0] for around in (False, True))
        places = [i for i in range(len(whole) - len(plain) + 1) if whole[i:i + len(plain)] == plain]
        return whole[:places[0]] if plain and places else []

    def decode(self, ids, special=False):
        """Text of token ids. special: special tokens are shown, too."""
        ids = [int(index) for index in ids]
        return self._ask("decode", 8*len(ids), ids=ids, special=special)["text"]

    def token(self, index):
        """A token's own text; None where there is none."""
        return self._ask("token", index=index)["token"]


@functools.lru_cache(maxsize=1)
def _loaded(data):
    return Tokenizer(data)


def load_tokenizer(data, where="checkpoint"):
    """Tokenizer of the bytes of a `tokenizers` JSON file; the same one, and its process, for the same bytes. ValueError names `where`."""
    if not data:
        raise ValueError(f"{where}: holds no tokenizer (tokenizer.json)")
    try:
        return _loaded(bytes(data))
    except (SandboxError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: tokenizer cannot be read ({error})") from None


def convert(source, **arguments):
    """Bytes of a `tokenizers` JSON: what a function of `litetern.model.tokenizer.vocabulary`, "from_pieces", makes of a vocabulary. Raises ValueError."""
    if "data" in arguments:
        arguments["data"] = base64.b64encode(arguments["data"]).decode()
    sandbox, size = _sandbox(), len(json.dumps(arguments))
    try:
        answer = sandbox.ask({"call": "convert", "source": source, **arguments}, SECONDS + size/LOADED, most=64*size + (1 << 20))
    except SandboxEnded as error:
        raise ValueError(f"the vocabulary cannot become a tokenizer ({error})") from None
    finally:
        sandbox.close()
    return answer["json"].encode()
