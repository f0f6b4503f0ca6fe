#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The A9's private peripherals: snoop control, global timer, watchdog; and the system watchdog."""

from litetern.soc.zynq.memory_map import TIMER_CLOCK_HZ

SCU_CONTROL, SCU_INVALIDATE                   = 0x000, 0x00C
TIMER_LOW, TIMER_HIGH, TIMER_CONTROL          = 0x200, 0x204, 0x208
WATCHDOG_CONTROL, WATCHDOG_DISABLE            = 0x628, 0x634


class MPCore:
    """seconds : function that returns the board's time."""
    BASE, SIZE = 0xF8F0_0000, 0x1000

    def __init__(self, seconds):
        self.seconds   = seconds
        self.registers = {}
        self.rate      = 0.0       # Ticks a second.
        self.start     = 0.0       # Time at which the counter was 0.
        self.latched   = 0

    def _count(self):
        return int((self.seconds() - self.start)*self.rate) if self.rate else self.latched

    def read(self, offset):
        if offset == TIMER_LOW:
            return self._count() & 0xFFFFFFFF
        if offset == TIMER_HIGH:
            return self._count() >> 32 & 0xFFFFFFFF
        return self.registers.get(offset, 0)

    def write(self, offset, value):
        if offset == TIMER_CONTROL:
            count      = self._count()
            self.rate  = TIMER_CLOCK_HZ/((value >> 8 & 0xFF) + 1) if value & 1 else 0.0
            self.start = self.seconds() - count/self.rate if self.rate else 0.0
            self.latched = count
        elif offset == TIMER_LOW:
            self.latched = self.latched & ~0xFFFFFFFF | value
        elif offset == TIMER_HIGH:
            self.latched = self.latched & 0xFFFFFFFF | value << 32
        self.registers[offset] = value


class SystemWatchdog:
    """Its mode register."""
    BASE, SIZE = 0xF800_5000, 0x1000

    def __init__(self):
        self.enabled = True

    def read(self, offset):
        return int(self.enabled) if offset == 0 else 0

    def write(self, offset, value):
        if offset == 0 and value >> 12 == 0xABC:
            self.enabled = bool(value & 1)
