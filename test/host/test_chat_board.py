#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The chat's commands on the virtual board: firmware on an emulated A9, gateware or C cores.

    chat.py ──► Device ──► VirtualBoard                      --board virtual
    chat.py ──► Device ──► pyserial ──► TCP ──► VirtualBoard --board serial:socket://…
"""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from litetern.firmware import build
from litetern.host import chat
from litetern.host.conversation import Vocabulary
from litetern.host.link.device import Device
from litetern.host.link.transport import SerialTransport
from litetern.host.pack import pack
from litetern.model.common import console
from litetern.model.formats.image import read_image
from litetern.model.paths import ROOT
from litetern.soc.tools import verilate
from litetern.soc.virtual.board import VirtualBoard
from greedy import greedy
from tiny_checkpoint import write_checkpoint

CHAT    = [sys.executable, str(ROOT/"host"/"chat.py")]
PROMPT  = "Once upon a"
TOKENS  = 12
TIMEOUT = 400  # Seconds: the first run builds firmware and gateware.

# Helpers ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    pack(write_checkpoint(folder/"tiny"), folder/"tiny.tern")
    return folder/"tiny.tern"


@pytest.fixture(scope="module")
def expected(image):
    """Greedy tokens of the numpy definition."""
    model = read_image(image)
    return greedy(model, [model.bos, *Vocabulary(model.tokenizer).encode(PROMPT)], TOKENS)[0]


def objects(out):
    return [json.loads(line) for line in out.splitlines()]


def run(monkeypatch, capsys, *arguments):
    """The command in this process: (status, stdout, last line of stderr)."""
    monkeypatch.setattr(sys, "argv", ["chat.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        console.run(chat.main)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return end.value.code, out, err.splitlines()[-1]

# Virtual board ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pl", ("rtl", "c", "none"))
def test_every_pl_says_what_numpy_says(image, expected, pl):
    done = subprocess.run([*CHAT, "--board", "virtual", "--pl", pl, "--model", str(image), "--prompt", PROMPT, "--tokens", str(TOKENS),
        "--greedy", "--json"], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    *tokens, totals = objects(done.stdout)
    assert [token["token"] for token in tokens] == expected and totals["tokens"] == TOKENS
    if pl == "rtl":
        cycles = [token["pl_cycles"] for token in tokens]
        assert totals["pl_cycles_per_token"] == pytest.approx(sum(cycles)/TOKENS) and cycles == sorted(cycles)  # The KV cache grows.
        assert 0 < totals["wall_fraction"] <= 1 and 0 < totals["board_tokens_per_s"] < 125e6/max(cycles)
    else:
        assert all(token["pl_cycles"] is None for token in tokens) and totals["wall_fraction"] is None


class Screen:
    """What a program shows on a terminal; `until` waits for text behind what was waited for before."""
    def __init__(self, master):
        self.master, self.shown = master, ""

    def until(self, text):
        end = time.monotonic() + TIMEOUT
        while text not in self.shown:
            assert time.monotonic() < end, f"{text!r} did not come: {self.shown!r}"
            if select.select([self.master], [], [], 1)[0]:
                self.shown += os.read(self.master, 4096).decode("utf-8", "replace")
        before, self.shown = self.shown.split(text, 1)
        return before


def test_ctrl_c_on_a_terminal(tmp_path):
    """A person at a terminal: stops a long answer with Ctrl-C, goes on, asks for the figures, leaves."""
    pack(write_checkpoint(tmp_path/"long", max_position_embeddings=4096), tmp_path/"long.tern")
    master, slave = pty.openpty()
    process = subprocess.Popen([*CHAT, "--pl", "none", "--model", str(tmp_path/"long.tern"), "--greedy"], stdin=slave, stdout=slave,
        stderr=slave, env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm"}, start_new_session=True)
    os.close(slave)
    screen = Screen(master)
    try:
        assert "virtual PYNQ-Z1" in screen.until("> ")
        os.write(master, b"Once\r")
        screen.until("Once\r\n")
        screen.until("reading")
        os.kill(process.pid, signal.SIGINT)
        assert 0 < int(screen.until(" tokens").rsplit("[", 1)[1]) < 1000
        screen.until("> ")
        os.write(master, b"/stats\r")
        assert "its own C cores" in screen.until("positions used")
        screen.until("> ")
        os.write(master, b"/quit\r")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert "/stats" in (tmp_path/"litetern"/"history").read_text()


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}], ids=["dumb", "no colours"])
def test_terminals_that_want_text_alone(image, tmp_path, variables):
    """A whole session of one that knows no sequences has none; NO_COLOR leaves those of the progress line."""
    master, slave = pty.openpty()
    process = subprocess.Popen([*CHAT, "--pl", "c", "--model", str(image), "--greedy", "--tokens", "4"], stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), **variables}, start_new_session=True)
    os.close(slave)
    screen = Screen(master)
    try:
        text = screen.until("> ")
        for line in (b"Once upon a\r", b"/stats\r"):
            os.write(master, line)
            text += screen.until("> ")
        os.write(master, b"/quit\r")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert "[4 tokens" in text and "\x1b[2m" not in text
    if variables["TERM"] == "dumb":
        assert "\x1b" not in text and "\r" not in text.replace("\r\n", "")

# Serial port --------------------------------------------------------------------------------------


class Server:
    """A virtual board's UART at a TCP port, as a serial server has it; `board` None for a wire that stays silent."""
    def __init__(self, board):
        self.board  = board
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url    = f"serial:socket://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.ended  = threading.Event()
        self.thread.start()

    def _serve(self):
        wire, _ = self.socket.accept()
        with wire:
            wire.setblocking(False)
            while not self.ended.is_set():
                try:
                    data = wire.recv(4096)
                    if not data:
                        return
                except BlockingIOError:
                    data = b""
                if self.board is None:
                    self.ended.wait(0.05)
                    continue
                if data:
                    self.board.write(data)
                answer = self.board.read(0.02)
                if answer:
                    wire.setblocking(True)
                    wire.sendall(answer)
                    wire.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(30)
        self.socket.close()


