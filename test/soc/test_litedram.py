#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The accelerator in SoCs of LiteX with LiteDRAM: what is refused, and the ULX3S as the command builds it."""

import json
import subprocess
import sys

from types import SimpleNamespace

import pytest

from litetern.firmware.build import build
from litetern.model.paths import ROOT
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.litex.litedram import add_accelerator
from litetern.soc.litex.memory_map import FIRMWARE_BASE, FIRMWARE_LIMIT, MAIN_RAM_BASE
from litetern.soc.ulx3s import report
from litetern.soc.virtual.ps.elf import read_elf


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the command has put Verilog, headers and map of the ULX3S."""
    folder = tmp_path_factory.mktemp("ulx3s")
    done   = subprocess.run([sys.executable, str(ROOT/"soc"/"ulx3s.py"), "--no-compile-software", "--output-dir", str(folder),
        "--csr-json", str(folder/"csr.json"), "--ports", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_board_has_every_register(folder):
    registers = json.loads((folder/"csr.json").read_text())["csr_registers"]
    pl        = json.loads((build("a9").parent/"csr.json").read_text())["csr_registers"]
    ours      = {name for name in pl if name.startswith("accelerator_")}
    assert ours and {name for name in registers if name.startswith("accelerator_")} == ours


def test_verilog_holds_both_lanes_and_their_ports(folder):
    verilog = (folder/"gateware"/"radiona_ulx3s.v").read_text()
    for lane in (0, 1):
        assert f"hp{lane}_payload_addr" in verilog


def test_firmware_for_the_board(folder):
    elf = read_elf(build("litex", optimise="-O2", litex=folder/"software"/"include"))
    assert elf.entry == FIRMWARE_BASE == MAIN_RAM_BASE and elf.symbols["_end"] <= FIRMWARE_LIMIT


def test_impossible_accelerator_is_one_line(folder):
    done = subprocess.run([sys.executable, str(ROOT/"soc"/"ulx3s.py"), "--no-compile-software", "--output-dir", str(folder), "--ports", "7"],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == "ulx3s.py: accelerator ports = 7: must be 1 to 4"


def test_soc_without_memory_or_with_an_l2_cache_is_refused():
    with pytest.raises(ValueError, match="no SDRAM: call add_sdram"):
        add_accelerator(SimpleNamespace(), AcceleratorConfig())
    with pytest.raises(ValueError, match="l2_cache_size=0"):
        add_accelerator(SimpleNamespace(sdram=None, l2_cache=None), AcceleratorConfig())


def test_report_takes_cells_and_clock_from_the_log():
    log = """Info: Device utilisation:
Info: \t             TRELLIS_FF:  9000/43848    20%
Info: \t           TRELLIS_COMB: 20000/43848    45%
Info: Max frequency for clock '$glbnet$crg_clkout0': 55.00 MHz (PASS at 50.00 MHz)
Info: Max frequency for clock '$glbnet$crg_clkout0': 61.50 MHz (PASS at 50.00 MHz)
"""
    assert report(log) == ["TRELLIS_FF:  9000/43848    20%", "TRELLIS_COMB: 20000/43848    45%",
        "Max frequency for clock '$glbnet$crg_clkout0': 61.50 MHz (PASS at 50.00 MHz)"]
