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
from litetern.model.formats.marks import ENDS_MAX
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


# Tokens around texts ------------------------------------------------------------------------------

# Tokens that end what a turn or a text says, by the names that chat templates and base models give them.
ENDS   = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<|end_of_text|>", "<|endoftext|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<end_of_turn>",
    "<end_of_utterance>", "<|end_of_turn|>", "<｜end▁of▁sentence｜>", "<EOT>")
LLAMAS = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast")  # Classes that put bos before texts by themselves.


def unique(tokens, named=()):
    """tuple of the tokens that are none of before, None left out; with those known by their names alone, as far as there is room."""
    stated = tuple(dict.fromkeys(token for token in tokens if token is not None))
    return stated + unique(token for token in named if token not in stated)[:max(ENDS_MAX - len(stated), 0)] if named else stated


def marks(folder, config, vocab, tokenizer, chat_template):
    """{"bos", "add_bos", "ends"} (`litetern.model.formats.marks`) of a folder, as transformers' tokenizer and its generate() take them.

    config: Fields of config.json; tokenizer, chat_template: of `from_folder`. Ids: generation_config.json's, else config.json's, and with a chat
    template the tokens that end its turns.
    """
    path       = folder/"generation_config.json"
    generation = Fields(read_json(path) if path.exists() else {}, "generation_config.json")
    settings   = _settings(folder)
    wholes     = lambda fields, name: fields.wholes(name, 0, vocab - 1, [])
    stated     = {name: wholes(generation, name) or other for name in ("eos_token_id", "bos_token_id") for other in [wholes(config, name)]}
    loaded     = load_tokenizer(tokenizer, "tokenizer.json") if tokenizer else None
    ids        = {text: token for token, text in loaded.special.items()} if loaded else {}

    def named(name):
        """Id of a token that tokenizer_config.json names; None where it does not, or the tokenizer does not know it."""
        value = settings.values.get(name)
        text  = settings.fields(name).text("content", longest=TOKEN_LONGEST) if isinstance(value, dict) else settings.text(name, "", TOKEN_LONGEST)
        return ids.get(text)

    eos  = named("eos_token")
    ends = stated["eos_token_id"]
    if chat_template or not ends or eos in ends:
        ends = [eos, *ends]
    turns   = [ids.get(name) for name in ENDS if chat_template and name in chat_template]
    none    = "bos_token" in settings.values and settings.values["bos_token"] is None  # As Qwen's: config.json's is of the training.
    bos     = None if none else next(iter(unique([named("bos_token"), *stated["bos_token_id"]])), None)
    before  = loaded.before() if loaded else []
    if len(before) > 1:
        raise ValueError(f"tokenizer.json puts {len(before)} tokens before a text: one is known")
    implied = "" if settings.values and (folder/"tokenizer.json").exists() else LLAMAS[0]
    default = bool(before) or bos is not None and settings.text("tokenizer_class", implied) in LLAMAS
    add_bos = settings.flag("add_bos_token", default)
    return {"bos": before[0] if before and add_bos else bos, "add_bos": add_bos, "ends": unique(ends, turns)}

# Size ---------------------------------------------------------------------------------------------


def check_size(data, vocab):
    """ValueError where a tokenizer (bytes, may be empty) knows tokens beyond the embedding's rows."""
    if not data:
        return
    largest = load_tokenizer(data, "tokenizer.json").largest
    if largest >= vocab:
        raise ValueError(f"the tokenizer has tokens up to {largest:,}: the embedding has {vocab:,} rows")
