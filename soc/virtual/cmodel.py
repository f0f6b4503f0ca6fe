#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The C cores behind the registers of the PL: the bits of the gateware, without its time."""

import ctypes
import functools

from model.stream import BEAT_BYTES, DESCRIPTOR
from soc.accelerator import CORES, AcceleratorConfig
from soc.pl import PL
from soc.zynq import OCM_BASE

DESCRIPTORS_MAX = 1 << 20  # No list is longer: one that does not end is a fault.

# Bits of cores_run.h's enum cores_error.
READER_ERRORS = {0: "reader_descriptor", 1: "reader_response", 2: "writer_overrun"}
CORE_ERRORS   = {8: "magic", 9: "rows", 10: "beats", 11: "format", 12: "vectors", 13: "reduce", 14: "queries", 15: "length", 16: "buffer",
                 17: "truncated"}

_LANE = ("list_address", "destination", "destination_limit")


@functools.lru_cache(maxsize=None)
def _describe(config):
    """(registers, fields, values of the registers that tell what was built) of a PL that is not built."""
    top = PL(config)
    top.finalize()
    return *top.registers(), {f"accelerator_{name}": value for name, value in top.accelerator.constants.items()}


class CModelPL:
    """Same interface as `soc.virtual.pl.RtlPL`, as far as a board uses it. A list is done when its doorbell returns.

    memory  : uint8 [bytes], what the HP ports see from address 0.
    library : the firmware's host library (ctypes.CDLL).
    ocm     : uint8 [bytes], on-chip memory at OCM_BASE that takes results, right behind `memory` in one array. None: there is none.
    """
    fault, irq, idle = None, 0, True

    def __init__(self, memory, library, config=AcceleratorConfig(), ocm=None):
        if ocm is not None and ocm.ctypes.data != memory.ctypes.data + len(memory):
            raise ValueError("on-chip memory: must lie right behind the other one")
        self.memory, self.config, self.ocm = memory, config, ocm
        self.registers, self.fields, constants = _describe(config)
        self._names  = {address: name for name, address in self.registers.items()}
        self._values = {name: 0 for name in self.registers} | constants
        self._run    = ctypes.create_string_buffer(library.cores_run_bytes() + 64)
        self._start  = library.cores_run_list
        self._start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64] + [ctypes.c_uint32]*4 + [ctypes.c_void_p]*2
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
        elif name.endswith(_LANE):
            self._values[name] = value

    def run(self, max_cycles, until_idle=True, until_irq=False):
        """Time passes, nothing happens."""
        if until_idle:
            return 0
        self.cycles += max_cycles
        return max_cycles

    def _pieces(self, address):
        """(address, bytes) of each piece of a list, until its end or one that cannot be."""
        a, n = DESCRIPTOR["address"], DESCRIPTOR["length"]
        for position in range(address, min(address + DESCRIPTORS_MAX*BEAT_BYTES, len(self.memory) - BEAT_BYTES + 1), BEAT_BYTES):
            word   = int.from_bytes(self.memory[position:position + BEAT_BYTES].tobytes(), "little")
            length = (word >> n.lsb & n.mask)*BEAT_BYTES
            yield position, BEAT_BYTES
            if length == 0:
                return
            yield (word >> a.lsb & a.mask)*BEAT_BYTES, length
            if word & 1:
                return

    def _list(self, lane, core):
        start, destination, limit = (self._values[lane + name] for name in _LANE)
        if self._hook is not None:
            for address, length in self._pieces(start):
                self._hook(False, address, length)
        counts = ctypes.addressof(self._counts)
        target, reach = destination, len(self.memory)
        if self.ocm is not None and destination >= OCM_BASE:
            target, reach = reach + destination - OCM_BASE, reach + len(self.ocm)
        errors = self._start(self._run, self.memory.ctypes.data, reach, core, start, target, limit, counts, counts + 4)
        if self._hook is not None and self._counts[0]:
            self._hook(True, destination, self._counts[0])
        fields = self.fields[lane + "status"]
        names  = [READER_ERRORS[bit] for bit in READER_ERRORS if errors >> bit & 1]
        names += [f"{CORES[core]}_{name}" for bit, name in CORE_ERRORS.items() if errors >> bit & 1]
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
