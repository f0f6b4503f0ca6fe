#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The x buffer of the matmul core: written a beat at a time, read five beats (40 int8) at a time."""

from migen import *

from litex.gen import LiteXModule

from litetern.model.formats.stream import TRITS_PER_BYTE

from litetern.cores.common import DATA_WIDTH

# X Buffer -----------------------------------------------------------------------------------------

BANKS      = TRITS_PER_BYTE  # A ternary beat needs 5 beats of x.
INT8_BANKS = 4               # An int8 beat needs one: 4 of the banks hold as many weights, and a 4:1 multiplexer is one LUT.


class XBuffer(LiteXModule):
    """Five 64-bit banks a vector, one address for all.

    write   : one bit a vector.
    bank    : bank that is written.
    address : word that is written or read.
    x       : [vectors] Signal(320), the word read, one cycle later.
    """
    def __init__(self, vectors, depth):
        self.write   = write   = Signal(vectors)
        self.bank    = bank    = Signal(max=BANKS)
        self.address = address = Signal(max=depth)
        self.data    = data    = Signal(DATA_WIDTH)
        self.x       = [Signal(BANKS*DATA_WIDTH, name=f"x{v}") for v in range(vectors)]

        # # #

        for v in range(vectors):
            for b in range(BANKS):
                memory         = Memory(DATA_WIDTH, depth, name=f"x{v}_bank{b}")
                write_port     = memory.get_port(write_capable=True, mode=READ_FIRST)
                read_port      = memory.get_port(mode=READ_FIRST)
                self.specials += memory, write_port, read_port
                self.comb     += [
                    write_port.adr.eq(address),
                    write_port.dat_w.eq(data),
                    write_port.we.eq(write[v] & (bank == b)),
                    read_port.adr.eq(address),
                    self.x[v][DATA_WIDTH*b:DATA_WIDTH*(b + 1)].eq(read_port.dat_r),
                ]
