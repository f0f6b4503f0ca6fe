#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The cache model, the firmware's maintenance routines on it, and the proof that each of the firmware's calls is needed."""

import functools

import numpy as np
import pytest
from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_PC, UC_ARM_REG_R0, UC_ARM_REG_R1

from litetern.host.link.device import Device, Sampling
from litetern.host.link.protocol import LinkError
from litetern.model.formats.head import with_head
from litetern.soc.virtual.board import BoardError, VirtualBoard, config_for
from litetern.soc.virtual.ps.cache import LINE, CacheModel
from tiny_model import image_bytes, tiny_model

BASE, BYTES = 0x40000, 1 << 20

# Model --------------------------------------------------------------------------------------------


def model():
    cache = CacheModel(BYTES)
    data  = np.arange(BYTES, dtype=np.uint8)
    cache.preload(0, data.tobytes())
    return cache


def pl_writes(cache, address, data):
    """What the PL's writer does, and its hook after it."""
    cache.dma[address:address + len(data)] = np.frombuffer(data, np.uint8)
    cache.dma_written(address, len(data))


def test_clean_brings_writes_to_the_pl():
    cache = model()
    cache.cpu[BASE + 5] ^= 0xFF
    cache.clean_range(BASE, LINE)
    cache.dma_read(BASE, LINE)
    assert cache.fault is None and cache.dma[BASE + 5] == cache.cpu[BASE + 5]


@pytest.mark.parametrize("offset", [0, 31, 32, 95])
def test_reading_a_dirty_line_is_a_fault(offset):
    cache = model()
    cache.cpu[BASE + offset] ^= 1
    cache.dma_read(BASE, 96)
    assert cache.fault == f"the PL reads a line that the CPU has written and nobody has cleaned (line at {BASE + offset//32*32:#010x})"


def test_results_need_an_invalidation():
    cache = model()
    cache.arm(BASE, 64)
    pl_writes(cache, BASE, b"results!"*8)
    assert not (cache.cpu[BASE:BASE + 64] == cache.dma[BASE:BASE + 64]).any()
    assert cache.cpu_read(BASE + 40, 4) == 1 and "nobody has invalidated" in cache.fault
    cache = model()
    pl_writes(cache, BASE, b"results!"*8)
    cache.invalidate_range(BASE, 64)
    assert cache.cpu_read(BASE, 64) == 0 and cache.cpu[BASE:BASE + 64].tobytes() == b"results!"*8 and cache.fault is None


def test_early_invalidation_does_not_help():
    """Progress is read: a line that the PL goes on writing is stale again."""
    cache = model()
    cache.arm(BASE, 32)
    pl_writes(cache, BASE, b"12345678")
    cache.invalidate_range(BASE, 32)
    assert cache.cpu_read(BASE, 8) == 0
    pl_writes(cache, BASE + 8, b"abcdefgh")
    assert cache.cpu_read(BASE, 8) == 1


def test_writing_under_a_running_list_is_a_fault():
    cache = model()
    cache.cpu[BASE] ^= 1
    cache.arm(BASE, 32)
    assert "a list may write a line that the CPU has written" in cache.fault
    cache = model()
    cache.arm(BASE, 64)
    cache.cpu[BASE + 40] ^= 1
    pl_writes(cache, BASE, b"12345678"*8)
    assert "the PL writes a line that the CPU has written" in cache.fault
    cache = model()
    pl_writes(cache, BASE, b"12345678")
    cache.cpu[BASE + 20] = 7
    cache.clean_range(BASE, 32)
    assert "nobody had invalidated" in cache.fault


def test_partial_lines_keep_their_neighbours():
    """What the CPU has written beside a range survives its invalidation; what it has written within may go either way."""
    for seed in range(8):
        cache = CacheModel(BYTES, seed)
        cache.cpu[BASE:BASE + 96] = 1
        cache.invalidate_range(BASE + 8, 80)
        assert (cache.cpu[BASE:BASE + 8] == 1).all() and (cache.cpu[BASE + 88:BASE + 96] == 1).all()
        assert (cache.cpu == cache.dma).all() and cache.fault is None


def test_evictions_come_by_themselves_and_repeat():
    def written_back(seed):
        cache = CacheModel(BYTES, seed)
        cache.clean_range(BASE, 4096)
        cache.cpu[BASE:BASE + 4096] = 1
        cache.evict(40)
        return np.flatnonzero(cache.dma).tolist()

    assert written_back(1) == written_back(1) != written_back(2) and 0 < len(written_back(1)) < 4096


def test_a_memory_beside_the_ddr():
    """Same rules there, under its own addresses; between both there is nothing."""
    high  = 0xFFFC_0000
    cache = CacheModel(BYTES, 1, high, 4096)
    cache.arm(high + 64, 64)
    cache.dma_high[64:128] = 7
    cache.dma_written(high + 64, 64)
    assert cache.cpu_read(high, 64) == 0 and (cache.cpu_high[64:128] != 7).all() and not cache.cpu.any()
    cache.invalidate_range(high + 64, 64)
    assert (cache.cpu_high[64:128] == 7).all() and cache.cpu_read(high + 64, 64) == 0 and cache.fault is None
    cache.cpu_high[64] = 1
    for address in (BYTES, high + 4096, high - 32):
        cache.dma_written(address, 64)
        assert cache.cpu_read(address, 64) == 0
    cache.dma_read(high + 64, 32)
    assert cache.fault == "the PL reads a line that the CPU has written and nobody has cleaned (line at 0xfffc0040)"
    cache.power_cycle()
    assert cache.cpu_high[64] == 7

