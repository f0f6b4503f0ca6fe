#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A device for tests of the chat alone: the numpy definition behind the interface of `litetern.host.link.device.Device`."""

from litetern.host.link.device import Event
from litetern.model.formats.image import read_image
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.sampling import Sampler


class ExactDevice:
    """Answers as a board would, each pass costing `cycles` (0: C cores); `answer` replaces what is sampled."""
    def __init__(self, image, cycles=60000, answer=None):
        self.model, self.cycles, self.scripted = read_image(image), cycles, answer
        self.exact    = ExactModel(self.model)
        self.context  = self.exact.context
        self.identity = {"firmware": "numpy", "pl": int(cycles > 0), "pl_ports": 2, "pl_clock_hz": 125_000_000}
        self.reset()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def upload(self, path, progress=None):
        pass

    def reset(self):
        self.exact.reset()
        self.seen, self.pending = [], []

    def stop(self):
        self.stopped = True

    def _event(self, kind, token, end=""):
        return Event(kind, int(token), end, self.exact.position, pl_cycles={"qkv": self.cycles} if self.cycles else {}, pl_bytes=700_000,
            seconds=self.cycles/125e6 + 1e-3)

    def generate(self, tokens, sampling, max_tokens):
        self.stopped, sampler = False, Sampler(sampling)
        feed, self.pending = [*self.pending, *tokens], []
        for count, token in enumerate(feed):
            logits = self.exact.step([token])[0]
            self.seen.append(token)
            if count + 1 < len(feed):
                yield self._event("prompt", token)
        for count in range(max_tokens):
            token = self.scripted[count] if self.scripted else sampler.choose(logits, self.seen)
            end   = ("eos" if token in self.model.ends else "stopped" if self.stopped else "length" if count + 1 == max_tokens
                else "context" if self.exact.position == self.context else "")
            self.pending = [token]
            yield self._event("token", token, end)
            if end:
                return
            logits, self.pending = self.exact.step([token])[0], []
            self.seen.append(token)
