#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Chat templates: messages to the tokens that the model was trained to see around them.

A template is a program of the checkpoint's author: it runs in Jinja's sandbox, which reaches neither files nor modules.
"""

import datetime

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROLES = ("system", "user", "assistant")


def _refuse(message):
    raise TemplateError(message)


class ChatTemplate:
    """text: Jinja; tokenizer: of `model.text.load_tokenizer`; bos, eos: token ids. ValueError for a template that is no Jinja."""
    def __init__(self, text, tokenizer, bos, eos):
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.datetime.now().strftime(form)}
        try:
            self.template = environment.from_string(text)
        except TemplateError as error:
            raise ValueError(f"chat template cannot be read ({error})") from None
        self.tokenizer, self.bos = tokenizer, bos
        self.names   = {"bos_token": tokenizer.id_to_token(bos) or "", "eos_token": tokenizer.id_to_token(eos) or ""}
        self.special = {index: token.content for index, token in tokenizer.get_added_tokens_decoder().items() if token.special}

    def render(self, messages):
        """Prompt (str) of messages [{"role", "content"}], up to where the assistant speaks. ValueError for what the template refuses."""
        for message in messages:
            if message["role"] not in ROLES:
                raise ValueError(f"role {message['role']!r}: must be one of {', '.join(ROLES)}")
            for token in self.special.values():
                if token in message["content"]:
                    raise ValueError(f"the text holds {token}, which only the model itself may say: leave it out")
        try:
            return self.template.render(messages=messages, add_generation_prompt=True, tools=None, **self.names)
        except Exception as error:  # A template can fail in any way that an expression can.
            raise ValueError(f"the chat template cannot make a prompt of this ({error})") from None

    def encode(self, messages):
        """Token ids of the prompt, without a leading `bos` (the conversation begins with it by itself).

        Special tokens come from the template alone. ValueError where the texts would add or swallow one.
        """
        encode = lambda text: self.tokenizer.encode(text, add_special_tokens=False).ids
        before = self.tokenizer.encode_special_tokens
        self.tokenizer.encode_special_tokens = False
        try:
            tokens = encode(self.render(messages))
            plain  = encode(self.render([{**message, "content": "x"} for message in messages]))
        finally:
            self.tokenizer.encode_special_tokens = before
        if [token for token in tokens if token in self.special] != [token for token in plain if token in self.special]:
            raise ValueError("the text forms a special token together with the template around it: change its first or last characters")
        return tokens[1:] if tokens[:1] == [self.bos] else tokens
