#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LiteX's simulator with the accelerator on LiteDRAM: a soft CPU that runs the firmware, or none and a host on the bus.

    python soc/sim.py                              console of the firmware on VexRiscv (help lists its commands)
    python soc/sim.py --selftest --non-interactive the self-test; the exit status tells how it ended
    python soc/sim.py --uart-tcp-port 4321         the UART as a port: host/chat.py --board serial:socket://localhost:4321
    python soc/sim.py --cpu-type None              registers and memory at socket://localhost:4321 for litex_server
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "migen", "litex", "litedram", "litescope", "pythondata_cpu_vexriscv", "pythondata_misc_tapcfg", extra="sim")

import os
import sys

from pathlib import Path

from migen import *

from litex.gen import *

from litex.build.generic_platform import Pins, Subsignal
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.build.sim.config import SimConfig
from litex.build.sim.platform import SimFinish
from litex.soc.cores.uart import RS232PHYModel, UARTBone
from litex.soc.integration.soc_core import SoCCore
from litex.build.parser import LiteXArgumentParser  # Behind soc_core: LiteX imports it in a circle.

from litedram import modules as litedram_modules
from litedram.phy.model import SDRAMPHYModel, sdram_module_nphases

from litetern.model.common import console
from litetern.model.common.progress import Progress
from litetern.model.paths import BUILD
from litetern.soc.accelerator import AcceleratorConfig, accelerator_argdict, accelerator_args
from litetern.soc.litex.builder import FirmwareBuilder
from litetern.soc.litex.litedram import add_accelerator
from litetern.soc.litex.memory_map import MAIN_RAM_BASE
from litetern.soc.litex.sim import session
from litetern.soc.litex.sim.simulator import compile_simulator, copy_modules

SYS_CLK_FREQ   = int(1e6)      # As in litex_sim: a cycle is a microsecond of the SoC's timers.
SDRAM_CLK_FREQ = int(100e6)    # Timing of the SDRAM.
UARTBONE_CLOCK = int(1e9)      # The bridge gives up a request after a tenth of its "second": a host may be slow.
SDRAM_MODULES  = sorted(name for name, item in vars(litedram_modules).items()
    if isinstance(item, type) and getattr(item, "memtype", "") == "SDR" and hasattr(item, "nbanks"))
SDRAM_WIDTHS   = (16, 32, 64, 128)
PORT           = 4321
ANALYZER_DEPTH = 512

# Platform -----------------------------------------------------------------------------------------

_io = [
    ("sys_clk", 0, Pins(1)),
    ("serial", 0,
        Subsignal("source_valid", Pins(1)),
        Subsignal("source_ready", Pins(1)),
        Subsignal("source_data",  Pins(8)),
        Subsignal("sink_valid",   Pins(1)),
        Subsignal("sink_ready",   Pins(1)),
        Subsignal("sink_data",    Pins(8)),
    ),
]


class Platform(SimPlatform):
    def __init__(self):
        SimPlatform.__init__(self, "SIM", list(_io))

# SoC ----------------------------------------------------------------------------------------------