# Routines -----------------------------------------------------------------------------------------


def call(board, routine, address, length):
    """Runs a routine of the firmware to its end."""
    board.returned = False
    for register, value in ((UC_ARM_REG_R0, address), (UC_ARM_REG_R1, length), (UC_ARM_REG_LR, board.back),
        (UC_ARM_REG_PC, board.elf.symbols[routine])):
        board.cpu.uc.reg_write(register, value)
    board.cpu.run(100000)
    assert board.returned


@pytest.fixture(scope="module")
def booted():
    """A board that runs its maintenance routines for real, with MMU and caches on."""
    with VirtualBoard(pl="c", strict=True) as board:
        while b"\nready" not in board.read(1):
            pass

        def returned():
            board.returned = True
            board.cpu.stop()

        board.back = board.elf.symbols["fault_stop"] + 4  # Routines return here.
        board.cpu.hook(board.back, returned)
        yield board


SPANS = [(0, 32), (0, 1), (31, 1), (31, 2), (8, 16), (8, 24), (8, 80), (0, 96), (64, 40), (3, 1000), (0, 0)]


@pytest.mark.parametrize("offset, length", SPANS)
def test_routines_line_by_line(booted, offset, length):
    """Each routine on each span, cleaned and invalidated in L1 and L2 in the order that hardware needs."""
    cache, base = booted.cache, 0x0500_0000
    span = slice(base, base + 1280)
    first, end = base + offset//LINE*LINE, base + -(-(offset + length)//LINE)*LINE
    if length == 0:
        end = first
    inside = slice(first, end)

    cache.preload(base, bytes(1280))
    cache.cpu[span] = 1
    call(booted, "cache_clean", base + offset, length)
    assert (cache.dma[inside] == 1).all() and cache.dma[span].sum() == end - first
    assert (cache.cpu[span] == 1).all()

    cache.preload(base, bytes(1280))
    pl_writes(cache, base, b"\x07"*1280)
    call(booted, "cache_invalidate", base + offset, length)
    assert (cache.cpu[inside] == 7).all() and (cache.cpu[span] == 7).sum() == end - first

    call(booted, "cache_invalidate", base, 1280)
    assert (cache.cpu[span] == 7).all()
    cache.cpu[span] = 9
    call(booted, "cache_flush", base + offset, length)
    assert (cache.dma[inside] == 9).all() and (cache.dma[span] == 9).sum() == end - first
    cache.preload(base, bytes(1280))

    cache.cpu[span] = 3
    call(booted, "cache_invalidate", base + offset, length)
    kept = (cache.cpu[base:base + offset] == 3).all() and (cache.cpu[base + offset + length:base + 1280] == 3).all()
    assert kept and cache.fault is None


def test_wrong_order_is_seen():
    """L1 before L2 lets L1 fetch what is old: the line stays stale. L2 before L1 has nothing to clean."""
    cache = model()
    pl_writes(cache, BASE, bytes(32))
    cache.l1(BASE, 0, 1)
    cache.l2(BASE, 0, 1)
    assert cache.cpu_read(BASE, 4) == 1
    cache = model()
    cache.cpu[BASE] ^= 1
    cache.l2(BASE, 1, 0)
    cache.l1(BASE, 1, 0)
    cache.dma_read(BASE, 32)
    assert cache.fault

# Every call is needed -----------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def image(head):
    return image_bytes(with_head(tiny_model(3, context=24), head))


def life(folder, head, omit=None, strict=False):
    """A board's life: upload, prompt, tokens, warm reset. Returns (what it did, maintenance calls)."""
    path = folder/"tiny.tern"
    path.write_bytes(image(head))
    board = VirtualBoard(pl="c", strict=strict, config=config_for(image(head)))
    board.omit = omit
    with Device(board, silence=3) as device:
        device.upload(path)
        did = [(event.kind, event.token, event.logits.tobytes() if event.kind == "token" else event.logits)
            for event in device.generate([2, 3, 5, 7], Sampling(ignore_eos=True), 10, logits=True)]
        board.cache.power_cycle()
        board.start()
        text = b""
        while b"\nready" not in text:
            text += board.read(1)
        did.append(text)
        return did, board.maintenance


@pytest.mark.parametrize("head, least", [("int8", 8), ("hybrid", 12)])
def test_each_maintenance_call_is_needed(tmp_path, head, least):
    """Without any one of the firmware's calls the board fails: by a fault, by other bits, or by a stop."""
    good, calls = life(tmp_path, head)
    assert {name for name, _ in calls} >= {"clean", "invalidate"} and len(calls) >= least
    survived = []
    for site in calls:
        try:
            if life(tmp_path, head, site)[0] == good:
                survived.append(site)
        except (BoardError, LinkError):
            pass
    assert not survived, [(routine, hex(address)) for routine, address in survived]


@pytest.mark.parametrize("head", ["int8", "hybrid"])
def test_strict_model_agrees(tmp_path, head):
    assert life(tmp_path, head, strict=True)[0] == life(tmp_path, head)[0]
