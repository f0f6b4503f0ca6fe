#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A user's text against a board's tokens: encoding that injects nothing, decoding that never shows half a character."""

import os
import time

from dataclasses import dataclass, field

from litetern.model.tokenizer.tokenizer import load_tokenizer
from litetern.soc.zynq.memory_map import DDR_BYTES_PER_SECOND

HALF = "\N{REPLACEMENT CHARACTER}"  # What a decoder gives for bytes that are no character, or not all of one yet.
BOM  = "\N{ZERO WIDTH NO-BREAK SPACE}"

# Text ---------------------------------------------------------------------------------------------


def typed(text):
    """A user's text without the byte order mark that some editors begin with. ValueError for what are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:  # Bytes that did not decode have become lone surrogates.
        raise ValueError(f"the text is not UTF-8 (at its character {error.start + 1})") from None
    return text.removeprefix(BOM)


class Vocabulary:
    """Tokenizer of an image (bytes of its JSON), as a conversation needs it."""
    def __init__(self, data, where="image"):
        self.tokenizer = load_tokenizer(data, where)
        self.special   = self.tokenizer.special

    def encode(self, text):
        """Token ids of a user's text. ValueError for text that spells a special token or no characters."""
        text = typed(text)
        for token in self.special.values():
            if token in text:
                raise ValueError(f"the text holds {token}, which only the model itself may say: leave it out")
        return self.tokenizer.encode(text)

    def unknown(self, text):
        """Characters of `text` that no token spells: the model does not see them."""
        text = typed(text)
        seen = self.tokenizer.decode(self.tokenizer.encode(text))
        return "" if seen == text else "".join(sorted(set(text) - set(seen)))


class TextStream:
    """Tokens of an answer to text, whole characters only: all pieces together are what decoding the whole gives.

    Decoders that fall back to bytes judge a run of them as a whole, and turn one that is no UTF-8 into a mark for each of its bytes:
    what is in a run is known at its end.
    """
    def __init__(self, vocabulary, before=()):
        """before: tokens of the text that the answer continues (some decoders treat a first token differently)."""
        self._tokenizer, self._special = vocabulary.tokenizer, vocabulary.special
        self._tokens = [int(token) for token in before]
        self._shown  = self._tokenizer.decode(self._tokens)

    def add(self, token):
        """Text that became complete with `token` (str, often empty)."""
        if token in self._special:  # It shows nothing, and ends no run.
            return ""
        self._tokens.append(int(token))
        if token in self._tokenizer.bytes:
            return ""
        text = self._tokenizer.decode(self._tokens)
        return self._show(text[:-1] if text.endswith(HALF) else text)  # The last character may become another one.

    def end(self):
        """What remains at the end of the answer: marks for what never became a character."""
        return self._show(self._tokenizer.decode(self._tokens))

    def _show(self, text):
        """What `text` adds to what was shown. A character whose first bytes end the text before appears anew when it is whole."""
        if self._shown.startswith(text):
            return ""
        start, self._shown = len(os.path.commonprefix([self._shown, text])), text
        return text[start:]

