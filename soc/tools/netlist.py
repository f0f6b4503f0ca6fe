#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Verilog of what is synthesised on its own: a core with its two streams, or the whole PL."""

from migen import Module

from litetern.soc.tools.verilate import to_verilog


def core_verilog(build, name):
    """Verilog of a core with the ports that its neighbours see; `build` makes it."""
    top, core = Module(), build()
    top.submodules.core = core
    ios = {"idle": core.idle, "error": core.error}
    for text in ("sink", "source"):
        ios |= {f"{text}_{part}": getattr(getattr(core, text), part) for part in ("valid", "ready", "last", "data")}
    for text, signal in ios.items():
        signal.name_override = text
    return to_verilog(top, ios.values(), name)
