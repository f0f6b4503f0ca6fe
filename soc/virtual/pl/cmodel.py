#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The C cores behind the registers of the PL: the bits of the gateware, without its time."""

import ctypes
import dataclasses
import functools

from litetern.model.formats.engine import SOFTMAX, status_names
from litetern.model.formats.stream import BEAT_BYTES, BURST_BEATS, DESCRIPTOR
from litetern.soc.accelerator import CORES, READS, WRITES, AcceleratorConfig
from litetern.soc.zynq.memory_map import OCM_BASE
from litetern.soc.zynq.pl import PL

DESCRIPTORS_MAX = 1 << 20  # No list is longer: one that does not end is a fault.

_LANE   = ("list_address", "destination", "destination_limit")
_BLOCK  = BEAT_BYTES*BURST_BEATS
_RANGES = [f"accelerator_{name}" for name in READS + WRITES]


class _Memory(ctypes.Structure):
    """struct cores_memory."""
    _fields_ = [("base", ctypes.c_void_p), ("high", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("high_first", ctypes.c_uint32),
        ("high_bytes", ctypes.c_uint32), ("range", ctypes.c_uint32*2*len(_RANGES))]


@functools.lru_cache(maxsize=None)
def _describe(config):
    """(registers, fields, values of the registers after the reset) of a PL that is not built."""
    top = PL(config)
    top.finalize()
    stored = {f"{bank}_{csr.name}": csr.storage.reset.value for bank, region in top.csr.regions.items() for csr in region.obj
        if hasattr(csr, "storage")}
    return *top.registers(), stored | {f"accelerator_{name}": value for name, value in top.accelerator.constants.items()}


class CModelPL:
    """Same interface as `litetern.soc.virtual.pl.verilated.RtlPL`, as far as a board uses it. A list is done when its doorbell returns.

    memory  : uint8 [bytes], what the HP ports see from address 0.
    library : the firmware's host library (ctypes.CDLL).
    ocm     : uint8 [bytes], on-chip memory at OCM_BASE. None: there is none.
    """
    fault, irq, idle, base = None, 0, True, 0

    def __init__(self, memory, library, config=AcceleratorConfig(), ocm=None):
        self.memory, self.config, self.ocm = memory, config, ocm
        self.regions = [(0, len(memory)), *([] if ocm is None else [(OCM_BASE, len(ocm))])]
        self.registers, self.fields, values = _describe(config)
        self._names  = {address: name for name, address in self.registers.items()}
        self._values = {name: 0 for name in self.registers} | values
        self._memory = _Memory(memory.ctypes.data, None if ocm is None else ocm.ctypes.data, len(memory), OCM_BASE,
            0 if ocm is None else len(ocm))
        self._run    = ctypes.create_string_buffer(library.cores_run_bytes() + 64)
        self._softmax = None
        if config.attention is not None:
            self._softmax = ctypes.create_string_buffer(library.cores_softmax_bytes())
            if not library.cores_resolve(self._softmax, ctypes.byref(SOFTMAX.ctypes(**dataclasses.asdict(config.attention)))):
                raise ValueError(f"{config.attention}: the C cores have no such resolution")
        self._start  = library.cores_run_list
        self._start.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Memory), ctypes.c_void_p] + [ctypes.c_uint32]*4 + [ctypes.c_void_p]*2
        self._start.restype  = ctypes.c_uint32
        self._counts = (ctypes.c_uint32*2)()
        self._hook   = None
        self.cycles  = 0
        self.clocked = 0

    def close(self):
        pass

    def set_hook(self, hook):
        """hook(write, address, bytes): before a piece is read, after results are written."""
        self._hook = hook

    def read(self, address):
        name = self._names.get(address)
        if name == "accelerator_clock":
            return self.cycles & 0xFFFFFFFF
        return self._values.get(name, 0)

    def write(self, address, value):
        name = self._names.get(address)
        if name is None:
            return
        if name.endswith("_control"):
            if value & 1:
                self._list(name.removesuffix("control"), value >> 4 & 3)
        elif name.endswith((*_LANE, "_first", "_last")):
            self._values[name] = value

    def run(self, max_cycles, until_idle=True, until_irq=False):
        """Time passes, nothing happens."""
        if until_idle:
            return 0
        self.cycles += max_cycles
        return max_cycles

    def _allowed(self, address, length):
        """Whether lanes may read a piece, and it is there."""
        first, last = address//_BLOCK, (address + length - 1)//_BLOCK
        return address + length <= len(self.memory) and any(self._values[f"accelerator_{name}_first"]//_BLOCK <= first and
            last <= self._values[f"accelerator_{name}_last"]//_BLOCK for name in READS)

    def _pieces(self, address):
        """(address, bytes) of each piece of a list, until its end or one that is refused."""
        a, n = DESCRIPTOR["address"], DESCRIPTOR["length"]
        for position in range(address, address + DESCRIPTORS_MAX*BEAT_BYTES, BEAT_BYTES):
            if not self._allowed(position, BEAT_BYTES):
                return
            word   = int.from_bytes(self.memory[position:position + BEAT_BYTES].tobytes(), "little")
            length = (word >> n.lsb & n.mask)*BEAT_BYTES
            piece  = (word >> a.lsb & a.mask)*BEAT_BYTES
            yield position, BEAT_BYTES
            if length == 0 or not self._allowed(piece, length):
                return
            yield piece, length
            if word & 1:
                return

    def _list(self, lane, core):
        start, destination, limit = (self._values[lane + name] for name in _LANE)
        if self._hook is not None:
            for address, length in self._pieces(start):
                self._hook(False, address, length)
        counts = ctypes.addressof(self._counts)
        for i, name in enumerate(_RANGES):
            self._memory.range[i][:] = self._values[f"{name}_first"], self._values[f"{name}_last"]
        errors = self._start(self._run, self._memory, self._softmax, core, start, destination, limit, counts, counts + 4)
        if self._hook is not None and self._counts[0]:
            self._hook(True, destination, self._counts[0])
        fields = self.fields[lane + "status"]
        names  = status_names(CORES[core], errors)
        status = 1 << fields["done"][0]
        if errors:
            status |= 1 << fields["error"][0]
        for name in names:
            if name in fields:
                status |= 1 << fields[name][0]
        self._values[lane + "status"]  = status
        self._values[lane + "results"] = self._counts[0]
        self._values[lane + "beats"]   = self._counts[1]
        self._values[lane + "cycles"]  = self._values[lane + "stalls"] = 0
