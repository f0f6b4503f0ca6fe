#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What Zynq boards have in common: where things lie in the DDR, and what the boot script hands to the firmware."""

from litetern.model.common.layout import Struct
from litetern.model.formats.image import IMAGE_LIMIT

# Memory -------------------------------------------------------------------------------------------

DDR_BYTES      = 512 << 20
FIRMWARE_BASE  = 0x0010_0000  # The first MB stays unmapped: a null pointer faults.
FIRMWARE_LIMIT = 0x0400_0000
ARENA_BASE     = 0x0400_0000  # KV caches and buffers of models whose image leaves no better room.
HANDOVER_BASE  = 0x07FF_F000  # Ends the part below the image.
IMAGE_BASE     = DDR_BYTES - IMAGE_LIMIT  # The boot script loads the image here; what the image leaves free is the arena.
DDR_END        = DDR_BYTES

# On-chip memory, mapped high. The PL writes results there without taking bandwidth from the DDR; its last page is core 1's, which the
# boot ROM has parked in it.
OCM_BASE      = 0xFFFC_0000
OCM_BYTES     = 256 << 10
RESULTS_BASE  = OCM_BASE
RESULTS_BYTES = OCM_BYTES - 4096

DDR_BYTES_PER_SECOND = 2.009e9  # What two HP ports were measured to read: the wall.

# Hand-over ----------------------------------------------------------------------------------------

HANDOVER_MAGIC = int.from_bytes(b"LTGO", "little")

# The stock boot image brings a bitstream of its own: only the script that loads ours writes this word, and the firmware clears it.
HANDOVER = Struct("handover", "Left in the DDR by the boot script.", [
    ("magic",       "u4",  "HANDOVER_MAGIC: the script has loaded LiteTern's bitstream."),
    ("image_bytes", "u4",  "Length of the image at IMAGE_BASE; 0: none."),
    ("pl_build",    "S24", "Build hash of the bitstream."),
])

STRUCTS   = (HANDOVER,)
CONSTANTS = ("DDR_BYTES", "FIRMWARE_BASE", "FIRMWARE_LIMIT", "ARENA_BASE", "HANDOVER_BASE", "HANDOVER_MAGIC", "IMAGE_BASE", "DDR_END",
    "OCM_BASE", "OCM_BYTES", "RESULTS_BASE", "RESULTS_BYTES")

# Clocks -------------------------------------------------------------------------------------------

PS_CLOCK_HZ    = 50_000_000        # Crystal of the PYNQ-Z1.
CPU_CLOCK_HZ   = 650_000_000
TIMER_CLOCK_HZ = CPU_CLOCK_HZ//2  # Global timer, before its prescaler.
