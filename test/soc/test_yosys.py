#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Counts and logic levels of a netlist whose figures are known by hand.

    FDRE a ─► LUT2 ─► CARRY4 ─► CARRY4 ─► LUT3 ─► MUXF7 ─► FDRE b       2 LUTs + 1 carry chain
    FDRE a ─► LUT6 ─────────────────────────────────────► FDRE c.CE    1 LUT
    FDRE a ─► address of RAM32M ────────────────────────► FDRE d       1 (a LUT that reads; its write address leads nowhere)
"""

import pytest

from litetern.soc.tools import yosys
from litetern.soc.tools.yosys import Netlist, synthesize


def cell(type, **connections):
    """A cell whose ports that begin with Q, O, CO or DO are outputs."""
    return {
        "type"            : type,
        "port_directions" : {port: "output" if port[0] in "QO" or port in ("CO", "DOA") else "input" for port in connections},
        "connections"     : {port: [bits] if isinstance(bits, int) else bits for port, bits in connections.items()},
    }


MODULE = {
    "cells": {
        "a"     : cell("FDRE", C=1, D=2, Q=10),
        "lut2"  : cell("LUT2", I0=10, I1=10, O=11),
        "low"   : cell("CARRY4", CI="0", S=[11, 10, 10, 10], DI=[10]*4, CO=[12, 13, 14, 15], O=[16, 17, 18, 19]),
        "high"  : cell("CARRY4", CI=15, S=[10]*4, DI=[10]*4, CO=[20, 21, 22, 23], O=[24, 25, 26, 27]),
        "lut3"  : cell("LUT3", I0=27, I1=10, I2=10, O=28),
        "mux"   : cell("MUXF7", I0=28, I1=10, S=10, O=29),
        "b"     : cell("FDRE", C=1, D=29, Q=30),
        "lut6"  : cell("LUT6", I0=10, O=31),
        "c"     : cell("FDRE", C=1, CE=31, D=10, Q=32),
        "ram"   : cell("RAM32M", ADDRA=[10]*5, DIA=[28]*2, ADDRD=[28]*5, WE=31, WCLK=1, DOA=[33, 34]),
        "d"     : cell("FDRE", C=1, D=33, Q=35),
        "shift" : cell("SRL16E", A0="1", CLK=1, D=10, Q=36),
        "x"     : cell("RAMB36E1", DIADI=[10], QDO=[37]),
        "y"     : cell("RAMB18E1", DIADI=[10], QDO=[38]),
        "m"     : cell("DSP48E1", A=[10], QP=[39]),
    },
    "netnames": {"clock": {"bits": [1]}, "b": {"bits": [30]}, "word": {"bits": [32, 35]}},
}


def test_counts():
    assert Netlist(MODULE).resources() == {"lut": 3 + 4 + 1, "ff": 4, "dsp": 1, "bram36": 1.5}


def test_deepest_paths():
    paths = Netlist(MODULE).deepest()
    assert [(path.luts, path.chains, path.end) for path in paths[:2]] == [(2, 1, "b.D (FDRE)"), (2, 1, "ram.DIA (RAM32M)")]
    levels = {path.end: path.levels for path in paths}
    assert levels["word[0].CE (FDRE)"] == 1 and levels["word[1].D (FDRE)"] == 1
    assert len(Netlist(MODULE).deepest(1)) == 1


def test_missing_tool(monkeypatch):
    def missing(name):
        raise yosys.importlib.metadata.PackageNotFoundError(name)
    monkeypatch.setattr(yosys.importlib.metadata, "version", missing)
    monkeypatch.setattr(yosys.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="Yosys not found: install"):
        synthesize("nothing", "module nothing; endmodule")
