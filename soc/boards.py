#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What the generator must know of a board: capacity of its chip, memory ports, clock, the memory's wall."""

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
    image_bytes            : room for a packed model in it.
    ddr_bytes_per_second   : what all ports together were measured to read: the wall.
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
    ddr_bytes_per_second : float


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
        image_bytes          = zynq.DDR_END - zynq.IMAGE_BASE,
        ddr_bytes_per_second = zynq.DDR_BYTES_PER_SECOND,
    ),
)}


def find_board(name):
    """The `Board` of this name. Raises ValueError that lists what there is."""
    if isinstance(name, Board):
        return name
    if name not in BOARDS:
        raise ValueError(f"board {name!r}: must be one of {', '.join(BOARDS)}")
    return BOARDS[name]
