#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LiteX's builder without LiteX's BIOS, so that neither its libraries nor its compiler are needed."""

from litex.soc.integration.builder import Builder

# Builder ------------------------------------------------------------------------------------------


class FirmwareBuilder(Builder):
    """For SoCs that start LiteTern's firmware at once, and for a look at the gateware alone."""
    def __init__(self, soc, **kwargs):
        Builder.__init__(self, soc, **{**kwargs, "compile_software": False})

    def _generate_includes(self, with_bios=True):
        Builder._generate_includes(self, with_bios=False)
