#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Delays of the attention core: stages, and signals delayed to them."""

from migen import *

from litex.gen import *

# Stages -------------------------------------------------------------------------------------------

# A beat is at stage 1 while it lies in the parser's register; a stage is a clock cycle.
SCORE      = 3   # Score of the row, read from its buffer.
WEIGHT     = 5   # Weight of the row out of the exp table; q out of its memory.
OPERANDS   = 6   # Input registers of the multipliers.
PRODUCTS   = 8   # Their output registers; accumulators are read and written back.
SUM        = 11  # Sum of the products of the beat.
DOT        = 12  # Sum over the beats of the row so far.
SCALED     = 14  # Times the mantissa.
STORE      = 15  # Score, clamped, goes to its buffer and enters the maximum.
MULTIPLIER = 10  # Mantissa and exponent are loaded: after the rows of the record before (2 cycles ahead at the least), before its own.

# Delays -----------------------------------------------------------------------------------------


class Delays(LiteXModule):
    """Delays signals from stage 1 to the stages where they are used.

    Delays have no reset, so that they become shift registers in LUTs; ``reset=True`` makes them flip-flops, for what must not outlive
    a reset.
    """
    def __init__(self):
        self._chains = {}

    def at(self, signal, stage, reset=False):
        """Returns `signal`, known at stage 1, as it is at `stage`."""
        chain = self._chains.setdefault((signal.duid, reset), [signal])
        while len(chain) < stage:
            delayed = Signal(len(signal), reset_less=not reset, name=f"{signal.backtrace[-1][0]}_{len(chain) + 1}")
            self.sync += delayed.eq(chain[-1])
            chain.append(delayed)
        return chain[stage - 1]
