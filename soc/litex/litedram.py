#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The accelerator in any LiteX SoC whose memory is LiteDRAM's: each lane has a port of the memory's crossbar."""

from migen import *

from litex.gen import *

from litedram.common import LiteDRAMNativePort
from litedram.frontend.axi import LiteDRAMAXI2Native

from litetern.model.formats.stream import BEAT_BYTES, BURST_BEATS
from litetern.soc.accelerator import Accelerator, AcceleratorConfig

BURSTS = 8  # That a port's buffers hold: as many as a lane has under way.

# Write Gate ---------------------------------------------------------------------------------------


class WriteGate(LiteXModule):
    """Native port whose write data stays behind its commands.

    LiteDRAM's AXI bridge counts data that a command has announced. A controller wider than the lane is reached by a converter that takes
    the first data before its command: the count would fall below 0, and no write would ever be asked for again.

    Parameters
    ----------
    to : LiteDRAMNativePort of the memory; `port` is the one for the bridge.
    """
    def __init__(self, to):
        self.port = port = LiteDRAMNativePort(to.mode, to.address_width, to.data_width, to.clock_domain, to.id)

        # # #

        announced = Signal(max=2*BURSTS*BURST_BEATS)  # Data whose command has been taken.
        command   = port.cmd.valid & port.cmd.ready & port.cmd.we
        data      = port.wdata.valid & port.wdata.ready
        self.comb += [
            port.cmd.connect(to.cmd),
            port.wdata.connect(to.wdata, omit={"valid", "ready"}),
            to.wdata.valid.eq(port.wdata.valid & (announced != 0)),
            port.wdata.ready.eq(to.wdata.ready & (announced != 0)),
            to.rdata.connect(port.rdata),
            to.flush.eq(port.flush),
            port.lock.eq(to.lock),
        ]
        self.sync += announced.eq(announced + command - data)

# Accelerator on LiteDRAM --------------------------------------------------------------------------


def add_accelerator(soc, config=AcceleratorConfig()):
    """Adds ``litetern.soc.accelerator``, registers and memory ports, to a SoC that has called ``add_sdram()``; returns it.

    Lanes see memory as the CPU does: addresses of the region ``main_ram``. ValueError where the SoC has no LiteDRAM, or an L2 cache
    between the CPU and the memory, which the lanes would pass by.
    """
    if not hasattr(soc, "sdram"):
        raise ValueError("the SoC has no SDRAM: call add_sdram() before add_accelerator()")
    if hasattr(soc, "l2_cache"):
        raise ValueError("the SoC has an L2 cache that the accelerator's ports pass by: call add_sdram() with l2_cache_size=0")
    soc.accelerator = Accelerator(config)
    for i, axi in enumerate(soc.accelerator.ports):
        port = soc.sdram.crossbar.get_port(data_width=8*BEAT_BYTES)
        if soc.sdram.crossbar.controller.data_width > 8*BEAT_BYTES:
            gate = WriteGate(port)
            soc.add_module(f"accelerator_gate{i}", gate)
            port = gate.port
        soc.add_module(f"accelerator_port{i}", LiteDRAMAXI2Native(
            axi            = axi,
            port           = port,
            base_address   = soc.bus.regions["main_ram"].origin,
            w_buffer_depth = BURSTS*BURST_BEATS,
            r_buffer_depth = BURSTS*BURST_BEATS,
        ))
    return soc.accelerator
