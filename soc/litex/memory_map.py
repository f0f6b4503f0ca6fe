#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Where things lie in the main memory of a LiteX SoC with LiteTern's firmware, and what it finds there when it starts."""

from litetern.model.common.layout import Struct

# Memory -------------------------------------------------------------------------------------------

MAIN_RAM_BASE  = 0x4000_0000  # LiteX's place for it with VexRiscv.
FIRMWARE_BASE  = MAIN_RAM_BASE
FIRMWARE_LIMIT = MAIN_RAM_BASE + 0x000F_F000
BOOT_BASE      = FIRMWARE_LIMIT
IMAGE_BASE     = MAIN_RAM_BASE + 0x0010_0000  # What the image leaves free up to the end of the memory is the arena.

# Boot ---------------------------------------------------------------------------------------------

BOOT_MAGIC    = int.from_bytes(b"LTSM", "little")
BOOT_SELFTEST = 1  # Flags: runs the self-test …
BOOT_FINISH   = 2  # … and ends the simulation after it.

BOOT = Struct("boot", "Left in the memory beside the firmware by who loads both.", [
    ("magic",       "u4", "BOOT_MAGIC."),
    ("image_bytes", "u4", "Length of the image at IMAGE_BASE; 0: none."),
    ("flags",       "u4", "BOOT_SELFTEST, BOOT_FINISH."),
    ("tokens",      "u4", "Tokens to generate behind the start token, greedily; 0: none."),
])

STRUCTS   = (BOOT,)
CONSTANTS = ("FIRMWARE_BASE", "FIRMWARE_LIMIT", "BOOT_BASE", "IMAGE_BASE", "BOOT_MAGIC", "BOOT_SELFTEST", "BOOT_FINISH")
