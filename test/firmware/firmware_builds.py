#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The firmware's C functions, called from Python on every build: host (scalar, checker), ARMv7 NEON and AArch64 (both emulated).

Each build has one memory that Python and C share: `put` an array there, `call` a function with its address, `get` the result.
"""

import ctypes
import functools
import shutil
import struct

import numpy as np
import unicorn
import unicorn.arm64_const as arm64
import unicorn.arm_const as arm

from litetern.firmware.build import build

MEMORY_BYTES = 96 << 20
ALIGNMENT    = 128

# Build --------------------------------------------------------------------------------------------


class Build:
    """A compiled firmware and `memory`, uint8 [MEMORY_BYTES]; `base` is the address that C knows it by."""
    pointer_bytes = 8

    def __init__(self, name, path, memory, base):
        self.name, self.path, self.memory, self.base = name, path, memory, base
        self.next = self.base

    def room(self, count):
        """Address of `count` free bytes."""
        address   = self.next
        self.next = -(-(address + count)//ALIGNMENT)*ALIGNMENT
        if self.next > self.base + len(self.memory):
            raise ValueError(f"{count} bytes: the memory of {self.name} is full, call free()")
        return address

    def free(self):
        """Forgets all that was put."""
        self.next = self.base

    def put(self, data):
        """Address of a copy of an array (or bytes)."""
        data    = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        address = self.room(data.size)
        self.view(address, np.uint8, data.size)[:] = data
        return address

    def view(self, address, dtype, count):
        """The memory itself as an array."""
        start = address - self.base
        return self.memory[start:start + count*np.dtype(dtype).itemsize].view(dtype)

    def get(self, address, dtype, count):
        """Copy of `count` elements."""
        return self.view(address, dtype, count).copy()

    def call(self, function, *arguments, returns=int):
        """Calls a C function. ints are 32-bit values or pointers, np.uint64 is a uint64_t, np.float32 a float; returns: int or float."""
        raise NotImplementedError(function)


class HostBuild(Build):
    """A shared library in this process."""
    def __init__(self, name, path):
        raw = np.zeros(MEMORY_BYTES + 4096, np.uint8)
        skip = -raw.ctypes.data % 4096
        super().__init__(name, path, raw[skip:skip + MEMORY_BYTES], raw.ctypes.data + skip)
        self.library = ctypes.CDLL(str(path))

    def variable(self, name):
        """Value of a uint32_t."""
        return ctypes.c_uint32.in_dll(self.library, name).value

    def set_variable(self, name, value):
        ctypes.c_uint32.in_dll(self.library, name).value = value

    def call(self, function, *arguments, returns=int):
        symbol = getattr(self.library, function)
        symbol.restype = ctypes.c_float if returns is float else ctypes.c_uint64
        kinds  = {np.float32: lambda x: ctypes.c_float(float(x)), np.uint64: lambda x: ctypes.c_uint64(int(x))}
        result = symbol(*(kinds.get(type(a), ctypes.c_uint64)(a) for a in arguments))
        return np.float32(result) if returns is float else result

# Emulated -----------------------------------------------------------------------------------------


class Elf:
    """Segments and symbols of a 32- or 64-bit little-endian ELF file."""
    def __init__(self, path):
        data = path.read_bytes()
        if data[:4] != b"\x7fELF" or data[5] != 1:
            raise ValueError(f"{path}: must be a little-endian ELF file")
        wide = data[4] == 2
        program, section = struct.unpack_from("<QQ" if wide else "<II", data, 32 if wide else 28)
        program_size, programs, section_size, sections = struct.unpack_from("<HHHH", data, 54 if wide else 42)
        self.segments = []
        for i in range(programs):
            kind, *fields = struct.unpack_from("<IIQQQQQ" if wide else "<IIIIII", data, program + i*program_size)
            offset, address, size = (fields[1], fields[2], fields[4]) if wide else (fields[0], fields[1], fields[3])
            if kind == 1:
                self.segments.append((address, data[offset:offset + size]))
        headers = [struct.unpack_from("<IIQQQQII" if wide else "<IIIIIIII", data, section + i*section_size) for i in range(sections)]
        self.symbols = {}
        for _, kind, _, _, offset, size, link, _ in headers:
            if kind != 2:
                continue
            names = headers[link][4]
            for entry in range(offset, offset + size, 24 if wide else 16):
                name, value = struct.unpack_from("<I4xQ" if wide else "<II", data, entry)
                end = data.index(b"\0", names + name)
                self.symbols[data[names + name:end].decode()] = value


class EmulatedBuild(Build):
    """An ELF under unicorn; instructions can be counted."""
    REGION  = 0x0010_0000             # The firmware's addresses up to the end of `memory`.
    BASE    = 0x0800_0000
    STACK   = 0x07F0_0000
    RETURN  = 0x07F8_0000             # Nothing lies there: a call has returned.
    TIMEOUT = 120_000_000             # Microseconds of one call.

    def __init__(self, name, path):
        self.elf  = Elf(path)
        whole     = np.zeros(self.BASE + MEMORY_BYTES - self.REGION, np.uint8)
        super().__init__(name, path, whole[self.BASE - self.REGION:], self.BASE)
        self.whole = whole
        self.uc    = self._machine()
        self.uc.mem_map_ptr(self.REGION, whole.nbytes, unicorn.UC_PROT_ALL, whole.ctypes.data)
        for address, data in self.elf.segments:
            self.uc.mem_write(address, data)

    def variable(self, name):
        return int.from_bytes(self.uc.mem_read(self.elf.symbols[name], 4), "little")

    def count_instructions(self):
        """From here on `instructions` counts (slower)."""
        self.instructions = 0
        def block(uc, address, size, data):
            self.instructions += size//4
        self.uc.hook_add(unicorn.UC_HOOK_BLOCK, block)

    def _run(self, function):
        if function not in self.elf.symbols:
            raise ValueError(f"{function}: not in {self.path}")
        try:
            self.uc.emu_start(self.elf.symbols[function], self.RETURN, timeout=self.TIMEOUT)
        except unicorn.UcError as error:
            raise ValueError(f"{self.name}: {function} failed at {self._pc():#x} ({error})") from None
        if self._pc() != self.RETURN:
            raise ValueError(f"{self.name}: {function} did not return within {self.TIMEOUT//1_000_000} s (at {self._pc():#x})")


class ArmBuild(EmulatedBuild):
    """Cortex-A9 with NEON; hard-float calls."""
    pointer_bytes = 4

    def _machine(self):
        uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_ARM)
        uc.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_A9)
        uc.reg_write(arm.UC_ARM_REG_C1_C0_2, uc.reg_read(arm.UC_ARM_REG_C1_C0_2) | 0xF << 20)
        uc.reg_write(arm.UC_ARM_REG_FPEXC, 1 << 30)
        return uc

    def _pc(self):
        return self.uc.reg_read(arm.UC_ARM_REG_PC)

    def call(self, function, *arguments, returns=int):
        core, floats, stack = [], [], []
        for a in arguments:
            if type(a) is np.float32:
                floats.append(int(a.view(np.uint32)))
                continue
            words = [int(a) & 0xFFFFFFFF, int(a) >> 32] if type(a) is np.uint64 else [int(a) & 0xFFFFFFFF]
            place = stack if len(core) + len(core) % len(words) + len(words) > 4 else core
            if place is stack:
                core += [0]*(4 - len(core))
            place += [0]*(len(place) % len(words)) + words
        sp = self.STACK - 8*(len(stack)//2 + 1)
        for i, word in enumerate(core):
            self.uc.reg_write(arm.UC_ARM_REG_R0 + i, word)
        for i, word in enumerate(floats):
            self.uc.reg_write(arm.UC_ARM_REG_S0 + i, word)
        self.uc.mem_write(sp, struct.pack(f"<{len(stack)}I", *stack))
        self.uc.reg_write(arm.UC_ARM_REG_SP, sp)
        self.uc.reg_write(arm.UC_ARM_REG_LR, self.RETURN)
        self._run(function)
        if returns is float:
            return np.uint32(self.uc.reg_read(arm.UC_ARM_REG_S0)).view(np.float32)
        return self.uc.reg_read(arm.UC_ARM_REG_R0)


class Arm64Build(EmulatedBuild):
    """AArch64."""
    def _machine(self):
        uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        uc.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        return uc

    def _pc(self):
        return self.uc.reg_read(arm64.UC_ARM64_REG_PC)

    def call(self, function, *arguments, returns=int):
        core   = [int(a) for a in arguments if type(a) is not np.float32]
        floats = [a for a in arguments if type(a) is np.float32]
        stack  = struct.pack(f"<{len(core[8:])}Q", *core[8:])
        sp     = self.STACK - -(-len(stack)//16)*16
        for i, value in enumerate(core[:8]):
            self.uc.reg_write(arm64.UC_ARM64_REG_X0 + i, value)
        for i, value in enumerate(floats):
            self.uc.reg_write(arm64.UC_ARM64_REG_S0 + i, int(value.view(np.uint32)))
        self.uc.mem_write(sp, stack)
        self.uc.reg_write(arm64.UC_ARM64_REG_SP, sp)
        self.uc.reg_write(arm64.UC_ARM64_REG_X30, self.RETURN)
        self._run(function)
        if returns is float:
            return np.uint32(self.uc.reg_read(arm64.UC_ARM64_REG_S0)).view(np.float32)
        return self.uc.reg_read(arm64.UC_ARM64_REG_X0)

# All builds ---------------------------------------------------------------------------------------

BUILDS = {
    "host C scalar"  : lambda: HostBuild("host C scalar", build("host", "gcc" if shutil.which("gcc") else "clang", ("LANES_SCALAR",))),
    "ARMv7 NEON"     : lambda: ArmBuild("ARMv7 NEON", build("a9", "clang")),
    "AArch64 NEON"   : lambda: Arm64Build("AArch64 NEON", build("aarch64", "clang")),
    "ARMv7 NEON, GCC": lambda: ArmBuild("ARMv7 NEON, GCC", build("a9", "gcc")),
    "checker"        : lambda: HostBuild("checker", build("host", "gcc" if shutil.which("gcc") else "clang", ("LANES_CHECK",))),
}
if shutil.which("arm-none-eabi-gcc") is None:  # Not from pip; CI has it.
    del BUILDS["ARMv7 NEON, GCC"]


@functools.lru_cache(maxsize=None)
def firmware_build(name):
    """The build of this name, compiled when first asked for."""
    return BUILDS[name]()
