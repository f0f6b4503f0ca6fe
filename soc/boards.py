#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What must be known of a board: capacity of its chip, memory ports, clock, the memory's wall, what fits into its memory."""

from dataclasses import dataclass

from litetern.soc.zynq import memory_map as zynq


@dataclass(frozen=True)
class Board:
    """A board.

    chip                   : part number.
    lut, ff, bram36, dsp   : capacity of the chip.
    ports                  : memory ports of the lanes, in their order.
    clock_hz               : clock of the PL.
    ddr_bytes              : memory.
    image_bytes            : longest image (what the loader can leave in the memory).
    model_bytes            : room for image, KV caches and buffers together: all that firmware and hand-over leave.
    ddr_bytes_per_second   : what all ports together were measured to read: the wall.
    rows_max               : positions that its attention core takes, unless another is asked for.
    cache_line             : bytes; granule of ownership between CPU and PL.
    sessions_max           : conversations that the firmware holds at once.
    target                 : module of its LiteX target, whose build() makes the SoC.
    """
    name                 : str
    title                : str
    chip                 : str
    lut                  : int
    ff                   : int
    bram36               : int
    dsp                  : int
    ports                : tuple
    clock_hz             : float
    ddr_bytes            : int
    image_bytes          : int
    model_bytes          : int
    ddr_bytes_per_second : float
    rows_max             : int = 2048
    cache_line           : int = 32  # Cortex-A9 and VexRiscv.
    sessions_max         : int = 4
    target               : str = ""


BOARDS = {board.name: board for board in (
    Board(
        name                 = "pynqz1",
        title                = "Digilent PYNQ-Z1",
        chip                 = "xc7z020-clg400-1",
        lut                  = 53200,
        ff                   = 106400,
        bram36               = 140,
        dsp                  = 220,
        ports                = ("HP0", "HP2"),  # HP0 and HP1 share a port of the DDR controller, HP2 and HP3 the other.
        clock_hz             = 125e6,
        ddr_bytes            = zynq.DDR_BYTES,
        image_bytes          = zynq.IMAGE_LIMIT,
        model_bytes          = zynq.MODEL_BYTES,
        ddr_bytes_per_second = zynq.DDR_BYTES_PER_SECOND,
        target               = "litetern.soc.pynqz1",
    ),
)}


def find_board(name):
    """The `Board` of this name. Raises ValueError that lists what there is."""
    if isinstance(name, Board):
        return name
    if name not in BOARDS:
        raise ValueError(f"board {name!r}: must be one of {', '.join(BOARDS)}")
    return BOARDS[name]
