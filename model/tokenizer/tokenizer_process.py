#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The library `tokenizers` in the process of a `litetern.model.tokenizer.tokenizer.Tokenizer` (`litetern.model.common.sandbox`): {"call": name of a function, its arguments}."""

import base64
import json
import re

from tokenizers import Tokenizer

from litetern.model.tokenizer import vocabulary

BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")  # A token that stands for a byte, where the decoder falls back to bytes.

_loaded = None

# Functions ----------------------------------------------------------------------------------------


def load(text):
    """Takes the tokenizer of a JSON text for the calls that follow. Cutting and padding texts, and merges left to chance, were of its
    training: off. ValueError where a token was added under a number that nothing has: the library takes the next one, another row."""
    global _loaded
    _loaded = Tokenizer.from_str(text)
    _loaded.no_truncation()
    _loaded.no_padding()
    if getattr(_loaded.model, "dropout", None) is not None:
        _loaded.model.dropout = None
    tokens = _loaded.get_vocab(with_added_tokens=True)
    for added in json.loads(text).get("added_tokens") or ():
        if added["id"] not in tokens.values():
            raise ValueError(f"the added token {added['content']!r} states number {added['id']}, where the tokenizer has {tokens[added['content']]}")
    falls  = b'"ByteFallback"' in (_loaded.decoder.__getstate__() if _loaded.decoder else b"")
    return {
        "largest" : max(tokens.values(), default=0),
        "special" : {index: token.content for index, token in _loaded.get_added_tokens_decoder().items() if token.special},
        "bytes"   : [index for token, index in tokens.items() if falls and BYTE.fullmatch(token)],
    }


def encode(texts, special, around=False):
    """special: whether a text may spell special tokens; around: with the tokens that the library itself puts around a text."""
    _loaded.encode_special_tokens = not special
    return {"ids": [_loaded.encode(text, add_special_tokens=around).ids for text in texts]}


def decode(ids, special):
    """special: whether special tokens are shown."""
    return {"text": _loaded.decode(ids, skip_special_tokens=not special)}


def token(index):
    return {"token": _loaded.id_to_token(index)}


def convert(source, **arguments):
    """JSON text of the tokenizer that a function of `litetern.model.tokenizer.vocabulary` makes of a vocabulary; data: bytes in base64."""
    if "data" in arguments:
        arguments["data"] = base64.b64decode(arguments["data"])
    return {"json": getattr(vocabulary, source)(**arguments).to_str()}


CALLS = {function.__name__: function for function in (load, encode, decode, token, convert)}


def handle(request):
    return CALLS[request.pop("call")](**request)
