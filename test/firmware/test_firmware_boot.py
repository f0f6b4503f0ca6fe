#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Start code, drivers and faults: the firmware's binary on the emulated CPU, left in states that a boot loader may leave it in."""

import random
import struct

import numpy as np
import pytest
from unicorn.arm_const import UC_ARM_REG_CP_REG, UC_ARM_REG_CPSR, UC_ARM_REG_FPEXC, UC_ARM_REG_FPSCR, UC_ARM_REG_R0, UC_ARM_REG_SP

from litetern.firmware import build
from litetern.soc.accelerator import VERSION
from litetern.soc.virtual.board import BoardError, VirtualBoard
from litetern.soc.virtual.ps.slcr import IO_PLL
from litetern.soc.zynq.memory_map import DDR_BYTES, HANDOVER, HANDOVER_BASE, HANDOVER_MAGIC, IMAGE_BASE

SCTLR = UC_ARM_REG_CP_REG, (15, 0, 0, 1, 0, 0, 0)
VBAR  = UC_ARM_REG_CP_REG, (15, 0, 0, 12, 0, 0, 0)
ACTLR_WRITE = 0xEE010F30  # mcr p15, 0, r0, c1, c0, 1: the emulated register reads 0 whatever is written.
M, A, C, Z, I, V = (1 << bit for bit in (0, 1, 2, 11, 12, 13))

UNDEFINED, SUPERVISOR_CALL = 0xE7F000F0, 0xEF000000


def write_register(cpu, register, value):
    number, where = register
    cpu.uc.reg_write(number, (*where, value))


def until(board, word, reads=300):
    """Console text up to `word`."""
    text = ""
    for _ in range(reads):
        text += board.read(1).decode("ascii", "replace")
        if word in text:
            return text
    raise AssertionError(f"{word!r} did not come: {text!r}")


def board(**options):
    return VirtualBoard(pl=options.pop("pl", "c"), **options)

# Start --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_boots(compiler):
    with board(elf=build.build_elf(compiler)) as b:
        text = until(b, "\nready")
        assert f"PL: gateware ready, version {VERSION[0]}.{VERSION[1]}" in text and "build virtual" in text and "model: none" in text
        control = b.cpu.uc.reg_read(*SCTLR)
        assert control & (M | C | I | Z) == M | C | I | Z and not control & (A | V)


@pytest.mark.parametrize("seed", range(4))
def test_assumes_nothing(seed):
    """Registers, modes, alignment checks, vectors and memory as a stranger might leave them."""
    draw = random.Random(seed)
    with board() as b:
        cpu, uc = b.cpu, b.cpu.uc
        for register in range(13):
            uc.reg_write(UC_ARM_REG_R0 + register, draw.getrandbits(32))
        uc.reg_write(UC_ARM_REG_SP, draw.getrandbits(32))
        uc.reg_write(UC_ARM_REG_CPSR, draw.choice([0x1F, 0x13, 0x12, 0x1B]))  # Interrupts open.
        write_register(cpu, SCTLR, uc.reg_read(*SCTLR) | draw.choice([A, A | Z, I | Z | A, V | A]))
        write_register(cpu, VBAR, draw.getrandbits(27) << 5)
        uc.reg_write(UC_ARM_REG_FPEXC, 0)
        bss = {b.elf.symbols[name] for name in ("_bss_start", "_bss_end")}
        cpu.memory[min(bss):max(bss)] = 0xA5
        b.cache.dma[min(bss):max(bss)] = 0xA5
        coherency = []
        for address, data, _, _ in b.elf.segments:
            for offset in range(0, len(data) - 3, 4):
                word = int.from_bytes(data[offset:offset + 4], "little")
                if word & 0xFFFF0FFF == ACTLR_WRITE:
                    cpu.hook(address + offset, lambda register=word >> 12 & 15: coherency.append(cpu.register(register) & 0x41))
        until(b, "\nready")
        control = uc.reg_read(*SCTLR)
        assert control & (M | C | I | Z) == M | C | I | Z and not control & (A | V)
        assert uc.reg_read(*VBAR) == b.elf.symbols["vectors"]
        assert coherency == [0x41]  # SMP and FW.
        assert uc.reg_read(UC_ARM_REG_FPSCR) & 0x03C09F00 == 0  # Nearest, no traps, no flush to zero by choice, no vectors.
        assert b.watchdog.enabled is False
        assert b.mpcore.registers[0x634] == 0x87654321 and b.mpcore.registers[0x628] == 0
        assert b.mpcore.registers[0x000] & 1


def test_raw_binary_starts_at_its_first_byte():
    elf = VirtualBoard(pl="none").elf
    assert elf.entry == elf.symbols["_start"] == min(address for address, _, _, _ in elf.segments) == 0x100000

# PL -----------------------------------------------------------------------------------------------


def test_pl_is_touched_only_with_word_and_done():
    with board(handover=False) as b:  # A foreign bitstream: DONE is high.
        assert "no bitstream from the boot script, C cores run" in until(b, "\nready")
        assert b.bus.accesses == 0
    with board() as b:
        b.devc.programmed = 0
        assert "PL not programmed, C cores run" in until(b, "\nready")
        assert b.bus.accesses == 0


