#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a run of the simulated SoC starts with and how it ends."""

import os
import re
import sys
import tempfile
import time

from pathlib import Path

import numpy as np

from litex.soc.integration import export

from litetern.firmware.build import build as build_firmware
from litetern.model.formats.image import read_file, read_image, write_image
from litetern.model.numerics.micro import micro_model
from litetern.soc.litex.builder import csr_header
from litetern.soc.litex.memory_map import BOOT, BOOT_BASE, BOOT_FINISH, BOOT_MAGIC, BOOT_SELFTEST, FIRMWARE_BASE, IMAGE_BASE, MAIN_RAM_BASE
from litetern.soc.litex.sim.simulator import Running, SimulatorError, run_interactive
from litetern.soc.virtual.ps.elf import read_elf

# A token of it takes VexRiscv a million cycles of soft float.
MICRO_SHAPE = dict(hidden=32, ffn=40, layers=1, heads=2, kv_heads=1, head_dim=16, vocab=64, context=32)

# Memory -------------------------------------------------------------------------------------------


def words(data):
    """Bytes as list of uint32, padded with 0 to whole beats."""
    data = bytes(data)
    return np.frombuffer(data + bytes(-len(data) % 8), "<u4").tolist()


def file_words(path):
    """Words of a binary file; none without a path. OSError where it cannot be read."""
    return words(Path(path).read_bytes()) if path is not None else []

def export_headers(soc, folder):
    """Writes the C headers of a finalised SoC as LiteX's builder does, to <folder>/generated; returns the folder."""
    generated = Path(folder)/"generated"
    generated.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("csr.h", csr_header(soc)),
        ("mem.h", export.get_mem_header(soc.bus.regions)),
        ("soc.h", export.get_soc_header(soc.constants)),
    ):
        (generated/name).write_text(text)
    return Path(folder)


def load_image(path=None):
    """(bytes, QuantisedModel) of an image file, or of the micro model. ValueError and OSError where it is none."""
    if path is not None:
        return read_file(path), read_image(path)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "micro.tern")
        write_image(micro_model(**MICRO_SHAPE), file)
        return Path(file).read_bytes(), read_image(file)


def memory_words(args, soc_class, options):
    """What the memory of a SoC with a CPU holds at the start: firmware, boot record and image; words [uint32].

    The firmware is built for the registers of `soc_class(**options)`, which is put together once for that.
    """
    soc = soc_class(**options)
    soc.finalize()
    include = export_headers(soc, Path(args.output_dir)/"firmware")
    elf     = read_elf(build_firmware("litex", optimise="-O2", litex=include))
    image   = load_image(args.image)[0]
    size    = soc.bus.regions["main_ram"].size
    if IMAGE_BASE + len(image) > MAIN_RAM_BASE + size:
        raise ValueError(f"image of {len(image)} bytes: the SDRAM has room for {MAIN_RAM_BASE + size - IMAGE_BASE}")
    flags  = BOOT_SELFTEST*args.selftest + BOOT_FINISH*args.non_interactive
    boot   = np.array((BOOT_MAGIC, len(image), flags, args.generate), BOOT.dtype).tobytes()
    memory = bytearray(IMAGE_BASE - MAIN_RAM_BASE) + image
    for address, data in [(address, data) for address, data, _, _ in elf.segments] + [(BOOT_BASE, boot)]:
        memory[address - MAIN_RAM_BASE:address - MAIN_RAM_BASE + len(data)] = data
    if elf.entry != FIRMWARE_BASE:
        raise ValueError(f"the firmware starts at {elf.entry:#x}, the CPU at {FIRMWARE_BASE:#x}")
    return words(memory)

# Run ----------------------------------------------------------------------------------------------


def run(folder, args, cpu):
    """Runs the simulator as the options say; returns the exit status: 0 where all that was asked for has gone well."""
    if not args.non_interactive:
        return run_interactive(folder)
    start = time.monotonic()
    with Running(folder, echo=sys.stdout) as simulation:
        simulation.wait(args.timeout)
        lines = simulation.lines
    seconds = time.monotonic() - start
    for line in lines:
        if match := re.match(r"finish: after (\d+) us", line):
            cycles = int(match[1])  # The SoC's clock is 1 MHz.
            print(f"{cycles:,} cycles in {seconds:.1f} s: {cycles/seconds/1e6:.2f} M cycles/s")
    for wanted, ended in ((args.selftest, "selftest: passed"), (args.generate, "generate: done")):
        if cpu and wanted and ended not in lines:
            raise SimulatorError(f"the simulation ended without {ended!r}")
    return 0