def test_serial_port_uploads_and_answers(image, expected):
    with VirtualBoard(pl="none") as board, Server(board) as server:
        done = subprocess.run([*CHAT, "--board", server.url, "--model", str(image), "--prompt", PROMPT, "--tokens", str(TOKENS), "--greedy",
            "--json"], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert [line["token"] for line in objects(done.stdout)[:-1]] == expected


def test_board_that_does_not_answer(image, monkeypatch, capsys):
    """A silent wire from the start, and a board that falls silent in the middle of an answer."""
    with Server(None) as server:
        monkeypatch.setattr(chat, "open_device", lambda name, *_, **options: Device(SerialTransport(name.removeprefix("serial:")), silence=1))
        status, out, err = run(monkeypatch, capsys, "--board", server.url, "--model", image, "--prompt", PROMPT)
    assert (status, out) == (1, "") and err == "chat.py: no LiteTern firmware answered within 1 s: nothing came"

    class Dying(VirtualBoard):
        left = 40

        def read(self, timeout=0.1):
            self.left -= 1
            return super().read(timeout) if self.left > 0 else time.sleep(0.05) or b""
    monkeypatch.setattr(chat, "open_device", lambda *_, **options: Device(Dying(image, pl="none"), silence=1))
    status, _, err = run(monkeypatch, capsys, "--model", image, "--prompt", PROMPT)
    assert status == 1 and err == "chat.py: the board has stopped answering (nothing for 1 s)"


class Stranger:
    """A device that is no board: it answers everything with the same words."""
    def __init__(self, words):
        self.words, self.said = words, b""

    def write(self, data):
        self.said = self.words

    def read(self, timeout):
        time.sleep(timeout)
        said, self.said = self.said, b""
        return said


def test_another_device_at_the_port(image, monkeypatch, capsys):
    """What it says is shown, in seconds; test_link.py has more of them."""
    with Server(Stranger(b"\r\npynq login: ")) as server:
        start = time.monotonic()
        status, out, err = run(monkeypatch, capsys, "--board", server.url, "--model", image, "--prompt", PROMPT)
    assert (status, out) == (1, "") and err == 'chat.py: no LiteTern firmware answered within 5 s: the device says "pynq login:"'
    assert time.monotonic() - start < 15


class Swapped:
    """A board that becomes another device in the middle of an answer."""
    def __init__(self, board, other):
        self.device, self.other, self.answers = board, other, 0

    def write(self, data):
        self.device.write(data)

    def read(self, timeout):
        data = self.device.read(timeout)
        self.answers += bool(data)
        if self.answers == 60:
            self.device = self.other()
        return data


@pytest.mark.parametrize("other, said", [
    (lambda: VirtualBoard(pl="none"),           "the board was reset and has started anew"),
    (lambda: Stranger(b"\r\npynq login: "),     'the board has stopped answering: the device says "pynq login:"'),
], ids=("reset", "login"))
def test_another_device_in_the_middle_of_an_answer(other, said, image, monkeypatch, capsys):
    """It is said on a line of its own, behind what has come of the answer."""
    with VirtualBoard(image, pl="none") as board, Server(Swapped(board, other)) as server:
        status, out, err = run(monkeypatch, capsys, "--board", server.url, "--model", image, "--prompt", PROMPT)
    assert status == 1 and out.startswith(PROMPT) and len(out) > len(PROMPT) + 1 and out.endswith("\n") and err == f"chat.py: {said}"


def test_image_too_large_for_the_board(image, monkeypatch, capsys):
    def small(*_, **options):
        device = Device(VirtualBoard(pl="none"))
        device.identity["image_limit"] = 1000
        return device
    monkeypatch.setattr(chat, "open_device", small)
    status, out, err = run(monkeypatch, capsys, "--model", image, "--prompt", PROMPT)
    assert (status, out) == (1, "") and err == f"chat.py: {image}: {image.stat().st_size} bytes, the board holds 1000"


def test_no_such_port(image, monkeypatch, capsys):
    for port in ("/dev/no-such-port", "socket://127.0.0.1:1", "nonsense://x"):
        status, out, err = run(monkeypatch, capsys, "--board", f"serial:{port}", "--model", image, "--prompt", PROMPT)
        assert (status, out) == (1, "") and err.count(port) == 1
    assert "no-such-port: No such file or directory" in run(monkeypatch, capsys, "--board", "serial:/dev/no-such-port", "--model", image,
        "--prompt", PROMPT)[2]

# Tools --------------------------------------------------------------------------------------------


def test_missing_tools(image, monkeypatch, capsys, tmp_path):
    """Nothing built yet, and no tool to build it with: the line names the tool."""
    arguments = ("--model", image, "--prompt", PROMPT)
    monkeypatch.setattr(verilate, "CACHE", tmp_path/"verilator")
    with monkeypatch.context() as context:
        context.setattr(verilate.shutil, "which", lambda name: None)
        status, out, err = run(monkeypatch, capsys, *arguments)
        assert (status, out) == (1, "") and "not found" in err and "install" in err
    monkeypatch.setattr(build, "CACHE", tmp_path/"firmware")
    with monkeypatch.context() as context:
        context.setattr(build.shutil, "which", lambda name: None)
        status, out, err = run(monkeypatch, capsys, *arguments, "--pl", "none")
        assert (status, out) == (1, "") and err == "chat.py: make not found: install it with your system's packages"