def test_pl_without_clock_or_of_others():
    with board() as b:
        b.slcr.registers[IO_PLL] = 21 << 12  # 1,050 MHz: no 125 MHz from it.
        assert "no 125 MHz clock" in until(b, "\nready")
        assert b.bus.accesses == 0
    for name, value in (("identity", 0x12345678), ("version", VERSION[0] + 1 << 16), ("version", VERSION[0] - 1 << 16)):
        with board() as b:
            b.pl._values[f"accelerator_{name}"] = value
            assert "foreign gateware" in until(b, "\nready")


def test_pl_clock_that_is_not_there():
    with board() as b:
        read = b.pl.read
        b.pl.read = lambda address: 5 if address == b.pl.registers["accelerator_clock"] else read(address)
        assert "no 125 MHz clock" in until(b, "\nready")


def test_handover_word_serves_once():
    """A warm reset without the boot script must not take the word of the start before."""
    with board() as b:
        until(b, "\nready")
        b.cache.power_cycle()
        b.start()
        assert "no bitstream from the boot script" in until(b, "\nready")


@pytest.mark.parametrize("base, bytes, bad", [(IMAGE_BASE - 128, 128, True), (IMAGE_BASE + 4, 128, True), (DDR_BYTES, 128, True),
    (DDR_BYTES - 128, 129, True), (2**32 - 128, 128, True), (IMAGE_BASE, 2**32 - 1, True), (DDR_BYTES - 128, 128, False), (IMAGE_BASE, 1, False),
    (0, 0, False)])
def test_images_lie_in_their_memory(base, bytes, bad):
    """What the boot script hands over is checked before anything is read there."""
    with board() as b:
        words = np.array((HANDOVER_MAGIC, base, bytes, b"virtual"), HANDOVER.dtype)
        b.cache.preload(HANDOVER_BASE, words.tobytes())
        text  = until(b, "\nready")
    assert (f"hand-over: no place for an image of {bytes} bytes at byte {base} of the memory" in text) == bad
    assert ("model: refused" in text) == (bytes > 0 and not bad) and ("model: none" in text) == (bad or not bytes)


def test_what_the_loader_needs_is_left_alone():
    """It is at the top of the memory while it loads; one byte more than it leaves is refused, before anything is taken."""
    class Long(bytes):
        def __len__(self):
            return self.length
    for base, limit in ((IMAGE_BASE, 476 << 20), (0x0800_0000, 352 << 20)):
        data = Long()
        data.length = limit + 1
        with pytest.raises(ValueError, match=f"image of {limit + 1} bytes: the board holds {limit}"):
            board(image=data, image_base=base)


def test_touching_a_pl_in_reset_hangs_the_bus():
    with board() as b:
        until(b, "\nready")
        b.slcr.registers[0x240] = 0xF
        with pytest.raises(BoardError, match="held in reset"):
            b.bus.read(0)

# Faults -------------------------------------------------------------------------------------------


def patch(b, symbol, *words):
    """Puts instructions over the start of a function."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    b.cache.preload(b.elf.symbols[symbol], data)


LOAD_NULL   = 0xE3A00000, 0xE5900000             # mov r0, #0; ldr r0, [r0]
JUMP_NULL   = 0xE3A00000, 0xE12FFF10             # mov r0, #0; bx r0
LOAD_NOBODY = 0xE3A00202, 0xE5900000             # mov r0, #0x20000000; ldr r0, [r0]
LOAD_PARKED = 0xE3E0000F, 0xE5900000             # mvn r0, #15; ldr r0, [r0]: what core 1 waits for.


@pytest.mark.parametrize("words, text", [
    ((UNDEFINED,),       "undefined instruction"),
    ((SUPERVISOR_CALL,), "supervisor call"),
    (LOAD_NULL,          "data abort"),
    (JUMP_NULL,          "prefetch abort"),
    (LOAD_NOBODY,        "data abort"),
    (LOAD_PARKED,        "data abort"),
])
def test_exceptions_are_reported_and_stop(words, text):
    with board() as b:
        patch(b, "uart_read", *words)
        with pytest.raises(BoardError, match=f"the firmware has stopped: {text} at pc 0x[0-9a-f]{{8}}") as error:
            until(b, "no such text")
        pc   = int(str(error.value).split("at pc ")[1][:10], 16)
        last = 0 if text == "prefetch abort" else b.elf.symbols["uart_read"] + 4*(len(words) - 1)
        assert pc == last


def test_unanswered_address_ends_in_one_line():
    with board() as b:
        patch(b, "uart_read", 0xE3A0020E, 0xE2800A1F, 0xE5900000)  # 0xE001F000: mapped as device, nobody there.
        with pytest.raises(BoardError, match="at 0xe001f000, where nothing answers"):
            until(b, "no such text")

# Build --------------------------------------------------------------------------------------------


def test_missing_compiler_and_wrong_target():
    with pytest.raises(ValueError, match="target 'vax': must be one of a9"):
        build.build("vax")
    with pytest.raises(ValueError, match="compiler 'tcc': must be clang or gcc"):
        build.build("a9", "tcc")


def test_broken_source_is_one_line():
    with pytest.raises(ValueError, match="^firmware \\(host\\): [^\n]*error[^\n]*$"):
        build.build("host", "gcc", defines=["uint32_t=struct"])


def test_aarch64_build_holds_engine_and_ops():
    data = build.build("aarch64").read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01" and struct.unpack_from("<H", data, 18)[0] == 183
    for name in (b"engine_poll", b"ops_", b"cores_run_list"):
        assert name in data
