#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Runs descriptor lists on a PL from Python, register by register, as the firmware's driver does."""

from dataclasses import dataclass

import numpy as np

from litetern.model.formats.stream import BEAT_BYTES, descriptor
from litetern.soc.accelerator import CORES, READS, WRITES

NOTHING      = 2**32 - 1, 0                      # First and last byte of a range that allows nothing.
RANGE_ERRORS = {"reader_range", "writer_range"}  # Flags of a lane that has refused an address.
DONE_TIMEOUT = 1 << 24  # Cycles that a list may take: 128 MB at full pace.

# Outcome ------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a lane says of its list.

    flags   : names of the status bits that are set ("done", "error", "reader_timeout" …).
    results : bytes that the memory has acknowledged.
    beats   : beats that the core has accepted.
    cycles  : doorbell to last acknowledged write.
    stalls  : cycles in which a beat waited for the core.
    """
    flags   : set
    results : int
    beats   : int
    cycles  : int
    stalls  : int

# Driver -------------------------------------------------------------------------------------------


class Driver:
    """Registers by name, lanes by number, of a PL with ``read``, ``write``, ``run`` and ``regions`` (`litetern.soc.virtual.pl.verilated.RtlPL`).

    Lanes may read and write all of the PL's memory until `allow` says otherwise.
    """
    def __init__(self, pl):
        self.pl = pl
        self.allow(pl.regions, pl.regions)

    def read(self, name):
        return self.pl.read(self.pl.registers[f"accelerator_{name}"])

    def write(self, name, value):
        self.pl.write(self.pl.registers[f"accelerator_{name}"], value)

    # Ranges ---------------------------------------------------------------------------------------

    def allow(self, reads=(), writes=()):
        """What lanes may read and write from now on: up to two pieces (address, bytes) each, which count as whole bursts."""
        for names, pieces in ((READS, reads), (WRITES, writes)):
            if len(pieces) > len(names):
                raise ValueError(f"{len(pieces)} ranges: must be at most {len(names)}")
            for name in names[len(pieces):]:
                self.allow_bytes(name, *NOTHING)
            for name, (address, bytes) in zip(names, pieces):
                self.allow_bytes(name, address, address + bytes - 1)

    def allow_bytes(self, name, first, last):
        """Sets one of READS or WRITES to the bytes first … last."""
        self.write(f"{name}_first", first)
        self.write(f"{name}_last",  last)

    # Lists ----------------------------------------------------------------------------------------

    def put_list(self, address, pieces, irq=()):
        """Writes the descriptors of pieces [(address, bytes)] to `address`; those numbered in `irq` raise the interrupt."""
        words = np.array([descriptor(start, length, last=i == len(pieces) - 1, irq=i in irq)
            for i, (start, length) in enumerate(pieces)], dtype="<u8")
        start = address - self.pl.base
        self.pl.memory[start:start + words.nbytes] = words.view(np.uint8)

    def start(self, lane, core, list_address, destination, limit):
        """Rings the doorbell of a lane; addresses and limit in bytes."""
        for name, value in (("list_address", list_address), ("destination", destination), ("destination_limit", limit)):
            if value % BEAT_BYTES:
                raise ValueError(f"{name} {value:#x}: must be a multiple of {BEAT_BYTES}")
            self.write(f"lane{lane}_{name}", value)
        self.write(f"lane{lane}_control", 1 | CORES.index(core) << 4)

    def abort(self, lane):
        self.write(f"lane{lane}_control", 2)

    def flags(self, lane):
        """Names of the status bits that are set."""
        status = self.read(f"lane{lane}_status")
        fields = self.pl.fields[f"accelerator_lane{lane}_status"]
        return {name for name, (bit, _) in fields.items() if status >> bit & 1}

    def outcome(self, lane):
        """The state of a lane now, as an `Outcome`."""
        return Outcome(self.flags(lane), *(self.read(f"lane{lane}_{name}") for name in ("results", "beats", "cycles", "stalls")))

    def wait(self, lane, max_cycles=DONE_TIMEOUT):
        """Runs until the lane is done; returns its `Outcome`. Raises TimeoutError, and RuntimeError where an AXI rule was broken."""
        left = max_cycles
        while True:
            passed = self.pl.run(min(left, 100000))
            left  -= passed
            if self.pl.fault:
                raise RuntimeError(f"AXI rule broken: {self.pl.fault}")
            outcome = self.outcome(lane)
            if "done" in outcome.flags:
                return outcome
            if left <= 0 or passed == 0:
                raise TimeoutError(f"lane {lane} is not done after {max_cycles} cycles: {outcome}")
