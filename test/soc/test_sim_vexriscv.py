#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""soc/sim.py with VexRiscv: the firmware in soft float, the accelerator on LiteDRAM, the console and the link on LiteX's UART.

Every token and every logit is that of numpy's definition.
"""

import json
import re
import subprocess
import sys
import zlib

import pytest

from litetern.host.conversation import Vocabulary
from litetern.host.link.device import Device
from litetern.host.link.transport import SerialTransport
from litetern.host.pack import pack
from litetern.model.formats.image import read_image
from litetern.model.paths import ROOT
from litetern.soc.litex.sim.remote import free_port
from litetern.soc.litex.sim.session import load_image
from litetern.soc.litex.sim.simulator import Running
from greedy import greedy
from sim_bench import alone, build, command
from tiny_checkpoint import write_checkpoint

FOLDER     = ROOT/"build"/"sim-test-cpu"
SMALL      = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
TIMEOUT    = 600
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def tokens_printed(lines):
    """[(token, CRC-32 of the logits)] of the console's lines."""
    found = (re.match(r"token (\d+), logits (0x[0-9a-f]+), \d+ us, accelerator [1-9]\d* cycles", line) for line in lines)
    return [(int(match[1]), int(match[2], 16)) for match in found if match]


def expected_lines(model, count):
    return [(token, zlib.crc32(logits.tobytes())) for token, logits in zip(*greedy(model, [model.bos], count))]


@pytest.fixture(scope="module", autouse=True)
def turn():
    with alone(FOLDER):
        yield

# Console ------------------------------------------------------------------------------------------


def test_selftest_and_generation_end_with_their_status(capfd):
    build(FOLDER, "--ports", "2")
    done  = subprocess.run(command(FOLDER, "--ports", "2", "--selftest", "--generate", "2", "--non-interactive", "--timeout", str(TIMEOUT)),
        capture_output=True, text=True, timeout=2*TIMEOUT)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    cases = [line for line in lines if line.startswith("selftest: lane")]
    assert len(cases) == 10 and all(": equal, " in line for line in cases) and "selftest: passed" in lines
    assert tokens_printed(lines) == expected_lines(load_image()[1], 2)
    assert re.fullmatch(r"[\d,]+ cycles in [\d.]+ s: [\d.]+ M cycles/s", lines[-1])
    with capfd.disabled():
        print("\n" + lines[-1])


def test_run_that_takes_too_long_fails():
    done = subprocess.run(command(FOLDER, "--ports", "2", "--selftest", "--non-interactive", "--timeout", "0.2"),
        capture_output=True, text=True, timeout=2*TIMEOUT)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == "sim.py: the simulation did not end within 0.2 s"


def test_console_takes_commands():
    with Running(build(FOLDER, "--ports", "2")) as simulation:
        at = simulation.wait_for("^ready", TIMEOUT)[1]
        simulation.type("helpx\x7f\n")
        at = simulation.wait_for("A host .* may begin to speak", TIMEOUT, at)[1]
        simulation.type("generate 1\n")
        at = simulation.wait_for("generate: done", TIMEOUT, at)[1]
        simulation.type("selftest\n")
        at = simulation.wait_for("selftest: passed", TIMEOUT, at)[1]
        simulation.type("finish\n")
        simulation.wait(TIMEOUT)
    assert tokens_printed(simulation.lines) == expected_lines(load_image()[1], 1)

# Link ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A packed checkpoint, with a tokenizer."""
    folder = tmp_path_factory.mktemp("sim")
    path   = folder/"small.tern"
    pack(write_checkpoint(folder/"checkpoint", **SMALL), path)
    return path


@pytest.fixture(scope="module")
def url(image, turn):
    """Where the UART of a simulation with that image is."""
    port = free_port()
    with Running(build(FOLDER, "--ports", "2", "--image", str(image), "--uart-tcp-port", str(port))) as simulation:
        simulation.wait_for("UART at", 60)
        yield f"socket://localhost:{port}"


def test_logits_over_the_uart_equal_numpy(url, image):
    prompt = [5, 42]
    device = Device(SerialTransport(url), silence=TIMEOUT)
    try:
        assert device.identity["pl"] == 1 and device.identity["pl_ports"] == 2 and not device.identity["problem"]
        events = [event for event in device.generate(prompt, max_tokens=2, logits=True) if event.kind == "token"]
    finally:
        device.close()
    expected = greedy(read_image(image), prompt, 2)
    assert [event.token for event in events] == expected[0]
    for event, logits in zip(events, expected[1]):
        assert (event.logits == logits).all() and sum(event.pl_cycles.values())


def test_chat_over_the_uart(url, image):
    done = subprocess.run([sys.executable, str(ROOT/"host"/"chat.py"), "--board", f"serial:{url}", "--model", str(image), "--prompt", "Once",
        "--tokens", "2", "--greedy", "--json"], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    tokens  = [item["token"] for item in map(json.loads, done.stdout.splitlines()) if "token" in item]
    model   = read_image(image)
    prompt  = [model.bos, *Vocabulary(model.tokenizer).encode("Once")]
    assert tokens == [token for token, _ in greedy(model, prompt, 2)]
