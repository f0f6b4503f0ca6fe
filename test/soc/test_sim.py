#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""soc/sim.py without a CPU: LiteX's simulator, the accelerator on LiteDRAM, and a host on litex_server.

::

    RemoteClient ─► litex_server ─► socket ─► serial2socket ─► UARTBone ─► registers, LiteDRAM ◄─ lanes
"""

import socket
import subprocess
import sys
import time


import numpy as np
import pytest

from litetern.model.formats.stream import FORMAT_INT8
from litetern.model.paths import ROOT
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.litex.memory_map import MAIN_RAM_BASE
from litetern.soc.litex.sim.remote import RemoteDriver, RemoteSoC, free_port
from litetern.soc.litex.sim.simulator import Running
from litetern.soc.virtual.pl.workload import Arena, Group, Head, interleave

from sim_bench import SHAPE, alone, build, command

FOLDER = ROOT/"build"/"sim-test-bare"
CONFIG = AcceleratorConfig(clock_hz=1e6, **SHAPE)


# Registers and memory from Python -----------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def turn():
    with alone(FOLDER):
        yield


@pytest.fixture(scope="module")
def port(turn):
    """TCP port of the bus of a simulation that runs."""
    number = free_port()
    with Running(build(FOLDER, "--cpu-type", "None", "--with-analyzer", "--uart-tcp-port", str(number))) as simulation:
        simulation.wait_for(f"UART at socket://localhost:{number}", 60)
        yield number


@pytest.fixture(scope="module")
def driver(port):
    with RemoteSoC(f"socket://localhost:{port}", FOLDER/"csr.csv", 1 << 17, CONFIG) as remote:
        yield RemoteDriver(remote)


def run(driver, core, pieces, items, arena):
    """Results of a list of pieces, and of the items [Group or Head] as numpy gives them."""
    bytes = sum(item.result_bytes for item in items)
    start = arena.take(1024)
    result = arena.take(bytes)
    driver.put_list(start, pieces)
    driver.start(0, core, start, result, bytes)
    outcome = driver.wait(0)
    assert outcome.flags == {"done"} and outcome.results == bytes
    assert outcome.beats == sum(item.beats for item in items)
    return driver.pl.download((result, bytes)), np.concatenate([item.expected() for item in items])


def arena_of(driver):
    return Arena(driver.pl.memory, MAIN_RAM_BASE, MAIN_RAM_BASE)


def test_matmul_equals_numpy(driver):
    arena, rng = arena_of(driver), np.random.default_rng(1)
    groups     = [Group(arena, rng, rows, columns) for rows, columns in ((33, 200), (1, 40), (70, 1024))]
    groups    += [Group(arena, rng, 20, 96, format=FORMAT_INT8)]
    got, expected = run(driver, "matmul", [piece for group in groups for piece in group.pieces], groups, arena)
    assert (got == expected).all()


def test_attention_equals_numpy(driver):
    arena, rng = arena_of(driver), np.random.default_rng(2)
    heads      = [Head(arena, rng, rows, head_dim, queries=queries, buffer=i % 2)
        for i, (rows, head_dim, queries) in enumerate(((37, 32, 2), (1, 8, 1), (130, 24, 2)))]
    got, expected = run(driver, "attention", interleave(heads), heads, arena)
    assert (got == expected).all()


def test_refused_group_is_reported(driver):
    """A row longer than the core was built for: the lane says so and serves the next list."""
    arena, rng = arena_of(driver), np.random.default_rng(3)
    group      = Group(arena, rng, 2, 2*SHAPE["row_weights_max"])
    start      = arena.take(1024)
    driver.put_list(start, group.pieces)
    driver.start(0, "matmul", start, arena.take(1024), 1024)
    outcome = driver.wait(0)
    assert "error" in outcome.flags and any(name.startswith("matmul_") for name in outcome.flags) and outcome.results == 0
    test_matmul_equals_numpy(driver)

# LiteX's tools ------------------------------------------------------------------------------------


def test_analyzer_shows_a_list_being_read(driver):
    from litescope.software.driver.analyzer import LiteScopeAnalyzerDriver
    arena, rng = arena_of(driver), np.random.default_rng(4)
    group      = Group(arena, rng, 8, 40)
    analyzer   = LiteScopeAnalyzerDriver(driver.pl.client.regs, "analyzer", config_csv=str(FOLDER/"analyzer.csv"))
    lowest     = {}  # {signal: (lowest bit, bits)}
    for name, bits in analyzer.layouts[0]:
        lowest[name.removeprefix("simsoc_")] = sum(size for _, size in lowest.values()), bits
    analyzer.configure_group(0)
    analyzer.add_trigger(cond={"simsoc_r_hp0_valid": "1"})
    analyzer.run(offset=8, length=64)
    got, expected = run(driver, "matmul", group.pieces, [group], arena)
    assert (got == expected).all()
    deadline = time.monotonic() + 60
    while not analyzer.done():
        assert time.monotonic() < deadline
    samples = [{name: sample >> bit & (1 << bits) - 1 for name, (bit, bits) in lowest.items()} for sample in analyzer.upload()]
    read    = [sample["r_hp0_payload_data"] for sample in samples if sample["r_hp0_valid"] and sample["r_hp0_ready"]]
    head    = arena.view(group.pieces[0]).view("<u8").tolist()
    assert any(read[i:i + len(head)] == head for i in range(len(read)))  # Behind the descriptors.


def test_litex_cli_reads_a_register(driver):
    done = subprocess.run([sys.executable, "-m", "litex.tools.litex_client", "--csr-csv", str(FOLDER/"csr.csv"), "--host", "127.0.0.1", "--port",
        str(driver.pl.server.port), "--regs", "--filter", "accelerator_identity"], capture_output=True, text=True, timeout=120, cwd=FOLDER)
    assert "0x4c54524e" in done.stdout.lower(), done.stdout + done.stderr

# Clients come and go ------------------------------------------------------------------------------


def test_client_that_leaves_in_the_middle_of_a_reply(port, driver):
    """The simulator goes on, and the next client finds a line without leftovers."""
    driver.pl.close()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(bytes([2, 255, *(MAIN_RAM_BASE//4).to_bytes(4, "big")]))
    with RemoteSoC(f"socket://localhost:{port}", FOLDER/"csr.csv", 1 << 17, CONFIG) as remote:
        test_matmul_equals_numpy(RemoteDriver(remote))

# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, message", (
    (["--cpu-type", "picorv32"],      "--cpu-type picorv32: must be vexriscv, for which the firmware is built, or None"),
    (["--l2-size", "8192"],           "--l2-size 8192: must be 0, the accelerator's ports pass an L2 cache by"),
    (["--sdram-data-width", "24"],    "--sdram-data-width 24: must be one of 16, 32, 64, 128"),
    (["--sdram-module", "MT47"],      "--sdram-module MT47: must be one of "),
    (["--rows-max", "100"],           "accelerator rows_max = 100: must be 512, 1024, 2048 or 4096"),
    (["--cpu-type", "None", "--sdram-init", "no-such-file"], "no-such-file: No such file or directory"),
))
def test_impossible_options_are_one_line(options, message, tmp_path):
    done = subprocess.run(command(tmp_path, *options), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(f"sim.py: {message}"), done.stderr

# Other memories -----------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bits", (16, 128))
def test_memory_of_another_width(bits):
    """LiteDRAM converts the lanes' ports; a trace is written on the way."""
    folder, number = ROOT/"build"/f"sim-test-{bits}", free_port()
    options = ["--cpu-type", "None", "--sdram-data-width", str(bits), "--uart-tcp-port", str(number), "--trace", "--trace-end", "1e9"]
    with Running(build(folder, *options)) as simulation:
        simulation.wait_for(f"UART at socket://localhost:{number}", 60)
        with RemoteSoC(f"socket://localhost:{number}", folder/"csr.csv", 1 << 17, CONFIG) as remote:
            test_matmul_equals_numpy(RemoteDriver(remote))
            test_attention_equals_numpy(RemoteDriver(remote))
    assert "$enddefinitions" in (folder/"gateware"/"sim.vcd").read_text(errors="replace")
