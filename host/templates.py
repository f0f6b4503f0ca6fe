#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Chat templates: messages to the tokens that the model was trained to see around them.

A template is a program of the checkpoint's author: it runs in `host.sandbox`.
"""

from host.sandbox import Sandbox, SandboxError

ROLES = ("system", "user", "assistant")


class ChatTemplate:
    """text: Jinja; tokenizer: of `model.text.load_tokenizer`; bos, eos: token ids. ValueError for a template that is no Jinja."""
    def __init__(self, text, tokenizer, bos, eos):
        self.text, self.tokenizer, self.bos = text, tokenizer, bos
        self.names    = {"bos_token": tokenizer.id_to_token(bos) or "", "eos_token": tokenizer.id_to_token(eos) or ""}
        self.special  = {index: token.content for index, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._sandbox = Sandbox()
        self._render()

    def _render(self, *talks):
        """Texts of lists of messages."""
        try:
            return self._sandbox.render(self.text, *({"messages": talk, "add_generation_prompt": True, "tools": None, **self.names}
                for talk in talks))
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
        """Token ids of the prompt, without a leading `bos` (the conversation begins with it by itself).

        Special tokens come from the template alone. ValueError where the texts would add or swallow one.
        """
        before = self.tokenizer.encode_special_tokens
        self.tokenizer.encode_special_tokens = False
        try:
            tokens, plain = (self.tokenizer.encode(text, add_special_tokens=False).ids
                for text in self.render(messages, [{**message, "content": "x"} for message in messages]))
        finally:
            self.tokenizer.encode_special_tokens = before
        if [token for token in tokens if token in self.special] != [token for token in plain if token in self.special]:
            raise ValueError("the text forms a special token together with the template around it: change its first or last characters")
        return tokens[1:] if tokens[:1] == [self.bos] else tokens
