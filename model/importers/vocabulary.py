#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a folder says of its tokenizer and chat template; the first as the bytes of one `tokenizers` JSON file, whatever it came from."""

import pathlib

from litetern.model.common.fields import Fields
from litetern.model.common.files import TOKENIZER_LIMIT, read_bytes, read_json, read_text
from litetern.model.formats.config import VOCAB_MAX
from litetern.model.tokenizer.tokenizer import convert, load_tokenizer

TEMPLATE_LIMIT = 1 << 20  # Bytes of a chat template.
TOKEN_LONGEST  = 1024     # Characters of a token.

# Folders ------------------------------------------------------------------------------------------


def _more_tokens(folder):
    """[(id, text, whether it is special)] of what stands beside a tokenizer.model: added_tokens.json, added_tokens_decoder of
    tokenizer_config.json."""
    added = {}
    if (folder/"added_tokens.json").exists():
        stated = Fields(read_json(folder/"added_tokens.json"), folder/"added_tokens.json")
        added  = {stated.whole(text, 0, VOCAB_MAX): (text, True) for text in stated.values}
    tokens = _settings(folder).fields("added_tokens_decoder")
    for index in tokens.values:
        token = tokens.fields(index)
        if not (index.isascii() and index.isdigit() and int(index[:9]) <= VOCAB_MAX):
            raise ValueError(f"{tokens.where} {index[:60]!r}: names must be token ids")
        added[int(index)] = token.text("content", longest=TOKEN_LONGEST), token.flag("special", False)
    return [(index, *token) for index, token in added.items()]


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
        data = convert("from_sentencepiece", data=read_bytes(folder/"tokenizer.model", TOKENIZER_LIMIT), added=_more_tokens(folder))
    return {"tokenizer": data, "chat_template": chat_template(folder)}


def check_size(data, vocab):
    """ValueError where a tokenizer (bytes, may be empty) knows tokens beyond the embedding's rows."""
    if not data:
        return
    largest = load_tokenizer(data, "tokenizer.json").largest
    if largest >= vocab:
        raise ValueError(f"the tokenizer has tokens up to {largest:,}: the embedding has {vocab:,} rows")
