#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The firmware's token loop, built for this machine, in front of a PL: tokens in, logits out, without CPU, link and time.

The same C sources as on the board; its driver's place is taken by `litetern.soc.virtual.pl.driver.Driver`.
"""

import ctypes
import dataclasses

from dataclasses import dataclass

import numpy as np

from litetern.model.common.interface import Function
from litetern.model.formats.engine import EVENT, EVENT_KIND, PL, PL_STATUS, SAMPLING, SOFTMAX
from litetern.model.formats.image import IMAGE_HEADER, read_header
from litetern.soc.accelerator import CORES, READS, WRITES
from litetern.soc.virtual.pl.driver import RANGE_ERRORS, Driver

POLL_CYCLES = 4096     # PL cycles that pass while the engine looks once.
TIMEOUT_US  = 250_000  # Of the PL's time, as the firmware's.
ALIGNMENT   = 4096
IMAGE       = 4096     # Bus address: nothing of ours lies at 0.

# C ------------------------------------------------------------------------------------------------

U32, POINTER, SIZE = ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t

# Part ---------------------------------------------------------------------------------------------


@dataclass
class Part:
    """What the lanes did at once: core, and the int32 results of the lanes one behind the other."""
    core    : str
    results : np.ndarray = None

# Engine -------------------------------------------------------------------------------------------


class Engine:
    """A packed model on a PL.

    image   : bytes.
    config  : AcceleratorConfig of the PL.
    make_pl : function of a memory (uint8, bus address 0 first) that returns a PL (`RtlPL`, `CModelPL`).
    library : the firmware's host library (ctypes.CDLL).
    context : positions.
    ``parts`` lists a `Part` for everything that ran since the last `run` began. Raises ValueError where the engine refuses the image.
    """
    def __init__(self, image, config, make_pl, library, context):
        self.library = library
        for name, result, *arguments in (
            ("engine_bytes",       SIZE),
            ("engine_arena_bytes", SIZE,            POINTER, U32, U32, POINTER),
            ("engine_init",        U32,             POINTER, POINTER, SIZE, POINTER, SIZE, U32, POINTER),
            ("engine_generate",    U32,             POINTER, U32, POINTER, U32, POINTER, U32),
            ("engine_reset",       U32,             POINTER, U32),
            ("engine_logits",      POINTER,         POINTER),
            ("engine_poll",        None,            POINTER, POINTER),
            ("engine_error_text",  ctypes.c_char_p, U32),
        ):
            getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
        data        = np.frombuffer(image, np.uint8)
        self.config = config
        self.vocab  = int(read_header(image)[0]["vocab"])
        self.parts  = []
        self._lanes = {}  # {port: (Part, destination)} of what runs.
        self._done  = {}  # {port: Outcome}
        self._trouble = ""
        # The arena's size depends on the limits of the PL, and on the header alone of the image.
        header  = np.concatenate([data[:IMAGE_HEADER.size], np.zeros(8, np.uint8)])
        arena   = library.engine_arena_bytes(header.ctypes.data, 1, context, ctypes.byref(self._describe(0)))
        start   = IMAGE + -(-len(data)//ALIGNMENT)*ALIGNMENT
        raw     = np.zeros(start + arena + ALIGNMENT, np.uint8)
        skip    = -raw.ctypes.data % ALIGNMENT
        self.memory = raw[skip:skip + start + arena]
        self.memory[IMAGE:IMAGE + len(data)] = data
        base         = self.memory.ctypes.data
        self.pl      = make_pl(self.memory)
        self.driver  = Driver(self.pl)
        self._engine = ctypes.create_string_buffer(library.engine_bytes())
        self._table  = self._describe(base)
        self._check(library.engine_init(self._engine, base + IMAGE, len(data), base + start, arena, 1, ctypes.byref(self._table)))

    def close(self):
        self.pl.close()

    def _check(self, error):
        if error:
            raise ValueError(self.library.engine_error_text(error).decode() + self._trouble)

    def _describe(self, memory):
        """struct engine_pl for this PL."""
        c     = self.config
        table = PL.ctypes(memory=memory, ports=c.ports, queries_max=c.queries_max, rows_max=c.rows_max, row_weights_max=c.row_weights_max,
            topk_max=c.topk_max, timeout_us=TIMEOUT_US)
        for name, kind, _ in PL.members:
            if isinstance(kind, Function):
                setattr(table, name, kind.ctypes(getattr(self, f"_{name}")))
        return table

    # PL -------------------------------------------------------------------------------------------

    def _start(self, _, port, core, list_address, destination, limit):
        if not self._lanes or port in self._lanes:
            self.parts.append(Part(CORES[core], np.zeros(0, np.int32)))
            self._lanes.clear()
        self._lanes[port] = (self.parts[-1], destination)
        self._done.pop(port, None)
        self.driver.start(port, CORES[core], list_address, destination, limit)

    def _status(self, _, port):
        if port not in self._done:
            self.pl.run(POLL_CYCLES)
            outcome = self.driver.outcome(port)
            if "done" not in outcome.flags:
                return PL_STATUS.BUSY
            self._done[port] = outcome
            part, address = self._lanes[port]
            results       = self.memory[address:address + outcome.results].view(np.int32)
            # Lane 0 may end last: its results stand first.
            part.results = np.concatenate([part.results, results] if port else [results, part.results])
            if "error" in outcome.flags:
                self._trouble = f" (lane {port}: {', '.join(sorted(outcome.flags - {'done', 'error'}))})"
        flags = self._done[port].flags
        return PL_STATUS.RANGE if flags & RANGE_ERRORS else PL_STATUS.ERROR if "error" in flags else PL_STATUS.DONE

    def _progress(self, _, port):
        return self._done[port].results if port in self._done else self.driver.read(f"lane{port}_results")

    def _cycles(self, _, port):
        return self._done[port].cycles

    def _abort(self, _, port):
        self.driver.abort(port)
        self.pl.run(POLL_CYCLES)

    def _allow(self, _, number, first, last):
        self.driver.allow_bytes((READS + WRITES)[number], first, last)

    def _resolve(self, _, softmax):
        return {name: getattr(softmax[0], name) for name, _, _ in SOFTMAX.members} == dataclasses.asdict(self.config.attention)

    def _clean(self, *_):
        """CPU and PL share one memory here."""

    _invalidate = _clean

    def _microseconds(self):
        return int(self.pl.cycles/self.config.clock_hz*1e6) & 0xFFFFFFFF

    # Tokens ---------------------------------------------------------------------------------------

    def run(self, tokens):
        """float32 [vocab]: logits behind `tokens`, read from the start. Raises ValueError for tokens that cannot be, RuntimeError
        where the PL fails."""
        library, event = self.library, EVENT.ctypes()
        self.parts     = []
        self._lanes.clear()
        tokens   = np.ascontiguousarray(tokens, np.uint32)
        settings = SAMPLING.ctypes(top_p=1.0, repetition_penalty=1.0, ignore_eos=1)
        self._check(library.engine_reset(self._engine, 0))
        self._check(library.engine_generate(self._engine, 0, tokens.ctypes.data, len(tokens), ctypes.byref(settings), 1))
        logits = None
        while True:
            library.engine_poll(self._engine, ctypes.byref(event))
            if self.pl.fault:
                raise RuntimeError(f"AXI rule broken: {self.pl.fault}")
            if event.kind == EVENT_KIND.ERROR:
                raise RuntimeError(library.engine_error_text(event.error).decode() + self._trouble)
            if event.kind == EVENT_KIND.TOKEN:
                offset = library.engine_logits(self._engine) - self.memory.ctypes.data
                logits = self.memory[offset:offset + 4*self.vocab].view(np.float32).copy()
            if event.kind == EVENT_KIND.IDLE:
                return logits
