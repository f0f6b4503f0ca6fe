#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The programmable logic as the processing system sees it: registers behind GP0, memory masters on HP ports, interrupts.

One module serves the virtual board (its ports are the Verilated design's) and the bitstream (the PS7 primitive connects to them).
"""

import concurrent.futures
import contextlib
import hashlib
import json
import logging
import os
import re

from pathlib import Path

from migen import *
from migen.fhdl import tracer

from litex.gen import *

from litex.build.generic_platform import GenericPlatform

from litex.soc.integration import export
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import axi

from litetern.model.paths import BUILD
from litetern.soc.accelerator import Accelerator, AcceleratorConfig
from litetern.soc.tools.verilate import to_verilog

CSR_BASE = 0x4000_0000  # Where the PS sees GP0.
_TRACER  = tracer.name_to_idx, tracer.classname_to_objs  # What Migen's naming remembers.


@contextlib.contextmanager
def quiet():
    """LiteX reports each step of a SoC's construction: a library stays silent."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)

# PL -----------------------------------------------------------------------------------------------


class PL(SoCMini):
    """LiteX SoC without a CPU of its own: the PS is the master.

    gp0   : AXIInterface (axi3, 32-bit) that the PS drives, single beats.
    hp    : AXIInterfaces (axi3, 64-bit) that the accelerator drives; lane i of two goes to HP0 and HP2.
    irqs  : one interrupt per lane.
    idle  : nothing runs and nothing is on its way.
    """
    mem_map = {"csr": CSR_BASE}

    def __init__(self, config=AcceleratorConfig(), platform=None, cores=None):
        with quiet():
            SoCMini.__init__(self, platform or GenericPlatform("", [], name="pl"), config.clock_hz,
                bus_standard = "wishbone",
                ident        = "",
                with_ctrl    = False,
                with_timer   = False,
                with_uart    = False,
            )
            self.gp0 = axi.AXIInterface(data_width=32, address_width=32, id_width=12, version="axi3", name="gp0")
            self.bus.add_master(name="gp0", master=self.gp0)

            self.accelerator = Accelerator(config, cores)
            self.csr.add("accelerator", 0)
        self.hp   = self.accelerator.ports
        self.irqs = self.accelerator.irqs
        self.idle = self.accelerator.idle

    def finalize(self):
        with quiet():
            SoCMini.finalize(self)

    def add_csr_bridge(self, name="csr", origin=None, register=True):
        """With registers: the way from GP0 to the register bank is too long for a cycle."""
        SoCMini.add_csr_bridge(self, name, origin, register=True)

    def ports(self):
        """{name: Signal} of everything that crosses the module's border; AXI signals are called ``<bus>_<channel>_<signal>``."""
        signals = {"irqs": self.irqs, "idle": self.idle}
        for bus, interface in (("gp0", self.gp0), *((f"hp{i}", port) for i, port in enumerate(self.hp))):
            for channel, name, _ in interface.layout_flat():
                if name in ("first", "dest", "user", "region", "qos") or (name == "last" and channel not in "wr"):
                    continue
                signals[f"{bus}_{channel}_{name}"] = getattr(getattr(interface, channel), name)
        for name, signal in signals.items():
            signal.name_override = name
        return signals

    def registers(self):
        """({register: byte address}, {register: {field: (lowest bit, bits)}}) of the finalised PL."""
        registers = json.loads(export.get_csr_json(self.csr.regions, self.constants, self.bus.regions))["csr_registers"]
        fields    = {f"{bank}_{csr.name}": {field.name: (field.offset, field.size) for field in csr.fields.fields}
            for bank, region in self.csr.regions.items() for csr in region.obj if hasattr(csr, "fields")}
        return {name: register["addr"] for name, register in registers.items()}, fields

# Instance -----------------------------------------------------------------------------------------


def elaborate(config=AcceleratorConfig()):
    """(PL, its Verilog text: module `pl`), the same for Verilator and for the bitstream.

    Migen names signals by the functions that lead to them, and numbers by what came before: here nothing leads to it (a thread of its own)
    and nothing came before, so that the text depends on the configuration alone.
    """
    def make():
        pl = PL(config)
        return pl, pl_verilog(pl)
    before = [dict(memory) for memory in _TRACER]
    try:
        for memory in _TRACER:
            memory.clear()
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(make).result()
    finally:
        for memory, content in zip(_TRACER, before):
            memory.update(content)


def pl_verilog(pl):
    """Verilog text of a PL, module `pl`."""
    return to_verilog(pl, pl.ports().values(), "pl")


class PLInstance(LiteXModule):
    """A PL as a black box in a SoC: what stands in its place is the text that Verilator runs, byte for byte.

    config   : AcceleratorConfig of the `PL`. `verilog`: its text.
    gp0, hp  : AXIInterfaces, as of the PL.
    irqs     : one interrupt per lane.
    """
    def __init__(self, config):
        pl, self.verilog = elaborate(config)
        self.regions = pl.csr.regions  # Of LiteX's exporters.
        self.gp0     = axi.AXIInterface(data_width=32, address_width=32, id_width=12, version="axi3", name="gp0")
        self.hp      = [axi.AXIInterface(data_width=64, address_width=32, id_width=6, version="axi3", name=f"hp{i}") for i in range(len(pl.hp))]
        self.irqs    = Signal(len(pl.irqs))

        # # #

        signals = {"irqs": self.irqs, "sys_clk": ClockSignal("sys"), "sys_rst": ResetSignal("sys")}
        for bus, interface in (("gp0", self.gp0), *((f"hp{i}", port) for i, port in enumerate(self.hp))):
            for channel, name, _ in interface.layout_flat():
                signals[f"{bus}_{channel}_{name}"] = getattr(getattr(interface, channel), name)
        header = self.verilog[:self.verilog.index(");")]
        ports  = re.findall(r"^\s*(input|output)\b[^,\n]*?(\w+)\s*,?\s*$", header, re.M)
        self.specials += Instance("pl", **{f"{direction[0]}_{name}": signals[name] for direction, name in ports if name != "idle"})

# Export -------------------------------------------------------------------------------------------


def export_csrs(config=AcceleratorConfig(), folder=None):
    """Writes the register description of the PL by LiteX's exporters; returns the folder (a Path).

    ::

        <folder>/generated/csr.h   addresses, fields and access functions   #include <generated/csr.h>
        <folder>/generated/soc.h   constants
        <folder>/system.h          empty; csr.h asks for it
        <folder>/csr.json          the same for Python

    C needs ``-I <folder>`` and ``-I`` `litex_include()`. Without `folder` it is build/csr-<hash of the configuration>. No dates, and
    files are written only where they change, so that makefiles can depend on them.
    """
    pl = PL(config)
    pl.finalize()
    key    = hashlib.sha256(repr(config).encode()).hexdigest()[:12]
    folder = Path(folder) if folder is not None else BUILD/f"csr-{key}"
    files  = {
        "generated/csr.h" : export.get_csr_header(pl.csr.regions, pl.constants, with_fields_access_functions=True),
        "generated/soc.h" : export.get_soc_header(pl.constants),
        "system.h"        : "/* Nothing: generated/csr.h includes it. */\n",
        "csr.json"        : export.get_csr_json(pl.csr.regions, pl.constants, pl.bus.regions),
    }
    for name, text in files.items():
        text = re.sub(r"^// Auto-generated by LiteX.*$", "// Auto-generated by LiteX.", text, flags=re.M)
        path = folder/name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(text)
            os.replace(partial, path)
    return folder


def litex_include():
    """Folder of LiteX's C headers (hw/common.h)."""
    return Path(export.__file__).resolve().parent.parent/"software"/"include"

