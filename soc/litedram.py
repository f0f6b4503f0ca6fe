#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The accelerator in any LiteX SoC whose memory is LiteDRAM's: each lane has a port of the memory's crossbar."""

from litedram.frontend.axi import LiteDRAMAXI2Native

from model.stream import BEAT_BYTES, BURST_BEATS
from soc.accelerator import Accelerator, AcceleratorConfig

BURSTS = 8  # That a port's buffers hold: as many as a lane has under way.

# Accelerator on LiteDRAM --------------------------------------------------------------------------


def add_accelerator(soc, config=AcceleratorConfig()):
    """Adds ``soc.accelerator``, registers and memory ports, to a SoC that has called ``add_sdram()``; returns it.

    Lanes see memory as the CPU does: addresses of the region ``main_ram``. ValueError where the SoC has no LiteDRAM, or an L2 cache
    between the CPU and the memory, which the lanes would pass by.
    """
    if not hasattr(soc, "sdram"):
        raise ValueError("the SoC has no SDRAM: call add_sdram() before add_accelerator()")
    if hasattr(soc, "l2_cache"):
        raise ValueError("the SoC has an L2 cache that the accelerator's ports pass by: call add_sdram() with l2_cache_size=0")
    soc.accelerator = Accelerator(config)
    for i, axi in enumerate(soc.accelerator.ports):
        soc.add_module(f"accelerator_port{i}", LiteDRAMAXI2Native(
            axi            = axi,
            port           = soc.sdram.crossbar.get_port(data_width=8*BEAT_BYTES),
            base_address   = soc.bus.regions["main_ram"].origin,
            w_buffer_depth = BURSTS*BURST_BEATS,
            r_buffer_depth = BURSTS*BURST_BEATS,
        ))
    return soc.accelerator