class SimSoC(SoCCore):
    """SoC with LiteDRAM on a model of an SDRAM, the accelerator on its crossbar, and the firmware in it or a host beside it.

    sdram_init : words [uint32] that the memory holds at the start.
    """
    def __init__(self, config, sdram_module="MT48LC4M16", sdram_data_width=64, sdram_verbosity=0, sdram_init=(), with_analyzer=False,
        sim_debug=False, trace_reset_on=False, analyzer_csv="analyzer.csv", **kwargs):
        platform = Platform()
        self.crg = CRG(platform.request("sys_clk"))

        # SoCCore ----------------------------------------------------------------------------------
        SoCCore.__init__(self, platform, clk_freq=SYS_CLK_FREQ, ident="LiteTern on LiteX's simulator", **kwargs)

        # UARTBone ---------------------------------------------------------------------------------
        if self.cpu_type is None:
            self.uartbone_phy = RS232PHYModel(platform.request("serial"))
            self.uartbone     = UARTBone(self.uartbone_phy, UARTBONE_CLOCK, address_width=self.bus.address_width)
            self.bus.add_master(name="uartbone", master=self.uartbone.wishbone)

        # SDRAM ------------------------------------------------------------------------------------
        module_class = getattr(litedram_modules, sdram_module)
        module       = module_class(SDRAM_CLK_FREQ, f"1:{sdram_module_nphases[module_class.memtype]}")
        self.sdrphy  = SDRAMPHYModel(module,
            data_width = sdram_data_width,
            clk_freq   = SDRAM_CLK_FREQ,
            verbosity  = sdram_verbosity,
            init       = list(sdram_init),
        )
        self.add_sdram("sdram", phy=self.sdrphy, module=module, origin=MAIN_RAM_BASE, l2_cache_size=0)

        # Accelerator ------------------------------------------------------------------------------
        add_accelerator(self, config)

        # End of the simulation, tracing -----------------------------------------------------------
        if sim_debug:
            platform.add_debug(self, reset=int(trace_reset_on))
        else:
            self.sim_finish = SimFinish()
            self.comb += platform.trace.eq(1)

        # Analyzer ---------------------------------------------------------------------------------
        if with_analyzer:
            from litescope import LiteScopeAnalyzer
            lane = self.accelerator.lanes[0]
            port = self.accelerator.ports[0]
            self.analyzer = LiteScopeAnalyzer([
                port.ar.valid, port.ar.ready, port.ar.addr, port.ar.len,
                port.r.valid,  port.r.ready,  port.r.data,  port.r.last,
                port.aw.valid, port.aw.ready, port.aw.addr, port.aw.len,
                port.w.valid,  port.w.ready,  port.w.data,  port.w.last,
                lane.reader.source.valid, lane.reader.source.ready, lane.writer.sink.valid, lane.writer.sink.ready,
            ], depth=ANALYZER_DEPTH, clock_domain="sys", samplerate=SYS_CLK_FREQ, csr_csv=analyzer_csv)

# Build --------------------------------------------------------------------------------------------


def build(soc, sim_config, output_dir, say=lambda text: None, **toolchain):
    """Builds the simulator of a SoC; returns the folder to run it in (a Path). `say` is called with a line before it compiles."""
    builder = FirmwareBuilder(soc, output_dir=str(output_dir), csr_csv=str(Path(output_dir)/"csr.csv"))
    folder  = Path(builder.gateware_dir)
    extra_mods, extra_mods_path = copy_modules(folder.resolve()/"extra")
    builder.build(sim_config=sim_config, run=False, extra_mods=extra_mods, extra_mods_path=extra_mods_path, **toolchain)
    sources = [file for file, *_ in soc.platform.sources if Path(file).is_absolute()]
    compile_simulator(folder, sources, say=say)
    return folder

# Arguments ----------------------------------------------------------------------------------------


def sim_args(parser):
    # SDRAM.
    parser.add_argument("--with-sdram",       action="store_true", default=True,  help="Always: the accelerator works on it.")
    parser.add_argument("--sdram-module",     default="MT48LC4M16",               help="SDRAM chip.")
    parser.add_argument("--sdram-data-width", default=64, type=int,               help="Width of the SDRAM in bits.")
    parser.add_argument("--sdram-init",       default=None,                       help="File that the SDRAM holds at the start (.bin; without a CPU).")
    parser.add_argument("--sdram-verbosity",  default=0, type=int,                help="Of the checker of the SDRAM's commands.")

    # Accelerator: small, it is simulated; the firmware uses two lanes.
    accelerator_args(parser, row_weights_max=4096, head_dim_max=64, queries_max=2, rows_max=512)

    # Software.
    parser.add_argument("--image",            default=None,                       help="Image of a model (host/pack.py); default: a random micro model.")
    parser.add_argument("--selftest",         action="store_true",                help="Run the self-test after the start.")
    parser.add_argument("--generate",         default=0, type=int,                help="Generate so many tokens after the start.")
    parser.add_argument("--uart-tcp-port",    default=None, type=int,             help="Serve the UART, or without a CPU the bus, at this port of localhost.")
    parser.add_argument("--timeout",          default=1800, type=float,           help="Seconds that a run with --non-interactive may take.")

    # Debug.
    parser.add_argument("--with-analyzer",    action="store_true",                help="LiteScope on the first lane (csr.csv and analyzer.csv in the output folder).")
    parser.add_argument("--sim-debug",        action="store_true",                help="Registers that start and stop the trace, mark it, end the simulation.")
    parser.add_argument("--non-interactive",  action="store_true",                help="Run without input, and end by itself.")
    parser.add_argument("--build-only",       action="store_true",                help="Compile the simulator and leave.")


