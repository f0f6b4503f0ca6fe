#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""System-level control of the Zynq as a boot loader leaves it: PLLs, the PL's clock, reset and level shifters; and whether it is programmed."""

from litetern.soc.zynq.memory_map import PS_CLOCK_HZ, SLCR_KEY

UNLOCK, LOCK, LOCK_KEY                              = 0x008, 0x004, 0x767B
IO_PLL, UART_CLOCK, FPGA0_CLOCK, FPGA_RESET, LEVELS = 0x108, 0x154, 0x170, 0x240, 0x900
OCM_MAP                                             = 0x910


class SLCR:
    """Registers keep what is written while they are unlocked."""
    BASE, SIZE = 0xF800_0000, 0x1000

    def __init__(self):
        self.locked    = True
        self.registers = {
            IO_PLL      : 20 << 12,                # 50 MHz × 20.
            UART_CLOCK  : 10 << 8 | 3,             # 100 MHz.
            FPGA0_CLOCK : 1 << 20 | 20 << 8,       # 50 MHz, as the loader's own bitstream wants it.
            FPGA_RESET  : 0xF,
            LEVELS      : 0,
            OCM_MAP     : 0x18,                    # As the boot ROM leaves it: one bank of four high.
        }

    def read(self, offset):
        return self.registers.get(offset, 0)

    def write(self, offset, value):
        if offset == UNLOCK and value == SLCR_KEY:
            self.locked = False
        elif offset == LOCK and value == LOCK_KEY:
            self.locked = True
        elif not self.locked:
            self.registers[offset] = value

    @property
    def pl_clock_hz(self):
        """FPGA0_CLK from the IO PLL."""
        clock   = self.registers[FPGA0_CLOCK]
        divisor = max(clock >> 8 & 0x3F, 1)*max(clock >> 20 & 0x3F, 1)
        return PS_CLOCK_HZ*(self.registers[IO_PLL] >> 12 & 0x7F)/divisor

    @property
    def ocm_high(self):
        """All of the on-chip memory answers at its high addresses."""
        return self.registers[OCM_MAP] & 0xF == 0xF

    @property
    def pl_unreachable(self):
        """Why the CPU must not touch the PL yet, or None."""
        if self.registers[LEVELS] & 0xF != 0xF:
            return "its level shifters are off"
        if self.registers[FPGA_RESET] & 1:
            return "it is held in reset"
        return None


class DevC:
    """Device configuration: DONE."""
    BASE, SIZE = 0xF800_7000, 0x1000
    INT_STATUS = 0x00C

    def __init__(self, programmed):
        self.programmed = programmed

    def read(self, offset):
        return self.programmed << 2 if offset == self.INT_STATUS else 0

    def write(self, offset, value):
        pass
