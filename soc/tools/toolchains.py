#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""From LiteX's toolchains to ours: which ones this machine has, a Vivado flow that refuses a bitstream that is too slow, Yosys alone."""

import os
import pathlib
import re
import shutil

from dataclasses import dataclass

from litex.build.generic_toolchain import GenericToolchain

from litetern.soc.tools.verilate import self_contained
from litetern.soc.tools.yosys import find_yosys, synthesize

# What there is ------------------------------------------------------------------------------------

# Toolchain of LiteX: (programs, variables and folders that it needs beside them, where it comes from).
TOOLS = {
    "vivado"        : (("vivado",), {}, "AMD Vivado ML Standard (free for this chip): source its settings64.sh"),
    "openxc7"       : (("yosys", "nextpnr-xilinx", "fasm2frames", "xc7frames2bit"), {"CHIPDB": "", "PRJXRAY_DB_DIR":
        "/snap/openxc7/current/opt/nextpnr-xilinx/external/prjxray-db/"}, "openXC7 (https://github.com/openXC7/toolchain-installer)"),
    "yosys+nextpnr" : (("yosys", "nextpnr-xilinx", "fasm2frames.py", "xc7frames2bit"), {}, "nextpnr-xilinx and prjxray's tools"),
}
INSTALL = "install Vivado or openXC7 for one"


def lacking(toolchain):
    """What this machine lacks for a toolchain, in words; "": nothing."""
    if toolchain == "yosys":
        try:
            find_yosys()
        except ValueError as error:
            return str(error)
        return ""
    programs, variables, origin = TOOLS[toolchain]
    missing = [name for name in programs if shutil.which(name) is None]
    missing += [f"${name}" for name, default in variables.items() if not os.path.isdir(os.environ.get(name) or default)]
    return f"{', '.join(missing)} not found: {origin}" if missing else ""


def choose():
    """The first toolchain that is there: one that ends in a bitstream, else "yosys"."""
    return next((name for name in ("vivado", "openxc7") if not lacking(name)), "yosys")

# Vivado -------------------------------------------------------------------------------------------


WORST_PATHS = 10


def guard_timing(toolchain):
    """Vivado writes no bitstream for a design that misses its clock, and leaves the worst paths in <name>_worst.rpt."""
    toolchain.bitstream_commands += [  # LiteX formats them: braces are doubled.
        f"report_timing -max_paths {WORST_PATHS} -sort_by slack -file {{build_name}}_worst.rpt",
        "foreach kind {{max min}} {{",
        "    set slack [get_property SLACK [get_timing_paths -delay_type $kind]]",
        "    if {{$slack < 0}} {{ error \"timing is not met, the worst $kind path misses by $slack ns: no bitstream\" }}",
        "}}",
    ]
    toolchain.additional_commands += ["write_cfgmem -force -format bin -interface smapx32 -disablebitswap -loadbit \"up 0 {build_name}.bit\" {build_name}.bit.bin"]


@dataclass
class Path:
    """A path of Vivado's report: slack in ns, levels of logic, from, to."""
    slack  : float
    levels : int
    start  : str
    end    : str

    def __str__(self):
        return f"{self.slack:+.3f} ns, {self.levels} levels: {self.start} to {self.end}"


def worst_paths(text):
    """[Path] of a report by report_timing."""
    paths = []
    for part in re.split(r"^Slack ", text, flags=re.M)[1:]:
        slack  = re.match(r"\(\w+\)\s*:\s*(-?[\d.]+)ns", part)
        start  = re.search(r"^\s*Source:\s+(\S+)", part, re.M)
        end    = re.search(r"^\s*Destination:\s+(\S+)", part, re.M)
        levels = re.search(r"^\s*Logic Levels:\s+(\d+)", part, re.M)
        if slack and start and end:
            paths.append(Path(float(slack[1]), int(levels[1]) if levels else 0, start[1], end[1]))
    return sorted(paths, key=lambda path: path.slack)

# Yosys --------------------------------------------------------------------------------------------


class YosysToolchain(GenericToolchain):
    """Verilog to a netlist for xc7, and no further. `netlist`: what came of it (`litetern.soc.tools.yosys.Netlist`)."""
    attr_translate = {}
    netlist        = None

    def build(self, platform, fragment, build_dir="build", build_name="top", run=True, **kwargs):
        """Writes <name>.v and, with `run`, <name>.json; returns LiteX's namespace."""
        folder = pathlib.Path(build_dir)
        folder.mkdir(parents=True, exist_ok=True)
        fragment = fragment if not hasattr(fragment, "get_fragment") else fragment.get_fragment()
        platform.finalize(fragment)
        output  = platform.get_verilog(fragment, name=build_name)
        sources = [self_contained(output), *(pathlib.Path(file).read_text() for file, *_ in platform.sources)]
        (folder/f"{build_name}.v").write_text(sources[0])
        if run:
            self.netlist = synthesize(build_name, "\n".join(sources))
            (folder/f"{build_name}.json").write_bytes(self.netlist.path.read_bytes())
        return output.ns

    def add_period_constraint(self, platform, clk, period, **_):
        """No timing is checked here."""

    def add_false_path_constraint(self, platform, from_, to):
        """Nor here."""
