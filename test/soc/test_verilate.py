#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Designs as shared libraries: what is in the text, what the cache keeps apart, and what is said when a tool is missing."""

import ctypes

import pytest

from migen import Memory, Module, Signal

from litetern.soc.tools import verilate
from litetern.soc.tools.verilate import VerilateError, build, to_verilog

CPP = '''
#include "Vtop.h"
#include "verilated.h"
extern "C" __attribute__((visibility("default"))) unsigned read_rom(unsigned address) {
    static Vtop top;
    top.address = address;
    top.sys_clk = 0; top.eval();
    top.sys_clk = 1; top.eval();
    return top.value;
}
'''


def rom(contents):
    """(module, ports) of a ROM."""
    module  = Module()
    address = Signal(2,  name_override="address")
    value   = Signal(12, name_override="value")
    memory  = Memory(12, 4, init=contents)
    port    = memory.get_port()
    module.specials += memory, port
    module.comb     += port.adr.eq(address), value.eq(port.dat_r)
    return module, {address, value}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, but for Verilator's runtime, which takes long to compile."""
    runtimes = list(verilate.CACHE.glob("runtime-*")) if verilate.CACHE.exists() else []
    monkeypatch.setattr(verilate, "CACHE", tmp_path)
    for runtime in runtimes:
        (tmp_path/runtime.name).symlink_to(runtime)
    (tmp_path/"rom.cpp").write_text(CPP)
    return tmp_path


def test_memory_contents_are_part_of_the_library(cache):
    """Two ROMs that differ in one word are two libraries; each reads its own words wherever the process runs."""
    contents = ([1, 2, 3, 0xabc], [1, 2, 3, 0xabd])
    paths    = [build("rom", *rom_build(init), cflags=["-O0"]) for init in contents]
    assert paths[0] != paths[1]
    for path, init in zip(paths, contents):
        lib = ctypes.CDLL(str(path))
        assert [lib.read_rom(i) for i in range(4)] == init
    times = [path.stat().st_mtime_ns for path in paths]
    assert build("rom", *rom_build(contents[0]), cflags=["-O0"]) == paths[0]
    assert [path.stat().st_mtime_ns for path in paths] == times
    assert {path for path in cache.glob("rom-*")} == set(paths)  # No working folder is left.


def rom_build(init):
    module, ios = rom(init)
    return to_verilog(module, ios, "rom"), [verilate.CACHE/"rom.cpp"]


def test_text_has_no_date_and_repeats():
    texts = [to_verilog(*rom([5, 6, 7, 8]), "rom") for _ in range(2)]
    assert texts[0] == texts[1]
    assert "readmemh" not in texts[0] and "//" not in texts[0] and "Date" not in texts[0]


def test_source_change_is_another_library(cache):
    first = build("rom", *rom_build([1, 2, 3, 4]), cflags=["-O0"])
    (cache/"part.h").write_text("// one\n")
    (cache/"rom.cpp").write_text('#include "part.h"\n' + CPP)
    second = build("rom", *rom_build([1, 2, 3, 4]), cflags=["-O0"])
    (cache/"part.h").write_text("// two\n")
    assert len({first, second, build("rom", *rom_build([1, 2, 3, 4]), cflags=["-O0"])}) == 3


def test_broken_verilog_is_one_line(cache):
    with pytest.raises(VerilateError, match="failed: %Error.*top.v:1") as caught:
        build("rom", "module rom(input a; endmodule\n", [cache/"rom.cpp"])
    assert "\n" not in str(caught.value)


def test_missing_tools(cache, monkeypatch):
    monkeypatch.setattr(verilate.shutil, "which", lambda name: None)
    with pytest.raises(VerilateError, match="C\\+\\+ compiler not found: install"):
        build("rom", *rom_build([1, 2, 3, 4]))
    monkeypatch.setattr(verilate.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VerilateError, match="Verilator ≥ 5 not found: install"):
        build("rom", *rom_build([1, 2, 3, 4]))
