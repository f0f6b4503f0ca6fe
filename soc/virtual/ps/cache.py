#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Caches of the virtual board: what the CPU sees and what the DDR holds are two arrays, and only maintenance moves lines between them.

A line is in one of these states ::

    clean   both arrays agree
    dirty   the CPU has written it: the arrays differ               → cache_clean(), or an eviction at any time
    stale   the PL has written it: the CPU's copy holds poison      → cache_invalidate()
    armed   beside these: a list runs that may write the line, and the CPU must not

Faults: the PL reads a dirty line, writes one that the CPU has written, or the CPU reads a stale one. A copy that the CPU may have fetched early is
taken for fetched: real hardware is right by luck only. *Fast*: the firmware's maintenance routines are carried out whole, and a missing
invalidation shows as poison in the CPU's data. *Strict*: the routines run, and each of their CP15 and PL310 operations acts on its line in its level; loads
from lines that the PL has written are watched.
"""

import ctypes

from pathlib import Path

import numpy as np

from litetern.soc.virtual.pl import native

LINE      = 32
EVICTIONS = 4  # Lines tried at each doorbell.
_BLOCK    = 1 << 20

# The cache operations by address: word of `mcr p15, 0, r0, c7, …` → (clean, invalidate). The register number stands in bits 12 to 15.
L1_OPERATIONS = {0xEE070F3A: (True, False), 0xEE070F36: (False, True), 0xEE070F3E: (True, True)}


class _State(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("cpu", "dma", "shadow", "state")]
    _fields_ += [(name, ctypes.c_uint64) for name in ("bytes", "ddr", "random", "high", "cleaned", "invalidated", "read", "written", "evicted")]
    _fields_ += [("ranges", ctypes.c_uint32*128), ("range", ctypes.c_uint32), ("fault", ctypes.c_char*160)]


def _zeros(bytes):
    """uint8 [bytes] of zeros that cost memory only where they are touched."""
    return np.zeros(bytes, np.uint8)


class CacheModel:
    """cpu, dma           : uint8 [bytes], the two views of the memory from address 0.
    cpu_high, dma_high : uint8 [high_bytes], those of the memory at `high`, where there is one. It lies right behind in the same array.
    """
    def __init__(self, bytes, seed=1, high=0xFFFF_FFFF, high_bytes=0):
        total = bytes + high_bytes
        self._cpu, self._dma, self._shadow, self._lines = _zeros(total), _zeros(total), _zeros(total), _zeros(total//LINE)
        self.cpu, self.cpu_high = self._cpu[:bytes], self._cpu[bytes:]
        self.dma, self.dma_high = self._dma[:bytes], self._dma[bytes:]
        self._lib   = native.load(Path(__file__).with_name("cache.c"))
        self._state = _State(*(array.ctypes.data for array in (self._cpu, self._dma, self._shadow, self._lines)), total, bytes, seed or 1, high)
        self._self  = ctypes.byref(self._state)
        for name, count in (("clean_range", 2), ("flush_range", 2), ("invalidate_range", 2), ("l1", 3), ("l2", 3), ("dma_read", 2),
            ("dma_written", 2), ("arm", 2), ("disarm", 2), ("cpu_read", 2), ("evict", 1)):
            setattr(self, name, self._bind(f"cache_{name}", count))
        self.select()

    def _bind(self, name, count):
        function = getattr(self._lib, name)
        function.argtypes = [ctypes.c_void_p] + [ctypes.c_uint32]*count
        return lambda *arguments: function(self._self, *arguments)

    def select(self):
        """This model answers the PL's hook from now on."""
        self._lib.cache_select(self._self)

    @property
    def hook(self):
        """Address of the C function for ``RtlPL.set_hook``."""
        return ctypes.cast(self._lib.cache_hook, ctypes.c_void_p).value

    @property
    def fault(self):
        """Text of the first fault, or None."""
        return self._state.fault.decode() or None

    @property
    def counters(self):
        """Lines so far: {"cleaned", "invalidated", "read", "written", "evicted"}."""
        return {name: getattr(self._state, name) for name in ("cleaned", "invalidated", "read", "written", "evicted")}

    def preload(self, address, data):
        """Puts bytes where both sides see them, as a boot loader does that flushes its caches."""
        data = np.frombuffer(data, np.uint8)
        for memory in (self.cpu, self.dma):
            memory[address:address + len(data)] = data

    def power_cycle(self):
        """A warm reset: the caches lose what they hold, memory keeps what it has."""
        for start in range(0, len(self._dma), _BLOCK):  # What nobody has touched stays untouched: it takes no memory.
            block = slice(start, start + _BLOCK)
            if not np.array_equal(self._cpu[block], self._dma[block]):
                self._cpu[block] = self._dma[block]
            lines = slice(start//LINE, (start + _BLOCK)//LINE)
            if self._lines[lines].any():
                self._lines[lines] = 0


class PL310:
    """The L2 controller. By-line operations count where routines run for real (`cache` given)."""
    BASE, SIZE = 0xF8F0_2000, 0x1000
    CONTROL, INVALIDATE, CLEAN, FLUSH = 0x100, 0x770, 0x7B0, 0x7F0
    WAYS, SYNC = (0x77C, 0x7BC, 0x7FC), 0x730

    def __init__(self, cache=None):
        self.cache, self.registers = cache, {}

    def read(self, offset):
        return 0 if offset in self.WAYS or offset == self.SYNC else self.registers.get(offset, 0)

    def write(self, offset, value):
        if self.cache is not None and offset in (self.INVALIDATE, self.CLEAN, self.FLUSH):
            self.cache.l2(value, offset != self.INVALIDATE, offset != self.CLEAN)
        self.registers[offset] = value