# Figures ------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """Sums over tokens that passed through the model.

    seconds       : of this computer.
    board_seconds : of the board.
    pl_cycles     : cycles of the PL by part of the model; empty where C cores run, which have none.
    pl_bytes      : bytes that the PL read.
    """
    tokens        : int   = 0
    seconds       : float = 0.0
    board_seconds : float = 0.0
    pl_cycles     : dict  = field(default_factory=dict)
    pl_bytes      : int   = 0

    def add(self, event, seconds):
        """Counts a token event that took `seconds` here."""
        self.tokens        += 1
        self.seconds       += seconds
        self.board_seconds += event.seconds
        self.pl_bytes      += event.pl_bytes
        for part, cycles in event.pl_cycles.items():
            self.pl_cycles[part] = self.pl_cycles.get(part, 0) + cycles


def check_length(tokens, context):
    """ValueError where no context of so many positions can hold the tokens."""
    if len(tokens) > context:
        raise ValueError(f"the text is {len(tokens)} tokens long: the context holds {context}")

# Conversation -------------------------------------------------------------------------------------


class Conversation:
    """One session of a board: the text so far, and what continues it.

    device     : a `litetern.host.link.device.Device` that holds a model.
    vocabulary : Vocabulary of that model.
    bos        : token before each text; None for none.
    virtual    : the board's time is an estimate.
    prompt, answer_figures, total : Figures of the last prompt, of the last answer and of all answers.
    read       : tokens of the text, prompts and answers.
    """
    def __init__(self, device, vocabulary, bos, virtual=False):
        self.device, self.vocabulary, self.virtual = device, vocabulary, virtual
        self.before = [] if bos is None else [bos]
        self.prompt = self.answer_figures = None
        self.total  = Figures()
        self.reset()

    def reset(self):
        """Forgets the text: the next prompt starts anew."""
        self.device.reset()
        self.read, self.ended, self.position = [], "", 0

    @property
    def started(self):
        return bool(self.read)

    @property
    def over(self):
        """The text has come to its end: the next one starts anew."""
        return self.ended in ("eos", "context")

    @property
    def room(self):
        """Positions that are left."""
        return self.device.context - self.position

    def summary(self, figures):
        """Totals of Figures by name; None for what the board cannot tell."""
        cycles  = sum(figures.pl_cycles.values())
        timed   = cycles or not self.device.identity["pl"]  # The virtual board's C model of the PL takes no time.
        seconds = cycles and cycles/self.device.identity["pl_clock_hz"]
        return {
            "tokens"              : figures.tokens,
            "tokens_per_s"        : figures.tokens/figures.seconds if figures.seconds else None,
            "pl_cycles_per_token" : cycles/figures.tokens if cycles else None,
            "wall_fraction"       : figures.pl_bytes/(seconds*DDR_BYTES_PER_SECOND) if cycles else None,
            "board_tokens_per_s"  : figures.tokens/figures.board_seconds if figures.board_seconds and timed else None,
        }

    def encode(self, text):
        """Tokens that `text` adds to the session. ValueError where no context could hold them."""
        tokens = self.vocabulary.encode(text)
        if not self.started:
            tokens = [*self.before, *tokens]
            if not tokens:
                raise ValueError("the text is empty, and no token begins this model's texts: say something")
        check_length(tokens, self.device.context)
        return tokens

    def answer(self, tokens, settings, max_tokens=None, stop=lambda: False):
        """Yields (event, text) for each token of the answer to `tokens` (of `encode`).

        max_tokens : None for as many as the context holds.
        stop       : asked after every event; True ends the answer with the next token.
        Raises ValueError for what the board refuses.
        """
        self.prompt, self.answer_figures, self.ended = Figures(), Figures(), ""
        self.read += tokens
        stream     = TextStream(self.vocabulary, self.read)
        before, stopped = time.monotonic(), False
        for event in self.device.generate(tokens, settings, min(max_tokens or self.device.context, self.device.context)):
            now  = time.monotonic()
            text = ""
            self.position = event.position
            if event.kind == "prompt":
                self.prompt.add(event, now - before)
            elif event.kind == "token":
                self.answer_figures.add(event, now - before)
                self.total.add(event, now - before)
                text = stream.add(event.token)
                self.read.append(event.token)
            if event.end:
                text      += stream.end()
                self.ended = event.end
            yield event, text
            if not stopped and stop():
                stopped = True
                self.device.stop()
            before = time.monotonic()

# Dialogue -----------------------------------------------------------------------------------------


class Dialogue(Conversation):
    """A conversation with a model that was trained to talk: turns as its `litetern.host.templates.ChatTemplate` writes them.

    The board keeps what it has read, so that a turn costs its own tokens. Where the template changes what was said before, or the
    context is full and the oldest turns go, the board reads all of it again.

    system : instruction before all turns, or "".
    """
    def __init__(self, device, vocabulary, bos, template, system="", virtual=False):
        self.template, self.system = template, [{"role": "system", "content": typed(system)}] if system else []
        super().__init__(device, vocabulary, bos, virtual)

    def reset(self):
        super().reset()
        self.turns, self.asked = [], []

    over = False  # An answer ends, the dialogue goes on.

    def encode(self, text):
        """Tokens of the next turn, which says `text`. ValueError where no context could hold it."""
        turns  = [*self.turns, {"role": "user", "content": typed(text)}]
        tokens = [*self.before, *self.template.encode([*self.system, *turns])]
        while len(tokens) >= self.device.context and len(turns) > 1:
            turns  = turns[2:]  # A question and its answer.
            tokens = [*self.before, *self.template.encode([*self.system, *turns])]
        if not tokens:
            raise ValueError("the chat template makes no prompt of this")
        check_length(tokens, self.device.context)
        if tokens[:len(self.read)] != self.read:
            self.reset()
        self.asked = turns
        return tokens[len(self.read):]

    def answer(self, tokens, settings, max_tokens=None, stop=lambda: False):
        reply = ""
        for event, text in super().answer(tokens, settings, max_tokens, stop):
            reply     += text
            self.turns = [*self.asked, {"role": "assistant", "content": reply}]
            yield event, text
