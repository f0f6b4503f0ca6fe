#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""LiteX's builder, with headers that the firmware's drivers can use, and without LiteX's BIOS where nobody wants it."""

import os

from litex.build.tools import write_to_file
from litex.soc.integration import export
from litex.soc.integration.builder import Builder

# Headers ------------------------------------------------------------------------------------------


def csr_header(soc):
    """Text of csr.h of a finalised SoC with access functions for each field, which LiteX's builder leaves out."""
    return export.get_csr_header(soc.csr.regions, soc.constants, with_fields_access_functions=True)


class HeaderBuilder(Builder):
    """LiteX's builder, whose csr.h has the fields' access functions."""
    def _generate_includes(self, with_bios=True):
        Builder._generate_includes(self, with_bios)
        write_to_file(os.path.join(self.generated_dir, "csr.h"), csr_header(self.soc))

# Builder ------------------------------------------------------------------------------------------


class FirmwareBuilder(HeaderBuilder):
    """For SoCs that start LiteTern's firmware at once, and for a look at the gateware alone."""
    def __init__(self, soc, **kwargs):
        Builder.__init__(self, soc, **{**kwargs, "compile_software": False})

    def _generate_includes(self, with_bios=True):
        HeaderBuilder._generate_includes(self, with_bios=False)
