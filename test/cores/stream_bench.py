#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""One core between a random source and a random sink, in Verilator.

    beats ──[gaps]──► sink ┌──────┐ source ──[stalls]──► results
                           │ core │
                           └──────┘ idle, error

`StreamBench(name, core, errors)` elaborates and builds once; `run` streams beats and waits until the core is idle. Runs
follow each other without a reset, as on the board.
"""

import ctypes

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from migen import Cat, Module, Signal

from litetern.soc.tools.verilate import build, to_verilog

_CPP = Path(__file__).with_name("stream_bench.cpp")


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("cycles", "accepted", "accept_cycles", "stalls", "late", "unstable")]
    _fields_ += [("errors", ctypes.c_uint64*16)]

# Result -------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a run returned.

    data          : uint64 [results].
    last          : bool   [results].
    errors        : {name: pulses}, only those that came.
    cycles        : first beat offered … idle again.
    accepted      : beats that the sink took.
    accept_cycles : first … last beat taken, both included.
    stalls        : cycles with sink.valid & ~sink.ready.
    """
    data          : np.ndarray
    last          : np.ndarray
    errors        : dict = field(default_factory=dict)
    cycles        : int  = 0
    accepted      : int  = 0
    accept_cycles : int  = 0
    stalls        : int  = 0

# Stream bench -------------------------------------------------------------------------------------


def bench_verilog(core, name):
    """Verilog of a core (sink, source, idle, error) as module `name` with the port names that the C++ side drives."""
    top = Module()
    top.submodules.core = core
    ios = {}
    for port, width in (("sink_valid", 1), ("sink_ready", 1), ("sink_data", 64), ("sink_last", 1), ("source_valid", 1),
        ("source_ready", 1), ("source_data", 64), ("source_last", 1), ("idle", 1), ("error", 16)):
        ios[port] = Signal(width, name_override=port)
    top.comb += [
        core.sink.valid.eq(ios["sink_valid"]),
        core.sink.data.eq(ios["sink_data"]),
        core.sink.last.eq(ios["sink_last"]),
        ios["sink_ready"].eq(core.sink.ready),
        core.source.ready.eq(ios["source_ready"]),
        Cat(ios["source_valid"], ios["source_data"], ios["source_last"]).eq(Cat(core.source.valid, core.source.data, core.source.last)),
        ios["idle"].eq(core.idle),
        ios["error"].eq(core.error),
    ]
    return to_verilog(top, ios.values(), name)


class StreamBench:
    """A core in Verilator.

    name   : names the build.
    core   : Migen/LiteX module with ``sink``, ``source``, ``idle``, ``error``; or Verilog text from `bench_verilog` (perhaps mutated).
    errors : names of the bits of ``error``, lowest first.
    vcd    : writes a trace there (a build of its own).
    cflags : further compiler flags; ``-O0`` builds a design that runs only shortly in a fifth of the time.
    """
    def __init__(self, name, core, errors=(), vcd=None, cflags=()):
        verilog     = core if isinstance(core, str) else bench_verilog(core, name)
        self.errors = tuple(errors)
        self._lib   = lib = ctypes.CDLL(str(build(name, verilog, cpp=[_CPP], cflags=cflags, trace=vcd is not None)))
        lib.bench_open.restype   = ctypes.c_void_p
        lib.bench_open.argtypes  = [ctypes.c_char_p]
        lib.bench_close.argtypes = [ctypes.c_void_p]
        lib.bench_reset.argtypes = [ctypes.c_void_p]
        lib.bench_run.argtypes   = [ctypes.c_void_p]*3 + [ctypes.c_uint64] + [ctypes.c_double]*2 + [ctypes.c_uint64]*2 + [ctypes.c_void_p]
        for function, result in (("bench_count", ctypes.c_uint64), ("bench_data", ctypes.c_void_p), ("bench_last", ctypes.c_void_p)):
            getattr(lib, function).restype  = result
            getattr(lib, function).argtypes = [ctypes.c_void_p]
        self._handle = lib.bench_open(str(vcd).encode() if vcd else None)

    def run(self, beats, lasts=None, gap_probability=0.0, stall_probability=0.0, seed=1, max_cycles=None):
        """Streams `beats` (uint64 [n]) and returns a `Run` once the core is idle.

        lasts : bool [n], sink.last of each beat; by default only the last one's.
        Raises TimeoutError after `max_cycles` (by default generous for the probabilities), AssertionError where the core said idle
        too early or changed a result that was waiting.
        """
        beats = np.ascontiguousarray(beats, dtype=np.uint64)
        if lasts is None:
            lasts      = np.zeros(len(beats), dtype=np.uint8)
            lasts[-1:] = 1
        lasts = np.ascontiguousarray(lasts, dtype=np.uint8)
        if len(lasts) != len(beats):
            raise ValueError(f"{len(lasts)} lasts for {len(beats)} beats: must be as many")
        if max_cycles is None:
            max_cycles = int(20000 + 8*len(beats)/(1 - gap_probability)/(1 - stall_probability))
        stats = _Stats()
        late  = self._lib.bench_run(self._handle, beats.ctypes.data, lasts.ctypes.data, len(beats), gap_probability, stall_probability,
            seed, max_cycles, ctypes.byref(stats))
        if late:
            self.reset()
            raise TimeoutError(f"core not idle after {max_cycles} cycles ({len(beats)} beats offered)")
        count = self._lib.bench_count(self._handle)
        data  = np.empty(count, dtype=np.uint64)
        last  = np.empty(count, dtype=np.uint8)
        if count:
            ctypes.memmove(data.ctypes.data, self._lib.bench_data(self._handle), 8*count)
            ctypes.memmove(last.ctypes.data, self._lib.bench_last(self._handle), count)
        if stats.late:
            raise AssertionError("the core said idle while results or errors were still to come")
        if stats.unstable:
            raise AssertionError(f"source changed or dropped a waiting result {stats.unstable} times")
        names  = self.errors + tuple(f"bit {i}" for i in range(len(self.errors), 16))
        errors = {names[i]: n for i, n in enumerate(stats.errors) if n}
        return Run(data, last.astype(bool), errors, stats.cycles, stats.accepted, stats.accept_cycles, stats.stalls)

    def reset(self):
        self._lib.bench_reset(self._handle)

    def close(self):
        """Frees the model (and finishes the trace)."""
        if self._handle:
            self._lib.bench_close(self._handle)
            self._handle = None
