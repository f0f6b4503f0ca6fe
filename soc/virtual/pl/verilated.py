#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The real gateware as a Python object: the Verilated PL top, its memory and the CPU's accesses through GP0."""

import ctypes

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.tools.verilate import build
from litetern.soc.zynq.memory_map import DDR_BYTES_PER_SECOND, OCM_BASE, OCM_BYTES
from litetern.soc.zynq.pl import elaborate, pl_verilog

PORTS_MAX = 4
_FOLDER   = Path(__file__).resolve().parent

# Parameters ---------------------------------------------------------------------------------------


@dataclass
class MemoryParameters:
    """The memory model.

    bytes_per_second : what the DDR moves, all ports, directions and CPU misses together.
    read_latency     : PL cycles from an accepted address to its first beat.
    write_latency    : PL cycles from a burst's last beat in the DDR to the answer.
    fifo_beats       : of each port and direction, up to 256.
    outstanding      : bursts that a port accepts.
    stall_*          : probability per cycle that the port withholds ready (ar, aw, w) or valid (r, b), seeded by `seed`.
    """
    bytes_per_second : float = DDR_BYTES_PER_SECOND
    read_latency     : int   = 40
    write_latency    : int   = 8
    fifo_beats       : int   = 128
    outstanding      : int   = 8
    seed             : int   = 1
    stall_ar         : float = 0.0
    stall_r          : float = 0.0
    stall_aw         : float = 0.0
    stall_w          : float = 0.0
    stall_b          : float = 0.0

    def __post_init__(self):
        if not 1 <= self.fifo_beats <= 256:
            raise ValueError(f"fifo_beats = {self.fifo_beats}: must be 1 to 256")
        if self.outstanding < 1 or self.read_latency < 1:
            raise ValueError(f"outstanding = {self.outstanding}, read_latency = {self.read_latency}: must be at least 1")
        for name in ("stall_ar", "stall_r", "stall_aw", "stall_w", "stall_b"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must lie in [0, 1)")


class _Parameters(ctypes.Structure):
    _fields_ = [("bytes_per_cycle", ctypes.c_double)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("read_latency", "write_latency", "fifo_beats", "outstanding", "seed")]
    _fields_ += [(name, ctypes.c_double) for name in ("stall_ar", "stall_r", "stall_aw", "stall_w", "stall_b")]


class _Counters(ctypes.Structure):
    _fields_ = [("cycles", ctypes.c_uint64), ("clocked", ctypes.c_uint64)]
    _fields_ += [(name, ctypes.c_uint64*PORTS_MAX) for name in ("read_beats", "write_beats")]


HOOK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32)

# Build --------------------------------------------------------------------------------------------


def _library(pl, verilog, name):
    """Builds a PL, or finds it in the cache; returns it loaded."""
    path = build(name, verilog, cpp=[_FOLDER/"pl.cpp"], top="pl",
        cflags=[f"-DPORTS={len(pl.hp)}", f"-DOCM_BASE={OCM_BASE:#x}u"])
    lib  = ctypes.CDLL(str(path))
    for function, result, *arguments in (
        ("pl_open",        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p,
                           ctypes.POINTER(_Parameters)),
        ("pl_close",       None),
        ("pl_read",        ctypes.c_uint32, ctypes.c_uint32),
        ("pl_write",       None,            ctypes.c_uint32, ctypes.c_uint32),
        ("pl_run",         ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_int),
        ("pl_irqs",        ctypes.c_uint32),
        ("pl_idle",        ctypes.c_int),
        ("pl_counters",    ctypes.POINTER(_Counters)),
        ("pl_parameters",  ctypes.POINTER(_Parameters)),
        ("pl_fault",       ctypes.c_char_p),
        ("pl_set_hook",    None,            ctypes.c_void_p),
        ("pl_cpu_traffic", None,            ctypes.c_uint64),
        ("pl_inject",      None,            *[ctypes.c_uint32]*5),
    ):
        getattr(lib, function).restype  = result
        getattr(lib, function).argtypes = ([] if function == "pl_open" else [ctypes.c_void_p]) + arguments
    return lib

# RTL PL -------------------------------------------------------------------------------------------