def parse(argv=None):
    """(parser, args): litex_sim's options and ours."""
    parser = LiteXArgumentParser()
    parser.prog, parser.description = "sim.py", __doc__.splitlines()[0]  # LiteX's class takes keywords for the program's name.
    parser.set_platform(SimPlatform)
    parser.set_defaults(output_dir=str(BUILD/"sim"), integrated_rom_size=0, cpu_reset_address=MAIN_RAM_BASE, l2_size=0,
        jobs=os.cpu_count(), log_level="warning")
    sim_args(parser)
    return parser, parser.parse_args(argv)


def simulate(parser, args):
    """Builds and runs; returns the exit status."""
    if args.l2_size:
        raise ValueError(f"--l2-size {args.l2_size}: must be 0, the accelerator's ports pass an L2 cache by")
    if args.sdram_module not in SDRAM_MODULES:
        raise ValueError(f"--sdram-module {args.sdram_module}: must be one of {', '.join(SDRAM_MODULES)}")
    if args.sdram_data_width not in SDRAM_WIDTHS:
        raise ValueError(f"--sdram-data-width {args.sdram_data_width}: must be one of {', '.join(map(str, SDRAM_WIDTHS))}")
    kwargs     = parser.soc_argdict
    cpu        = args.cpu_type not in (None, "None")
    if cpu and args.cpu_type != "vexriscv":
        raise ValueError(f"--cpu-type {args.cpu_type}: must be vexriscv, for which the firmware is built, or None")
    port       = args.uart_tcp_port if cpu or args.uart_tcp_port is not None else PORT
    sim_config = SimConfig()
    sim_config.add_clocker("sys_clk", freq_hz=SYS_CLK_FREQ)
    if port is None:
        sim_config.add_module("serial2console", "serial")
    else:
        sim_config.add_module("serial2socket", "serial", args={"port": port})
    if cpu:
        kwargs["uart_name"] = "sim"
    else:
        kwargs |= {"with_uart": False, "cpu_reset_address": None}
    kwargs |= dict(
        config           = AcceleratorConfig(**accelerator_argdict(args), clock_hz=SYS_CLK_FREQ),
        sdram_module     = args.sdram_module,
        sdram_data_width = args.sdram_data_width,
        sdram_verbosity  = args.sdram_verbosity,
        with_analyzer    = args.with_analyzer,
        analyzer_csv     = str(Path(args.output_dir)/"analyzer.csv"),
        sim_debug        = args.sim_debug,
        trace_reset_on   = args.trace and (float(args.trace_start) > 0 or float(args.trace_end) > 0),
    )
    progress = Progress()
    progress.show("preparing the SoC and its firmware" if cpu else "preparing the SoC")
    try:
        kwargs["sdram_init"] = session.memory_words(args, SimSoC, kwargs) if cpu else session.file_words(args.sdram_init)
        folder = build(SimSoC(**kwargs), sim_config, args.output_dir, progress.show, **parser.toolchain_argdict)
    finally:
        progress.end()
    return 0 if args.build_only else session.run(folder, args, cpu)


def main():
    parser, args = parse()
    return simulate(parser, args)


if __name__ == "__main__":
    console.run(main)
