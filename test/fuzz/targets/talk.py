#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tokenizers and chat templates of others, in processes that can be ended (see run.py).

An input is a byte and what follows: 0, a tokenizer.json; 1, a Jinja template. Either answers or is ended within its bounds, in one line; a
good one works behind it.
"""

import functools
import json

from litetern.host.templates import ChatTemplate
from litetern.model.tokenizer.tokenizer import Tokenizer

from hostile_files import folder_files
from importers import _bytes, _json

TEXT      = "Once upon a time, there was a \u00e9 \U0001f600 <|endoftext|>"
TALK      = [{"role": role, "content": text} for role, text in (("system", "Be kind."), ("user", "Hello"), ("assistant", "Hi"), ("user", "?"))]
TEMPLATES = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content | trim }} [/INST]{% else %} {{ m.content }} {{ eos_token }}"
    "{% endif %}{% endfor %}",
    "{%- set ns = namespace(n=0) -%}{%- for m in messages -%}{%- set ns.n = ns.n + 1 -%}{{ '<|im_start|>' + m.role + '\n' + m.content }}{%- endfor -%}"
    "{%- if ns.n > 9 -%}{{ raise_exception('too many') }}{%- endif -%}",
)
PIECES    = ("{{", "}}", "{%", "%}", "for x in range(9)", "endfor", "if", "endif", "messages", "[0]", "['content']", ".content", "|tojson", "|join", "*9",
    "**9", "~", "loop", "range(10**9)", "lipsum(n=9)", "'x'*10**9", "strftime_now('%Y')", "raise_exception('x')", "namespace()", "set x =", "macro f()",
    "endmacro", "\\x00", "''.__class__", "include 'x'")


@functools.cache
def good():
    return Tokenizer(folder_files()["tokenizer.json"])


def seeds():
    return [b"\0" + folder_files()["tokenizer.json"], *(b"\1" + template.encode() for template in TEMPLATES)]


def mutate(draw, data):
    if data[:1] == b"\0":
        try:
            return b"\0" + json.dumps(_json(draw, json.loads(data[1:]))).encode()
        except (ValueError, RecursionError):
            return b"\0" + _bytes(draw, data[1:])
    place = draw.randrange(1, len(data) + 1)
    if draw.random() < 0.6:
        return data[:place] + draw.choice(PIECES).encode() + data[place + draw.choice((0, 0, 1, 4)):]
    return b"\1" + _bytes(draw, data[1:])


def run(data):
    try:
        if data[:1] == b"\0":
            tokenizer = Tokenizer(data[1:])
            tokens    = tokenizer.encode(TEXT)
            return "tokenizer", len(tokens), len(tokenizer.decode(tokens))
        return "template", ChatTemplate(data[1:].decode("utf-8", "replace"), good(), 0, 0).render(TALK)[0][:40]
    finally:
        assert good().encode("a"), "a good tokenizer behind it"
