#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Chat templates: messages to the tokens that the model was trained to see around them.

A template is a program of the checkpoint's author: it runs in `litetern.model.common.sandbox`.
"""

from litetern.model.common.sandbox import Sandbox, SandboxError

ROLES  = ("system", "user", "assistant")
MEMORY = 256 << 20  # Bytes beside those of Python and Jinja.


class ChatTemplate:
    """text: Jinja; tokenizer: a `litetern.model.tokenizer.tokenizer.Tokenizer`; bos, eos: token ids or None; add_bos: the conversation begins with bos by itself.
    ValueError for a template that is no Jinja."""
    def __init__(self, text, tokenizer, bos, eos, add_bos=True):
        self.text, self.tokenizer, self.bos = text, tokenizer, bos if add_bos else None
        name          = lambda token: "" if token is None else tokenizer.token(token) or ""
        self.names    = {"bos_token": name(bos), "eos_token": name(eos)}
        self.special  = tokenizer.special
        self._sandbox = Sandbox("litetern.host.template_process", MEMORY, "jinja2")
        self._render()

    def _render(self, *talks):
        """Texts of lists of messages."""
        try:
            renders = [{"messages": talk, "add_generation_prompt": True, "tools": None, **self.names} for talk in talks]
            return self._sandbox.ask({"template": self.text, "renders": renders})["texts"]
        except SandboxError as error:
            raise ValueError(f"the chat template cannot make a prompt of this ({error})" if talks else f"the chat template {error}") from None

    def render(self, *talks):
        """Prompts ([str]) of lists of messages [{"role", "content"}], up to where the assistant speaks. ValueError for what the template
        refuses."""
        for message in (message for talk in talks for message in talk):
            if message["role"] not in ROLES:
                raise ValueError(f"role {message['role']!r}: must be one of {', '.join(ROLES)}")
            for token in self.special.values():
                if token in message["content"]:
                    raise ValueError(f"the text holds {token}, which only the model itself may say: leave it out")
        return self._render(*talks)

    def encode(self, messages):
        """Token ids of the prompt, without a leading `bos` where the conversation begins with it by itself.

        Special tokens come from the template alone. ValueError where the texts would add or swallow one.
        """
        texts         = self.render(messages, [{**message, "content": "x"} for message in messages])
        tokens, plain = self.tokenizer.encode_batch(texts, special=True)
        if [token for token in tokens if token in self.special] != [token for token in plain if token in self.special]:
            raise ValueError("the text forms a special token together with the template around it: change its first or last characters")
        return tokens[1:] if tokens[:1] == [self.bos] else tokens
