#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What cocotb runs inside the simulator: both sides of the lane are models of cocotbext-axi (see test_axi.py).

    AxiMaster ──► GP0 ─ registers │ lane with a copying core │ HP0 ──► AxiRam (asserts 4 KB, sizes, WLAST)
"""

import json
import os
import random

import cocotb

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiMaster, AxiRam

SIZE   = 1 << 18
LIST   = 0x100
SOURCE = 0x1_0000
TARGET = 0x2_0000
GUARD  = 256
LIMIT  = 200  # Polls of a list.

LENGTHS = (1, 2, 3, 4, 15, 16, 17, 33, 513)
OFFSETS = (-136, -8, 0, 8, 120)


def pauses(seed, probability):
    """Endless seeded pauses of a channel."""
    source = random.Random(seed)
    while True:
        yield source.random() < probability


class Bench:
    def __init__(self, dut):
        self.dut       = dut
        self.random    = random.Random(1)
        self.registers = json.loads(os.environ["REGISTERS"])
        cocotb.start_soon(Clock(dut.sys_clk, 8, unit="ns").start())
        self.gp0 = AxiMaster(AxiBus.from_prefix(dut, "gp0"), dut.sys_clk, dut.sys_rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "hp0"), dut.sys_clk, dut.sys_rst, size=SIZE)

    async def reset(self):
        self.dut.sys_rst.value = 1
        await ClockCycles(self.dut.sys_clk, 10)
        self.dut.sys_rst.value = 0
        await ClockCycles(self.dut.sys_clk, 10)
        for name in ("read0", "write0"):
            await self.write(f"{name}_first", 0)
            await self.write(f"{name}_last", SIZE - 1)

    def pause(self, probability):
        ram = self.ram
        channels = (ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel, ram.read_if.ar_channel, ram.read_if.r_channel)
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(pauses(seed + 1, probability))

    async def read(self, name):
        return await self.gp0.read_dword(self.registers[f"accelerator_{name}"])

    async def write(self, name, value):
        await self.gp0.write_dword(self.registers[f"accelerator_{name}"], value)

    async def run(self, pieces, target, limit, core):
        """Runs a list of (address, beats); returns the status at its end."""
        words = [address | beats << 35 | (i == len(pieces) - 1) for i, (address, beats) in enumerate(pieces)]
        self.ram.write(LIST, b"".join(word.to_bytes(8, "little") for word in words))
        registers = {"list_address": LIST, "destination": target, "destination_limit": limit, "control": 1 | core << 4}
        for name, value in registers.items():
            await self.write(f"lane0_{name}", value)
        for _ in range(LIMIT):
            await ClockCycles(self.dut.sys_clk, 50)
            status = await self.read("lane0_status")
            if status & 2:
                break
        return status

    async def copy(self, pieces, target, core):
        """Runs a list of (address, beats) and compares the target and the guards around it."""
        for address, beats in pieces:
            self.ram.write(address, self.random.randbytes(8*beats))
        expected = b"".join(self.ram.read(address, 8*beats) for address, beats in pieces)
        guard    = b"\xa5"*GUARD
        self.ram.write(target - GUARD, guard + bytes(len(expected)) + guard)
        status = await self.run(pieces, target, len(expected), core)
        assert status == 2, f"status {status:#x}"
        assert await self.read("lane0_results") == len(expected)
        assert self.ram.read(target - GUARD, len(expected) + 2*GUARD) == guard + expected + guard


@cocotb.test()
async def identity(dut):
    bench = Bench(dut)
    await bench.reset()
    assert await bench.read("identity") == int(os.environ["IDENTITY"])


@cocotb.test()
async def lengths_and_offsets(dut):
    bench = Bench(dut)
    await bench.reset()
    for probability in (0.0, 0.4):
        bench.pause(probability)
        for length in LENGTHS:
            for offset in OFFSETS:
                core = bench.random.randrange(2)
                await bench.copy([(SOURCE + 4096 + offset, length)], TARGET + 4096, core)
                await bench.copy([(SOURCE + 4096, length)], TARGET + 4096 + offset, core)


@cocotb.test()
async def lists(dut):
    bench = Bench(dut)
    await bench.reset()
    for probability in (0.0, 0.4):
        bench.pause(probability)
        for entries in (1, 2, 4, 5, 17, 40):
            pieces = [(SOURCE + 8*bench.random.randrange(2000), bench.random.randrange(1, 40)) for _ in range(entries)]
            await bench.copy(pieces, TARGET + 8*bench.random.randrange(64), bench.random.randrange(2))


@cocotb.test()
async def ranges(dut):
    """A list beyond a range is refused; the memory sees nothing of it, and serves the next one."""
    bench = Bench(dut)
    await bench.reset()
    errors = json.loads(os.environ["RANGE_ERRORS"])
    for piece, target, error in ((SIZE - 8, TARGET, "reader_range"), (SOURCE, SIZE - 8, "writer_range")):
        before = bench.ram.read(0x200, SIZE - 0x200)
        assert await bench.run([(piece, 2)], target, 16, 0) & ~0xF == 1 << errors[error]
        assert bench.ram.read(0x200, SIZE - 0x200) == before
        await bench.copy([(SOURCE, 33)], TARGET + 8, 0)
