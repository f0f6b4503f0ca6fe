#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The Zynq-7000's processing system as the primitive that it is in the netlist: no vendor IP, so that every tool takes it.

DDR, clocks, pins and level shifters are set by software (boot loader, firmware); here are only wires.
"""

from migen import *

from litex.gen import *

# Wires --------------------------------------------------------------------------------------------

# Signals of an AXI3 channel beside valid and ready: the primitive's names are these in capitals.
_ADDRESS  = {"id": "ID", "addr": "ADDR", "len": "LEN", "size": "SIZE", "burst": "BURST", "lock": "LOCK", "cache": "CACHE", "prot": "PROT",
    "qos": "QOS"}
_CHANNELS = {
    "aw": _ADDRESS,
    "w":  {"id": "ID", "data": "DATA", "strb": "STRB", "last": "LAST"},
    "b":  {"id": "ID", "resp": "RESP"},
    "ar": _ADDRESS,
    "r":  {"id": "ID", "data": "DATA", "resp": "RESP", "last": "LAST"},
}
_ANSWERS  = ("b", "r")  # Channels that the slave drives.
_SIZE     = 2           # Bits of AXSIZE; LiteX's AXI3 has more.

# Dedicated pins: {primitive's port: (pads, member)}.
_PINS = {
    "PSCLK":    ("ps7_clk",   None),      "PSPORB":   ("ps7_porb",  None),
    "PSSRSTB":  ("ps7_srstb", None),      "MIO":      ("ps7_mio",   None),
    "DDRA":     ("ps7_ddram", "addr"),    "DDRBA":    ("ps7_ddram", "ba"),
    "DDRCASB":  ("ps7_ddram", "cas_n"),   "DDRCKE":   ("ps7_ddram", "cke"),
    "DDRCKN":   ("ps7_ddram", "ck_n"),    "DDRCKP":   ("ps7_ddram", "ck_p"),
    "DDRCSB":   ("ps7_ddram", "cs_n"),    "DDRDM":    ("ps7_ddram", "dm"),
    "DDRDQ":    ("ps7_ddram", "dq"),      "DDRDQSN":  ("ps7_ddram", "dqs_n"),
    "DDRDQSP":  ("ps7_ddram", "dqs_p"),   "DDRDRSTB": ("ps7_ddram", "reset_n"),
    "DDRODT":   ("ps7_ddram", "odt"),     "DDRRASB":  ("ps7_ddram", "ras_n"),
    "DDRVRN":   ("ps7_ddram", "vrn"),     "DDRVRP":   ("ps7_ddram", "vrp"),
    "DDRWEB":   ("ps7_ddram", "we_n"),
}

# PS7 ----------------------------------------------------------------------------------------------


class PS7(LiteXModule):
    """The primitive.

    fclk, fclk_resetn : clocks and resets for the PL, four of each.
    irqs              : interrupts of the PL: 0 to 7 are the GIC's 61 to 68, 8 to 15 its 84 to 91.
    """
    def __init__(self):
        self.fclk        = Signal(4)
        self.fclk_resetn = Signal(4)
        self.irqs        = Signal(16)

        # # #

        self.connections = {
            "o_FCLKCLK"      : self.fclk,
            "o_FCLKRESETN"   : self.fclk_resetn,
            "i_FCLKCLKTRIGN" : Constant(0, 4),
            "i_FPGAIDLEN"    : Constant(1),
            "i_DDRARB"       : Constant(0, 4),
            "i_IRQF2P"       : Cat(self.irqs, Constant(0, 4)),  # The last four bypass the GIC.
        }

    def _connect(self, port, interface, master):
        """Wires an AXI3 port; `master`: the PS starts the transfers."""
        self.connections[f"i_{port}ACLK"] = ClockSignal("sys")
        for channel, names in _CHANNELS.items():
            endpoint = getattr(interface, channel)
            from_ps  = master != (channel in _ANSWERS)
            for name, text in {"valid": "VALID", **names}.items():
                signal = getattr(endpoint, name)
                if name == "size":
                    signal = signal[:_SIZE]
                self.connections[f"{'o' if from_ps else 'i'}_{port}{channel.upper()}{text}"] = signal
            self.connections[f"{'i' if from_ps else 'o'}_{port}{channel.upper()}READY"] = endpoint.ready

    def add_gp_master(self, number, interface):
        """GP master port: the CPU's way into the PL. `interface`: AXIInterface (axi3, 32 bit, 12-bit IDs)."""
        self._connect(f"MAXIGP{number}", interface, master=True)

    def add_hp_slave(self, number, interface):
        """HP slave port: the PL's way to the DDR, past the CPU's caches. `interface`: AXIInterface (axi3, 64 bit, 6-bit IDs)."""
        self._connect(f"SAXIHP{number}", interface, master=False)
        for capability in ("RDISSUECAP1EN", "WRISSUECAP1EN"):
            self.connections[f"i_SAXIHP{number}{capability}"] = Constant(0)  # As many outstanding bursts as its registers say.

    def add_pins(self, platform):
        """Dedicated pins, by the platform's names."""
        pads = {name: platform.request(name) for name in sorted({name for name, _ in _PINS.values()})}
        for port, (name, member) in _PINS.items():
            self.connections[f"io_{port}"] = getattr(pads[name], member) if member else pads[name]

    def do_finalize(self):
        self.specials += Instance("PS7", **self.connections)
