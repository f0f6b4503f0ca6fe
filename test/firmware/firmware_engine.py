#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The firmware's engine with the C cores behind it, driven from Python on any build of `firmware_builds`."""

from dataclasses import dataclass

import numpy as np

from litetern.model.formats.engine import END as END_REASON, ERROR as ENGINE_ERROR, EVENT, EVENT_KIND, PL, SAMPLING
from litetern.model.numerics.sampling import SamplingSettings

IDLE, BUSY, PROMPT, TOKEN, END, ERROR = range(len(EVENT_KIND))
END_EOS, END_LENGTH, END_CONTEXT, END_STOPPED = range(1, len(END_REASON))
(OK, ERROR_IMAGE, ERROR_ALIGNMENT, ERROR_MEMORY, ERROR_PL, ERROR_SESSION, ERROR_BUSY, ERROR_CONTEXT, ERROR_TOKEN, ERROR_SETTINGS, ERROR_EMPTY,
    ERROR_TIMEOUT, ERROR_LIST, ERROR_SHORTLIST, ERROR_RANGE, ERROR_SOFTMAX) = range(len(ENGINE_ERROR))
EVENT_DTYPE = EVENT.dtype(8)  # No pointers: of every machine.


def settings_bytes(settings, ignore_eos=False):
    """struct sampling_settings of a SamplingSettings."""
    return np.array((settings.temperature, settings.top_k, settings.top_p, settings.repetition_penalty, ignore_eos, 0, settings.seed),
        SAMPLING.dtype(8)).tobytes()


@dataclass
class Event:
    """An event as a dict of ints, and the logits (float32 [vocab]) where a token was sampled."""
    fields : dict
    logits : np.ndarray = None

    def __getattr__(self, name):
        return self.fields[name]


class Engine:
    """image: bytes. share: beats that the C cores do for one poll. pl: replaces fields of struct engine_pl. results_bytes: of a memory
    for results, ``results``; 0: there is none.

    `error` is what engine_init returned; `polls` counts calls of engine_poll().
    """
    def __init__(self, build, image, sessions=1, arena_bytes=8 << 20, share=2**32 - 1, pl={}, results_bytes=0):
        build.free()
        self.build, self.vocab = build, int(np.frombuffer(image, "<u4", 12)[11])
        self.image   = build.put(image)
        self.arena   = build.room(arena_bytes)
        self.image_bytes, self.arena_bytes = len(image), arena_bytes
        self.engine  = build.room(build.call("engine_bytes"))
        self.event   = build.room(EVENT_DTYPE.itemsize)
        self.polls   = 0
        self.cores   = cores = build.room(build.call("cores_pl_bytes"))
        self.pl      = build.room(256)
        # Bus addresses are 32 bits wide: on hosts they count from the start of the memory.
        memory = 0 if build.base + len(build.memory) <= 2**32 else build.base
        build.call("cores_pl_init", cores, self.pl, memory, np.uint64(build.base - memory + len(build.memory)), share, 0)
        self.results = build.room(results_bytes)
        for name, value in {"results": self.results, "results_bytes": results_bytes, **pl}.items():
            self.table[name] = value
        self.error = build.call("engine_init", self.engine, self.image, len(image), self.arena, arena_bytes, sessions, self.pl) & 0xFFFFFFFF

    @property
    def table(self):
        """struct engine_pl, in place: a record of numpy."""
        return self.build.view(self.pl, PL.dtype(self.build.pointer_bytes), 1)[0]

    @property
    def ranges(self):
        """uint32 [4, 2], in place: first and last bus address that the C cores may read (image, arena) and write (arena, results)."""
        return self.build.view(self.cores + 2*self.build.pointer_bytes + 16, np.uint32, 8).reshape(4, 2)

    @property
    def context(self):
        return self.build.call("engine_context", self.engine) & 0xFFFFFFFF

    def generate(self, tokens, max_tokens, session=0, settings=SamplingSettings(), ignore_eos=False):
        """Returns the error code of engine_generate()."""
        build, mark = self.build, self.build.next
        data  = build.put(np.asarray([*tokens, 0], np.uint32))
        error = build.call("engine_generate", self.engine, session, data, len(tokens), build.put(settings_bytes(settings, ignore_eos)),
            max_tokens) & 0xFFFFFFFF
        build.next = mark
        return error

    def stop(self, session=0):
        self.build.call("engine_stop", self.engine, session)

    def reset(self, session=0):
        return self.build.call("engine_reset", self.engine, session) & 0xFFFFFFFF

    def position(self, session=0):
        return self.build.call("engine_position", self.engine, session) & 0xFFFFFFFF

    def poll(self):
        """One engine_poll(): an Event."""
        self.polls += 1
        self.build.call("engine_poll", self.engine, self.event)
        record = self.build.view(self.event, EVENT_DTYPE, 1)[0]
        event  = Event({name: record[name].tolist() for name in EVENT_DTYPE.names})
        if event.kind == TOKEN:
            event.logits = self.build.get(self.build.call("engine_logits", self.engine), np.float32, self.vocab)
        return event

    def events(self, polls=10**7):
        """Events other than BUSY until the engine is idle."""
        for _ in range(polls):
            event = self.poll()
            if event.kind == IDLE:
                return
            if event.kind != BUSY:
                yield event
        raise ValueError(f"engine not idle after {polls} polls")
