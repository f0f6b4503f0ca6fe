#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Digilent PYNQ-Z1: what is soldered to its xc7z020."""

from litex.build.generic_platform import IOStandard, Pins, Subsignal
from litex.build.xilinx import Xilinx7SeriesPlatform

from litetern.soc.boards import BOARDS

# IOs ----------------------------------------------------------------------------------------------

_io = [
    # Clk.
    ("clk125", 0, Pins("H16"), IOStandard("LVCMOS33")),

    # Leds, switches, buttons.
    ("user_led", 0, Pins("R14"), IOStandard("LVCMOS33")),
    ("user_led", 1, Pins("P14"), IOStandard("LVCMOS33")),
    ("user_led", 2, Pins("N16"), IOStandard("LVCMOS33")),
    ("user_led", 3, Pins("M14"), IOStandard("LVCMOS33")),
    ("user_sw",  0, Pins("M20"), IOStandard("LVCMOS33")),
    ("user_sw",  1, Pins("M19"), IOStandard("LVCMOS33")),
    ("user_btn", 0, Pins("D19"), IOStandard("LVCMOS33")),
    ("user_btn", 1, Pins("D20"), IOStandard("LVCMOS33")),
    ("user_btn", 2, Pins("L20"), IOStandard("LVCMOS33")),
    ("user_btn", 3, Pins("L19"), IOStandard("LVCMOS33")),
]

# Dedicated pins of the processing system: what they do is the boot loader's to set.
_ps7_io = [
    ("ps7_clk",   0, Pins("E7")),
    ("ps7_porb",  0, Pins("C7")),
    ("ps7_srstb", 0, Pins("B10")),
    ("ps7_mio",   0, Pins(
        "E6  A7  B8  D6  B7  A6  A5  D8  D5  B5",    #  0: flash, GPIO.
        "E9  C6  D9  E8  C5  C8  A19 E14 B18 D10",   # 10: UART0 at 14 and 15, Ethernet from 16 on.
        "A17 F14 B17 D11 A16 F15 A15 D13 C16 C13",   # 20: USB from 28 on.
        "C15 E16 A14 D15 A12 F12 A11 A10 E13 C18",   # 30
        "D14 C17 E12 A9  F13 B15 D16 B14 B12 C12",   # 40: SD card at 40 to 45.
        "B13 B9  C10 C11",                           # 50: MDIO at 52 and 53.
    )),
    ("ps7_ddram", 0,
        Subsignal("addr",    Pins("N2 K2 M3 K3 M4 L1 L4 K4 K1 J4 F5 G4 E4 D4 F4")),
        Subsignal("ba",      Pins("L5 R4 J5")),
        Subsignal("cas_n",   Pins("P5")),
        Subsignal("cke",     Pins("N3")),
        Subsignal("ck_n",    Pins("M2")),
        Subsignal("ck_p",    Pins("L2")),
        Subsignal("cs_n",    Pins("N1")),
        Subsignal("dm",      Pins("A1 F1 T1 Y1")),
        Subsignal("dq",      Pins(
            "C3 B3 A2 A4 D3 D1 C1 E1",
            "E2 E3 G3 H3 J3 H2 H1 J1",
            "P1 P3 R3 R1 T4 U4 U2 U3",
            "V1 Y3 W1 Y4 Y2 W3 V2 V3")),
        Subsignal("dqs_n",   Pins("B2 F2 T2 W4")),
        Subsignal("dqs_p",   Pins("C2 G2 R2 W5")),
        Subsignal("odt",     Pins("N5")),
        Subsignal("ras_n",   Pins("P4")),
        Subsignal("reset_n", Pins("B4")),
        Subsignal("vrn",     Pins("G5")),
        Subsignal("vrp",     Pins("H5")),
        Subsignal("we_n",    Pins("M5")),
    ),
]

# Platform -----------------------------------------------------------------------------------------


class Platform(Xilinx7SeriesPlatform):
    """toolchain: one of LiteX's, for what a platform describes of it."""
    default_clk_name   = "clk125"
    default_clk_period = 1e9/125e6

    def __init__(self, toolchain="vivado"):
        Xilinx7SeriesPlatform.__init__(self, BOARDS["pynqz1"].chip, _io, toolchain=toolchain)
        self.add_extension(_ps7_io)