class RtlPL:
    """The Verilated PL beside `memory`.

    memory     : uint8 [bytes], contiguous: what the HP ports read and write (the DMA side where caches are modelled).
    config     : AcceleratorConfig of the gateware.
    base       : physical address of memory[0].
    parameters : MemoryParameters.
    top        : another PL of this configuration, with `name` for its build.
    ocm        : uint8 [262144]: on-chip memory at `OCM_BASE`, which takes no bandwidth from the DDR. None: there is nothing.

    ``registers`` is {name: address}, ``fields`` {register: {field: (lowest bit, bits)}}.
    Time advances in `read` and `write` (some cycles each) and in `run`. A broken AXI rule stops time and stays in `fault`.
    """
    def __init__(self, memory, config=AcceleratorConfig(), base=0, parameters=None, top=None, name="pl", ocm=None):
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous or not memory.flags.writeable:
            raise ValueError(f"memory of {memory.dtype} {memory.shape}: must be a writeable, contiguous uint8 vector")
        if ocm is not None and (ocm.dtype != np.uint8 or ocm.shape != (OCM_BYTES,) or not ocm.flags.c_contiguous):
            raise ValueError(f"on-chip memory of {ocm.dtype} {ocm.shape}: must be a contiguous uint8 vector of {OCM_BYTES}")
        if base + len(memory) > (2**32 if ocm is None else OCM_BASE):
            raise ValueError(f"memory of {len(memory)} bytes at {base:#x}: must end within 4 GB")
        self.config, self.base, self.memory, self.ocm = config, base, memory, ocm
        self.parameters = p = parameters or MemoryParameters()
        top, verilog = elaborate(config) if top is None else (top, pl_verilog(top))
        self._lib    = _library(top, verilog, name)
        self.registers, self.fields = top.registers()
        self._clock  = self.registers["accelerator_clock"]
        self._hook   = None
        parameters   = _Parameters(p.bytes_per_second/config.clock_hz, p.read_latency, p.write_latency, p.fifo_beats, p.outstanding, p.seed,
            p.stall_ar, p.stall_r, p.stall_aw, p.stall_w, p.stall_b)
        self._handle = self._lib.pl_open(memory.ctypes.data, len(memory), base, None if ocm is None else ocm.ctypes.data, parameters)
        self._counters = self._lib.pl_counters(self._handle).contents

    def close(self):
        if self._handle:
            self._lib.pl_close(self._handle)
            self._handle = None

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    # CPU side -------------------------------------------------------------------------------------

    def read(self, address):
        """A load of the CPU through GP0 (32 bits). The free-running clock register also counts the time that was skipped."""
        value = self._lib.pl_read(self._handle, address)
        if address == self._clock:
            value += self.cycles - self._counters.clocked
        return value & 0xFFFFFFFF

    def write(self, address, value):
        """A store of the CPU through GP0 (32 bits)."""
        self._lib.pl_write(self._handle, address, value & 0xFFFFFFFF)

    def run(self, max_cycles, until_idle=True, until_irq=False):
        """Lets up to `max_cycles` pass and returns how many did.

        until_idle : stop as soon as nothing runs; otherwise idle time is skipped, not clocked, and counted.
        until_irq  : stop as soon as an interrupt is pending.
        """
        return self._lib.pl_run(self._handle, max_cycles, until_idle, until_irq)

    def cpu_traffic(self, bytes):
        """The CPU's caches have moved so many bytes: the DDR is busy with them first."""
        self._lib.pl_cpu_traffic(self._handle, bytes)

    # Observation ----------------------------------------------------------------------------------

    @property
    def irq(self):
        """Pending interrupts, a bit per lane."""
        return self._lib.pl_irqs(self._handle)

    @property
    def idle(self):
        return bool(self._lib.pl_idle(self._handle))

    @property
    def fault(self):
        """Text of the first broken AXI rule, or None."""
        return self._lib.pl_fault(self._handle).decode() or None

    @property
    def cycles(self):
        """PL clock cycles since the start, skipped ones included."""
        return self._counters.cycles

    @property
    def regions(self):
        """(address, bytes) of the memories that the lanes reach."""
        return [(self.base, len(self.memory)), *([] if self.ocm is None else [(OCM_BASE, OCM_BYTES)])]

    @property
    def clocked(self):
        """PL clock cycles that were simulated."""
        return self._counters.clocked

    @property
    def read_beats(self):
        """Beats per port on the R channel: list [ports]."""
        return list(self._counters.read_beats[:self.config.ports])

    @property
    def write_beats(self):
        """Beats per port on the W channel: list [ports]."""
        return list(self._counters.write_beats[:self.config.ports])

    # Models of others -----------------------------------------------------------------------------

    def set_hook(self, hook):
        """Calls hook(write, address, bytes) once per burst: before a read, after a write. None: none.

        A Python callable, or the address (int) of a C function ``void (int write, uint32_t address, uint32_t bytes)``.
        """
        if hook is not None and not isinstance(hook, int):
            hook = HOOK(hook)
        self._hook = hook  # Keeps it alive.
        self._lib.pl_set_hook(self._handle, hook if hook is None or isinstance(hook, int) else ctypes.cast(hook, ctypes.c_void_p))

    def inject(self, read_errors=(0, 0), write_errors=(0, 0), silent=0):
        """Faults of the memory, until the next call: address ranges [first, last) that answer with SLVERR, and ports (bit mask)
        that accept and answer nothing."""
        self._lib.pl_inject(self._handle, *read_errors, *write_errors, silent)

    def stall(self, **probabilities):
        """Changes stall probabilities at run time: ``stall(r=0.5, aw=0.1)``."""
        parameters = self._lib.pl_parameters(self._handle).contents
        for name, probability in probabilities.items():
            if name not in ("ar", "r", "aw", "w", "b") or not 0 <= probability < 1:
                raise ValueError(f"stall {name} = {probability}: must be ar, r, aw, w or b in [0, 1)")
            setattr(parameters, f"stall_{name}", probability)
