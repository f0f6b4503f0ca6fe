#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Bandwidth probe: accepts every beat and keeps none, so that what is measured is the memory."""

from migen import *

from litex.gen import *

from litex.soc.interconnect import stream

ERRORS = ()

# Probe --------------------------------------------------------------------------------------------


class Probe(LiteXModule):
    """Accepts a beat per cycle; of the whole list it returns one word, the sum (mod 2**64) of its beats, as proof that all were seen."""
    def __init__(self):
        self.sink   = sink   = stream.Endpoint([("data", 64)])
        self.source = source = stream.Endpoint([("data", 64)])
        self.idle   = Signal()
        self.error  = Signal()

        # # #

        total = Signal(64)
        full  = Signal()
        self.comb += [
            sink.ready.eq(~full),
            source.valid.eq(full),
            source.last.eq(1),
            source.data.eq(total),
            self.idle.eq(~full),
        ]
        self.sync += [
            If(sink.valid & sink.ready,
                total.eq(total + sink.data),
                full.eq(sink.last),
            ),
            If(source.valid & source.ready,
                total.eq(0),
                full.eq(0),
            ),
        ]
