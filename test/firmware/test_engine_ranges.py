#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The memory that the firmware allows the PL: what its lists name, and nothing else. What goes beyond is one line, and the board goes on."""

import numpy as np
import pytest

from firmware_engine import *
from litetern.host.link.device import Device
from litetern.host.link.protocol import LinkError
from litetern.soc.accelerator import READS, WRITES
from litetern.soc.virtual.board import VirtualBoard
from litetern.soc.zynq.memory_map import IMAGE_BASE, RESULTS_BASE, RESULTS_BYTES
from engine_text import TEXT, expect_tokens
from tiny_board import GREEDY, PROMPT, image, reference, tokens_of, write_tiny


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("board"))

# Engine -------------------------------------------------------------------------------------------


def bus(engine, address):
    """Bus address of a pointer."""
    build = engine.build
    return address - int(build.view(engine.pl + build.pointer_bytes, np.uint32 if build.pointer_bytes == 4 else np.uint64, 1)[0])


def test_the_pl_may_touch_what_the_lists_name(c, tiny):
    """Image and arena to read, the arena's results and the memory for results to write; no byte twice."""
    packed, model = tiny
    for results_bytes in (0, 65536):
        engine = Engine(c, packed, results_bytes=results_bytes)
        (image_first, image_last), (first, last), written, on_chip = engine.ranges.tolist()
        start  = bus(engine, engine.arena)
        assert (image_first, image_last) == (bus(engine, engine.image), bus(engine, engine.image) + len(packed) - 1)
        assert first == start < last < start + c.call("engine_arena_bytes", engine.image, 1, engine.context, engine.pl)
        if results_bytes:
            assert on_chip == [bus(engine, engine.results), bus(engine, engine.results) + results_bytes - 1]
        else:
            assert on_chip == [2**32 - 1, 0] and written[0] == last + 1
        expect_tokens(engine, model, TEXT, 2)


def test_an_engine_that_is_not_ready_allows_nothing(host, tiny):
    image, _ = tiny
    engine   = Engine(host, image)
    assert engine.ranges[0, 0] < engine.ranges[0, 1]
    damaged  = host.put(bytes([*image[:60], image[60] ^ 1, *image[61:]]))
    assert host.call("engine_init", engine.engine, damaged, len(image), engine.arena, engine.arena_bytes, 1, engine.pl) == ERROR_IMAGE
    assert (engine.ranges == [2**32 - 1, 0]).all()


RANGES = {"image": 0, "arena": 1, "results": 2}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("end", [0, 1])
def test_each_end_of_each_range_is_in_use(c, tiny, name, end):
    """A burst less (of the image, whose ends no list names, all but one): some list is refused, and in one line; then all is well."""
    image, model = tiny
    engine = Engine(c, image)
    bounds = engine.ranges[RANGES[name]]
    kept   = int(bounds[end])
    if name == "image":
        bounds[end] = int(bounds[1 - end])
    else:
        bounds[end] = kept + (128, -128)[end]
    assert engine.generate(TEXT, 4, ignore_eos=True) == OK
    assert [(event.kind, event.error) for event in engine.events()][-1] == (ERROR, ERROR_RANGE)
    bounds[end] = kept
    expect_tokens(engine, model, TEXT, 2)

# Board --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pl", ["c", "rtl"])
def test_the_firmware_sets_every_range(path, pl):
    with VirtualBoard(path, pl) as board:
        def bounds():
            return {name: tuple(board.pl.read(board.pl.registers[f"accelerator_{name}_{end}"]) for end in ("first", "last"))
                for name in READS + WRITES}
        touched, real = [], board.cache
        before = bounds()
        assert before == {name: (2**32 - 1, 0) for name in before}

        def hook(write, address, bytes):
            touched.append((bool(write), address, address + bytes))
            (real.dma_written if write else real.dma_read)(address, bytes)

        board.pl.set_hook(hook)
        with Device(board) as device:
            assert tokens_of(device.generate(PROMPT, GREEDY, 2)) == reference(PROMPT, 2)[0]
            ranges = bounds()
            assert ranges["read0"] == (IMAGE_BASE, IMAGE_BASE + len(image()[0]) - 1)
            assert ranges["write0"] == (2**32 - 1, 0)  # All results of so small a model are on chip.
            assert ranges["write1"] == (RESULTS_BASE, RESULTS_BASE + RESULTS_BYTES - 1)
            assert IMAGE_BASE + len(image()[0]) <= ranges["read1"][0] < ranges["read1"][1]
            read = [(first, end) for write, first, end in touched if not write]
            assert min(read)[0] >= ranges["read0"][0] and max(end for _, end in read) <= ranges["read1"][1] + 1


@pytest.mark.parametrize("base, behind", [(IMAGE_BASE + 128, True), (0x0800_0000, True), (0x1800_0000, False)])
def test_the_arena_lies_where_more_is_free(path, base, behind):
    """Behind an image that the boot script has left low, before one that it has left high."""
    with VirtualBoard(path, "c", image_base=base) as board, Device(board) as device:
        assert tokens_of(device.generate(PROMPT, GREEDY, 2)) == reference(PROMPT, 2)[0]
        bounds = {name: board.pl.read(board.pl.registers[f"accelerator_{name}"]) for name in ("read0_first", "read1_first", "read1_last")}
        assert bounds["read0_first"] == base
        assert bounds["read1_first"] > base if behind else bounds["read1_first"] == IMAGE_BASE and bounds["read1_last"] < base


@pytest.mark.parametrize("pl", ["c", "rtl"])
@pytest.mark.parametrize("name, end", [("read0", "last"), ("read1", "first"), ("read1", "last"), ("write1", "first"), ("write1", "last")])
def test_a_list_beyond_a_range_is_one_line(path, pl, name, end):
    """A range shrinks behind the firmware's back to its other end."""
    with VirtualBoard(path, pl) as board, Device(board) as device:
        assert tokens_of(device.generate(PROMPT, GREEDY, 1)) == reference(PROMPT, 1)[0]
        registers = {end: board.pl.registers[f"accelerator_{name}_{end}"] for end in ("first", "last")}
        kept      = board.pl.read(registers[end])
        board.pl.write(registers[end], board.pl.read(registers["first" if end == "last" else "last"]))
        device.reset()
        failed = device.stats()["pl_errors"]
        with pytest.raises(LinkError, match="the accelerator refused an address outside of the model's memory"):
            list(device.generate(PROMPT, GREEDY, 3))
        assert device.stats()["pl_errors"] > failed
        board.pl.write(registers[end], kept)
        assert tokens_of(device.generate(PROMPT, GREEDY, 3)) == reference(PROMPT, 3)[0]
