#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Core 0 of the Zynq: unicorn's Cortex-A9, memory, devices behind addresses, exceptions."""

import ctypes

from unicorn import (UC_ARCH_ARM, UC_HOOK_CODE, UC_HOOK_INSN_INVALID, UC_HOOK_INTR, UC_HOOK_MEM_READ, UC_HOOK_MEM_UNMAPPED, UC_MODE_ARM,
    UC_PROT_ALL, Uc, UcError)
from unicorn.arm_const import *

PAGE = 4096

# Exceptions: unicorn's number → (name, vector, mode, what the return address is ahead of the instruction).
EXCEPTIONS = {
    1: ("undefined instruction", 0x04, 0x1B, 4),
    2: ("supervisor call",       0x08, 0x13, 0),
    3: ("prefetch abort",        0x0C, 0x17, 4),
    4: ("data abort",            0x10, 0x17, 8),
}
CPSR_T, CPSR_A_I = 0x20, 0x180


class CPUError(RuntimeError):
    """The CPU met what no firmware may do; one line says what and where."""


class CPU:
    """A Cortex-A9 at the reset of its software: SVC, MMU and caches off.

    memory : uint8 [bytes], what the CPU sees from address 0.
    """
    def __init__(self, memory):
        self.memory = memory
        self.uc     = uc = Uc(UC_ARCH_ARM, UC_MODE_ARM)
        uc.ctl_set_cpu_model(UC_CPU_ARM_CORTEX_A9)
        uc.mem_map_ptr(0, len(memory), UC_PROT_ALL, ctypes.c_void_p(memory.ctypes.data))
        uc.hook_add(UC_HOOK_INTR, self._exception)
        uc.hook_add(UC_HOOK_INSN_INVALID, self._invalid)
        uc.hook_add(UC_HOOK_MEM_UNMAPPED, self._unmapped)
        self.instructions = 0      # Executed, to within a slice.
        self.failure      = None   # Exception that a callback wants to leave `run`.
        self._keep        = []
        self._vbar        = (UC_ARM_REG_CP_REG, (15, 0, 0, 12, 0, 0, 0))

    # Setup ----------------------------------------------------------------------------------------

    def load(self, elf):
        """Puts an `Elf` into memory and points the CPU at its entry."""
        for address, data, size, _ in elf.segments:
            self.memory[address:address + size]      = 0
            self.memory[address:address + len(data)] = bytearray(data)
        self.uc.reg_write(UC_ARM_REG_PC, elf.entry)

    def map_device(self, base, size, device):
        """Lets ``device.read(offset)`` and ``device.write(offset, value)`` answer for [base, base + size)."""
        def read(uc, offset, size, _):
            try:
                return device.read(offset)
            except Exception as error:
                return self._fail(error) or 0

        def write(uc, offset, size, value, _):
            try:
                device.write(offset, value)
            except Exception as error:
                self._fail(error)

        self._keep += [read, write]
        self.uc.mmio_map(base, size, read, None, write, None)

    def map_memory(self, base, memory):
        """Lets `memory` (uint8 [bytes]) answer for [base, base + bytes), such as the one on chip."""
        self.uc.mem_map_ptr(base, len(memory), UC_PROT_ALL, ctypes.c_void_p(memory.ctypes.data))

    def hook(self, address, function):
        """Calls function() before the instruction at `address` runs."""
        def callback(uc, address, size, _):
            try:
                function()
            except Exception as error:
                self._fail(error)

        self._keep.append(callback)
        self.uc.hook_add(UC_HOOK_CODE, callback, begin=address, end=address)

    def hook_reads(self, first, last, function):
        """Calls function(address, size) at each load from [first, last]. Loads that were translated before the first call escape."""
        def callback(uc, access, address, size, value, _):
            try:
                function(address, size)
            except Exception as error:
                self._fail(error)

        self._keep.append(callback)
        self.uc.hook_add(UC_HOOK_MEM_READ, callback, begin=first, end=last)

    # Registers ------------------------------------------------------------------------------------

    def register(self, number):
        """r0 … r12."""
        return self.uc.reg_read(UC_ARM_REG_R0 + number)

    @property
    def pc(self):
        return self.uc.reg_read(UC_ARM_REG_PC)

    @property
    def lr(self):
        return self.uc.reg_read(UC_ARM_REG_LR)

    def return_from_function(self):
        """Within a hook at a function's first instruction: leaves it undone."""
        self.uc.reg_write(UC_ARM_REG_PC, self.lr)

    # Run ------------------------------------------------------------------------------------------

    def _fail(self, error):
        if self.failure is None:
            self.failure = error
        self.uc.emu_stop()

    def stop(self):
        """Within a callback: ends the running slice."""
        self.uc.emu_stop()

    def run(self, instructions):
        """Runs up to so many instructions; raises what a callback has raised."""
        uc = self.uc
        pc = uc.reg_read(UC_ARM_REG_PC)
        if uc.reg_read(UC_ARM_REG_CPSR) & CPSR_T:
            pc |= 1
        try:
            uc.emu_start(pc, 0xFFFFFFFF, count=instructions)
        except UcError as error:
            if self.failure is None:
                self.failure = CPUError(f"CPU stopped at pc {self.pc:#010x}: {error}")
        self.instructions += instructions
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def _unmapped(self, uc, access, address, size, value, _):
        self._fail(CPUError(f"CPU access of {size} bytes at {address:#010x}, where nothing answers (pc {self.pc:#010x})"))
        return False

    def _invalid(self, uc, _):
        self._exception(uc, 1, None)
        return self.failure is None

    def _exception(self, uc, number, _):
        """Enters the vector as the hardware does; without vectors it is the end."""
        name, vector, mode, ahead = EXCEPTIONS.get(number, (f"exception {number}", None, None, 0))
        pc   = uc.reg_read(UC_ARM_REG_PC)
        vbar = uc.reg_read(*self._vbar)
        if vector is None or vbar == 0:
            self._fail(CPUError(f"CPU: {name} at pc {pc:#010x} before the firmware has set its vectors"))
            return
        cpsr = uc.reg_read(UC_ARM_REG_CPSR)
        uc.reg_write(UC_ARM_REG_CPSR, (cpsr & ~0x1F & ~CPSR_T) | mode | CPSR_A_I)
        uc.reg_write(UC_ARM_REG_SPSR, cpsr)
        uc.reg_write(UC_ARM_REG_LR, pc + ahead)
        uc.reg_write(UC_ARM_REG_PC, vbar + vector)
