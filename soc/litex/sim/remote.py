#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A LiteX SoC without a CPU, driven from Python: registers and memory through litex_server and LiteX's RemoteClient.

Works on the simulator (`soc/sim.py --cpu-type None`) and on any board whose SoC has a UARTBone.
"""

import socket
import subprocess
import sys
import time

from pathlib import Path

import numpy as np

from litex.tools.litex_client import RemoteClient

from litetern.soc.accelerator import IDENTITY, AcceleratorConfig
from litetern.soc.litex.memory_map import MAIN_RAM_BASE
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.zynq.pl import PL

START_TIMEOUT = 30.0  # Seconds until the server and the SoC answer.
LIST_TIMEOUT  = 60.0  # Seconds that a list may take.
RECORD_WORDS  = 128   # Of an access: a record counts to 255.
POLL          = 0.002

# Server -------------------------------------------------------------------------------------------


def free_port():
    """A TCP port of this machine that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """LiteX's litex_server between TCP and the UART at `uart` (a device or a pyserial URL); ``port`` is its TCP port."""
    def __init__(self, uart):
        self.port    = free_port()
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "litex.tools.litex_server", "--uart", "--uart-port", uart,
            "--bind-ip", "127.0.0.1", "--bind-port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline     = time.monotonic() + START_TIMEOUT
        while True:
            if self.process.poll() is not None:
                lines = self.process.stderr.read().decode("utf-8", "replace").strip().splitlines()
                raise ConnectionError(f"litex_server on {uart}: {lines[-1] if lines else 'it has ended'}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    self.close()
                    raise ConnectionError(f"litex_server on {uart} does not answer within {START_TIMEOUT:.0f} s") from None
                time.sleep(0.1)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()

# SoC ----------------------------------------------------------------------------------------------


class RemoteSoC:
    """What `litetern.soc.virtual.pl.driver.Driver` drives, behind a RemoteClient.

    ``memory`` (uint8, memory[0] at ``base``) is a copy on this side: `upload` brings what has changed to the SoC, `download` fetches.

    Raises ConnectionError where no accelerator of ours answers.
    """
    def __init__(self, uart, csr_csv, memory_bytes=1 << 20, config=AcceleratorConfig()):
        if memory_bytes % (4*RECORD_WORDS):
            raise ValueError(f"memory of {memory_bytes} bytes: must be a multiple of {4*RECORD_WORDS}")
        self.base   = MAIN_RAM_BASE
        self.memory = np.zeros(memory_bytes, dtype=np.uint8)
        self._there = self.memory.view("<u4").reshape(-1, RECORD_WORDS).copy()  # What the SoC holds …
        self._known = np.ones(len(self._there), dtype=bool)                     # … where that is known.
        pl          = PL(config)
        pl.finalize()
        self.fields = pl.registers()[1]
        self.server = Server(uart)
        try:
            self.client = RemoteClient(port=self.server.port, csr_csv=str(Path(csr_csv)))
            self.client.open()
            self.registers = {name: register.addr for name, register in self.client.regs.d.items()}
            identity = self.read(self.registers["accelerator_identity"])
            if identity != IDENTITY:  # Also after a time-out, which the client reports as 0.
                raise ConnectionError(f"the SoC at {uart} answers {identity:#010x}: not LiteTern's accelerator, or no answer at all")
        except BaseException:
            self.close()
            raise

    def read(self, address):
        return self.client.read(address)

    def write(self, address, value):
        self.client.write(address, int(value))

    # Memory ---------------------------------------------------------------------------------------

    @property
    def regions(self):
        """(address, bytes) of the memory that the lanes work on."""
        return [(self.base, len(self.memory))]

    def upload(self):
        """Writes what differs from the last upload, in whole records; returns the bytes written."""
        words   = self.memory.view("<u4").reshape(-1, RECORD_WORDS)
        changed = np.flatnonzero((words != self._there).any(axis=1) | ~self._known)
        for i in changed:
            self.client.write(self.base + int(i)*4*RECORD_WORDS, words[i].tolist())
        self._there[changed] = words[changed]
        self._known[changed] = True
        return len(changed)*4*RECORD_WORDS

    def forget(self, piece):
        """The SoC itself writes to a piece (address, bytes)."""
        first = (piece[0] - self.base)//(4*RECORD_WORDS)
        self._known[first:-(-(piece[0] - self.base + piece[1])//(4*RECORD_WORDS))] = False

    def download(self, piece):
        """Bytes of a piece (address, bytes; multiples of 4), uint8."""
        address, bytes = piece
        words = []
        for offset in range(0, bytes, 4*RECORD_WORDS):
            words += self.client.read(address + offset, min(RECORD_WORDS, (bytes - offset)//4))
        return np.array(words, dtype="<u4").view(np.uint8)

    # End ------------------------------------------------------------------------------------------

    def close(self):
        if getattr(self, "client", None) is not None:
            self.client.close()
        self.server.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class RemoteDriver(Driver):
    """`Driver` whose lists and streams go to the SoC before the doorbell and whose waiting is measured in seconds."""
    def start(self, lane, core, list_address, destination, limit):
        self.pl.upload()
        self.pl.forget((destination, limit))
        super().start(lane, core, list_address, destination, limit)

    def wait(self, lane, timeout=LIST_TIMEOUT):
        """`Outcome` of a lane that is done. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            outcome = self.outcome(lane)
            if "done" in outcome.flags:
                return outcome
            if time.monotonic() > deadline:
                raise TimeoutError(f"lane {lane} is not done after {timeout:.0f} s: {outcome}")
            time.sleep(POLL)
