#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What Zynq boards have in common: where things lie in the DDR, and what the boot script hands to the firmware."""

from litetern.model.common.layout import Struct

# Memory -------------------------------------------------------------------------------------------

DDR_BYTES      = 512 << 20
FIRMWARE_BASE  = 0x0010_0000  # The first MB stays unmapped: a null pointer faults.
HANDOVER_BASE  = 0x003F_F000
FIRMWARE_LIMIT = HANDOVER_BASE
IMAGE_BASE     = 0x0040_0000  # Lowest place of an image, and an upload's; what the image leaves free is the arena: KV caches and buffers.
DDR_END        = DDR_BYTES
MODEL_BYTES    = DDR_END - IMAGE_BASE  # Image and arena.

# U-Boot, which loads the image, relocates itself to the top of the RAM, its heap and stack below it (its documentation, "Memory
# Management"): what it loads must end before. Once the firmware runs, the arena may lie there.
LOADER_BYTES   = 32 << 20
IMAGE_LIMIT    = MODEL_BYTES - LOADER_BYTES

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
    ("image_base",  "u4",  "Where the image lies: from IMAGE_BASE on, a multiple of the image's ALIGNMENT."),
    ("image_bytes", "u4",  "Its length; 0: none."),
    ("pl_build",    "S24", "Build hash of the bitstream."),
])

STRUCTS   = (HANDOVER,)
CONSTANTS = ("DDR_BYTES", "FIRMWARE_BASE", "FIRMWARE_LIMIT", "HANDOVER_BASE", "HANDOVER_MAGIC", "IMAGE_BASE", "IMAGE_LIMIT", "MODEL_BYTES",
    "DDR_END", "OCM_BASE", "OCM_BYTES", "RESULTS_BASE", "RESULTS_BYTES", "SLCR_KEY")

# System control -----------------------------------------------------------------------------------

SLCR_KEY = 0xDF0D  # Unlocks its registers.

# Clocks -------------------------------------------------------------------------------------------

PS_CLOCK_HZ    = 50_000_000        # Crystal of the PYNQ-Z1.
CPU_CLOCK_HZ   = 650_000_000
TIMER_CLOCK_HZ = CPU_CLOCK_HZ//2  # Global timer, before its prescaler.
