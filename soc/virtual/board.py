#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The virtual PYNQ-Z1: the firmware's binary on an emulated Cortex-A9, gateware or its C model behind GP0, DDR, caches, UART.

A board is a transport: `write` gives bytes to its UART, `read` lets time pass until bytes come back. Time passes in no other way.
"""

import time

import numpy as np

from litetern.firmware import build
from litetern.model.common.files import read_bytes
from litetern.model.formats.image import read_header
from litetern.model.formats.stream import TOPK_MAX
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.cmodel import CModelPL
from litetern.soc.virtual.ps.cache import EVICTIONS, L1_OPERATIONS, PL310, CacheModel
from litetern.soc.virtual.ps.cpu import CPU, PAGE
from litetern.soc.virtual.ps.elf import read_elf
from litetern.soc.virtual.ps.mpcore import MPCore, SystemWatchdog
from litetern.soc.virtual.ps.slcr import SLCR, DevC
from litetern.soc.virtual.ps.uart import UART
from litetern.soc.zynq.memory_map import DDR_BYTES, HANDOVER, HANDOVER_BASE, HANDOVER_MAGIC, IMAGE_BASE, IMAGE_LIMIT, LOADER_BYTES, OCM_BASE, \
    OCM_BYTES
from litetern.soc.zynq.pl import CSR_BASE

PLS = ("rtl", "c", "none")

INSTRUCTIONS_PER_SECOND = 625e6   # An estimate for the A9 at 650 MHz: five in a cycle of the PL.
FINE_SLICE  = 1000                # Instructions between two looks at a PL whose time counts: what it can be late by.
LONG_SLICE  = 20000               # For a PL that takes no time.
POLL_CYCLES = 64                  # PL cycles that a look at a running lane costs the CPU at most.
IDLE_POLLS  = 64                  # Looks at an empty UART, and nothing else, that make a firmware idle.
IDLE_SECONDS = 1e-3               # That pass for it then: it can only wait.


class BoardError(RuntimeError):
    """The board has come to an end: one line says why."""

# PL bus -------------------------------------------------------------------------------------------


class PLBus:
    """GP0: the CPU's way to the PL's registers. It also tells the cache model which memory a list may write."""
    SIZE = 0x1_0000

    def __init__(self, board, pl):
        self.board, self.pl = board, pl
        names         = {address: name for name, address in pl.registers.items()}
        self._polled  = {address for address, name in names.items() if name.endswith(("_status", "_results")) and "_lane" in name
            and "_ev_" not in name}
        self._control = {address: name.removesuffix("control") for address, name in names.items() if name.endswith("_control")}
        self._values  = {}
        self._armed   = {}
        self.accesses = 0
        self.rung     = False  # A doorbell has rung, and the CPU has not looked at the lanes since.

    def _check(self, offset):
        self.accesses += 1
        reason = self.board.devc.programmed == 0 and "it is not programmed" or self.board.slcr.pl_unreachable
        if reason:
            raise BoardError(f"the CPU touches the PL at {CSR_BASE + offset:#010x}, but {reason}: the bus hangs (pc {self.board.cpu.pc:#010x})")

    def read(self, offset):
        self._check(offset)
        address = CSR_BASE + offset
        self.board.uart.idle_polls = 0
        if address in self._polled:
            if self.rung:
                self.rung = False
                if self.board.strict:
                    self.board.cpu.stop()  # Loads that must be watched are, before the CPU sees results. The register is read again.
            if not self.pl.idle:
                self.pl.run(POLL_CYCLES, until_idle=True)
        return self.pl.read(address)

    def write(self, offset, value):
        self._check(offset)
        address = CSR_BASE + offset
        lane    = self._control.get(address)
        self.board.uart.idle_polls = 0
        if lane is None:
            self._values[address] = value
        elif value & 1:
            self._doorbell(lane)
        self.pl.write(address, value)

    def _doorbell(self, lane):
        board, registers = self.board, self.pl.registers
        destination, limit = (self._values.get(registers[lane + name], 0) for name in ("destination", "destination_limit"))
        if destination >= OCM_BASE and not board.slcr.ocm_high:
            raise BoardError(f"a list has its results at {destination:#010x}, but the on-chip memory is not mapped there")
        if lane in self._armed:
            board.cache.disarm(*self._armed[lane])
        board.cache.evict(board.evictions)
        board.cache.arm(destination, limit)
        self._armed[lane] = destination, limit
        board.watch(destination, limit)
        self.rung = True

# Configuration ------------------------------------------------------------------------------------


def config_for(image):
    """AcceleratorConfig of a PL that runs an image (bytes; None: any with an int8 head): with shortlists where its head needs them."""
    try:
        shortlist = image is not None and read_header(image)[0]["shortlist"]
    except ValueError:
        shortlist = 0  # The firmware tells what is wrong with it.
    return AcceleratorConfig(topk_max=TOPK_MAX if shortlist else 0)

# Virtual board ------------------------------------------------------------------------------------


class VirtualBoard:
    """A board that has just been switched on and whose boot script has run.

    image     : path or bytes that the script has loaded; None for a board that waits for an upload.
    pl        : "rtl" (the gateware in Verilator), "c" (bit-exact C cores behind the same registers), "none" (no bitstream: the
                firmware runs its own C cores).
    strict    : the cache model acts line by line and watches loads (slower, see `litetern.soc.virtual.ps.cache`).
    seed      : of evictions and of the memory model.
    elf       : path of the firmware; by default it is built.
    config    : of the gateware; by default what the image needs (`config_for`).
    handover  : False leaves the boot script's word out.
    image_base: where the script loads the image.
    Raises BoardError (RuntimeError) from `read` where hardware or firmware have come to an end, ValueError for what cannot be built.
    """
    def __init__(self, image=None, pl="rtl", strict=False, seed=1, evictions=EVICTIONS, elf=None, handover=True, config=None,
        image_base=IMAGE_BASE):
        if pl not in PLS:
            raise ValueError(f"pl {pl!r}: must be one of {', '.join(PLS)}")
        data = image if image is None or isinstance(image, bytes) else read_bytes(image, DDR_BYTES)
        self.strict, self.evictions, self.config = strict, evictions, config or config_for(data)
        self.elf   = read_elf(elf or build.build_elf())
        self.cache = CacheModel(DDR_BYTES, seed, OCM_BASE, OCM_BYTES)
        self.pl    = self._make_pl(pl, seed)
        self.slcr, self.devc, self.uart = SLCR(), DevC(int(pl != "none")), UART(self.seconds)
        self._slice                     = FINE_SLICE if pl == "rtl" else LONG_SLICE
        self._seconds, self._cycles     = 0.0, 0
        self._behind                    = 0.0  # Cycles that the PL still has to run for what the CPU has done.
        self.maintenance = {}    # {(routine, return address): calls}
        self.omit        = None  # A key of `maintenance`: this call is left out, as if the firmware did not have it.
        self._watched, self._to_watch   = set(), set()
        self.boot(data, handover=handover and pl != "none", image_base=image_base)

    def _make_pl(self, name, seed):
        if name == "rtl":
            from litetern.soc.virtual.pl.verilated import MemoryParameters, RtlPL
            pl = RtlPL(self.cache.dma, self.config, parameters=MemoryParameters(seed=seed), ocm=self.cache.dma_high)
            pl.set_hook(self.cache.hook)
        else:
            pl = CModelPL(self.cache.dma, build.load_host_library(), self.config, ocm=self.cache.dma_high)
            pl.set_hook(lambda write, address, bytes: (self.cache.dma_written if write else self.cache.dma_read)(address, bytes))
        return pl

    def boot(self, image=None, handover=True, image_base=IMAGE_BASE):
        """What the SD card's script does: image and hand-over to the DDR, caches flushed, firmware started."""
        size = 0
        if image is not None:
            data = image if isinstance(image, bytes) else read_bytes(image, DDR_BYTES)
            size = len(data)
            if size > DDR_BYTES - LOADER_BYTES - image_base:
                room = f"{IMAGE_LIMIT}" if image_base == IMAGE_BASE else f"{DDR_BYTES - LOADER_BYTES - image_base} from {image_base:#x} on"
                raise ValueError(f"image of {size} bytes: the board holds {room}")
            self.cache.preload(image_base, data)
        words = np.array((HANDOVER_MAGIC if handover else 0, image_base, size, b"virtual" if handover else b""), HANDOVER.dtype)
        self.cache.preload(HANDOVER_BASE, words.tobytes())
        self.start()

    def start(self):
        """A core fresh from its reset jumps to the firmware."""
        cpu = self.cpu = CPU(self.cache.cpu)
        for address, data, size, _ in self.elf.segments:
            self.cache.preload(address, data + bytes(size - len(data)))
        cpu.load(self.elf)
        self.mpcore = MPCore(self.seconds)
        self.uart.on_idle = self._uart_idle
        self.watchdog = SystemWatchdog()
        for device in (self.uart, self.slcr, self.watchdog, self.devc, self.mpcore, PL310(self.cache if self.strict else None)):
            cpu.map_device(device.BASE, device.SIZE, device)
        self.bus = PLBus(self, self.pl)
        cpu.map_device(CSR_BASE, self.bus.SIZE, self.bus)
        cpu.map_memory(OCM_BASE, self.cache.cpu_high)
        cpu.hook(self.elf.symbols["fault_stop"], self._fault_stop)
        for name in ("clean", "invalidate", "flush"):
            cpu.hook(self.elf.symbols[f"cache_{name}"], self._maintenance(name))
        self._watched.clear()
        if self.strict:
            self._hook_lines()
            cpu.hook_reads(0xFFFFFFF0, 0xFFFFFFF1, lambda *_: None)  # Loads are translated so that they can be watched.

    # Caches ---------------------------------------------------------------------------------------

    def _maintenance(self, name):
        """Hook of a maintenance routine: counts it, carries it out whole, or leaves it out as `omit` says."""
        function = getattr(self.cache, f"{name}_range")

        def hook():
            cpu  = self.cpu
            site = (name, cpu.lr)
            self.maintenance[site] = self.maintenance.get(site, 0) + 1
            if self.omit == site:
                cpu.return_from_function()
            elif not self.strict:
                function(cpu.register(0), cpu.register(1))
                cpu.return_from_function()
        return hook

    def _hook_lines(self):
        """Strict: each cache operation by address acts on its line of L1 (PL310 does on L2)."""
        for address, data, _, executable in self.elf.segments:
            if not executable:
                continue
            for offset in range(0, len(data) - 3, 4):
                word      = int.from_bytes(data[offset:offset + 4], "little")
                operation = L1_OPERATIONS.get(word & 0xFFFF0FFF)
                if operation is not None:
                    register = word >> 12 & 15
                    self.cpu.hook(address + offset, lambda r=register, o=operation: self.cache.l1(self.cpu.register(r), *o))

    def watch(self, address, bytes):
        """Strict: loads from this memory are looked at from the next slice on."""
        if self.strict and bytes:
            self._to_watch |= set(range(address//PAGE, (address + bytes - 1)//PAGE + 1)) - self._watched

    def _watch_pages(self):
        for page in sorted(self._to_watch):
            self.cpu.hook_reads(page*PAGE, page*PAGE + PAGE - 1, self._read)
        self._watched |= self._to_watch
        self._to_watch = set()

    def _read(self, address, size):
        if self.cache.cpu_read(address, size):
            self.cpu.stop()

    # Time -----------------------------------------------------------------------------------------

    def seconds(self):
        """Time since power-on: the PL's clock counts it."""
        cycles = self.pl.cycles
        self._seconds += (cycles - self._cycles)/self.slcr.pl_clock_hz
        self._cycles   = cycles
        return self._seconds

    def _uart_idle(self):
        if self.uart.idle_polls >= IDLE_POLLS and self.pl.idle:
            self.cpu.stop()

    def _fault_stop(self):
        lines = self.uart.sent.decode("ascii", "replace").replace("\r", "").split("\n")
        fault = [line for line in lines if line.startswith("fault: ")]
        raise BoardError(f"the firmware has stopped: {fault[-1].removeprefix('fault: ') if fault else 'no reason given'}")

    def slice(self):
        """CPU and PL advance together a little."""
        before = self.pl.cycles
        try:
            self.cpu.run(self._slice)
        except BoardError:
            raise
        except RuntimeError as error:
            raise BoardError(str(error)) from None
        finally:
            if self.cache.fault:
                raise BoardError(f"cache fault: {self.cache.fault} (pc {self.cpu.pc:#010x})") from None
        if self._to_watch:
            self._watch_pages()
        self.seconds()
        # What register accesses have let pass counts as the CPU's time.
        self._behind += self._slice/INSTRUCTIONS_PER_SECOND*self.slcr.pl_clock_hz - (self.pl.cycles - before)
        if not self.bus.rung and self._behind > 0:  # Doorbells in a row start together wherever a slice ends: cycles repeat.
            self.pl.run(int(self._behind), until_idle=False)
        if not self.bus.rung:
            self._behind = 0.0
        self.bus.rung = False
        if self.pl.fault:
            raise BoardError(f"the PL breaks a rule of AXI3: {self.pl.fault}")
        if self.cache.fault:
            raise BoardError(f"cache fault: {self.cache.fault}")

    # Transport ------------------------------------------------------------------------------------

    def write(self, data):
        """Bytes towards the board's UART."""
        self.uart.put(data)

    def read(self, timeout=0.1):
        """Lets time pass until the UART has sent something, the firmware is idle, or `timeout` seconds are over; returns bytes."""
        end = time.monotonic() + timeout
        self.cache.select()
        self.uart.idle_polls = 0
        while True:
            self.slice()
            if self.uart.sent:
                return self.uart.take()
            if self.idle:
                self.pl.run(int(IDLE_SECONDS*self.slcr.pl_clock_hz), until_idle=False)
                return b""
            if time.monotonic() > end:
                return b""

    @property
    def idle(self):
        """The firmware waits for its host."""
        return self.pl.idle and self.uart.idle_polls >= IDLE_POLLS and not self.uart.waiting

    def close(self):
        if self.pl is not None:
            self.pl.close()
            self.pl = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
