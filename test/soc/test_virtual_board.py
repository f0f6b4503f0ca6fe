#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The whole board: firmware's binary, link, engine, and gateware or C cores, against the numpy definition; and all that can go wrong on the way."""

import random
import socket
import threading
import time

import numpy as np
import pytest

from litetern.host.link import device as devices
from litetern.host.link.device import Device, Sampling, open_device
from litetern.host.link.messages import GENERATE, TOKENS
from litetern.host.link.protocol import LinkError
from litetern.host.link.transport import SerialTransport, open_transport
from litetern.soc.virtual.board import BoardError, VirtualBoard
from litetern.soc.virtual.ps.slcr import OCM_MAP
from litetern.soc.virtual.serve import serve
from litetern.soc.zynq.memory_map import RESULTS_BASE, RESULTS_BYTES
from tiny_board import GREEDY, PROMPT, reference, tokens_of, write_tiny
from tiny_model import tiny_image


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("board"))

# Bits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pl", ["none", "c", "rtl"])
def test_logits_equal_numpy(path, pl):
    count = 8
    tokens, logits = reference(PROMPT, count)
    with open_device("virtual", pl, path) as device:
        assert device.identity["pl"] == int(pl != "none") and device.identity["name"] == "tiny"
        events = list(device.generate(PROMPT, GREEDY, count, logits=True))
    sampled = [event for event in events if event.kind == "token"]
    assert [event.kind for event in events] == ["prompt"]*(len(PROMPT) - 1) + ["token"]*count
    assert [event.token for event in sampled] == tokens
    assert np.array_equal(np.array([event.logits for event in sampled]).view(np.uint32), logits.view(np.uint32))
    assert events[-1].end == "length" and events[-1].position == len(PROMPT) + count - 1
    assert all(bool(event.pl_cycles) == (pl == "rtl") and event.pl_bytes > 0 and (event.seconds > 0 or pl == "c") for event in events)


@pytest.mark.parametrize("pl", ["c", "rtl"])
def test_results_go_to_the_on_chip_memory(path, pl):
    """All of them, none to the DDR; not before all of its banks answer there; never to core 1's page."""
    with VirtualBoard(path, pl) as board:
        written, cache = [], board.cache

        def hook(write, address, bytes):
            if write:
                written.append(address)
            (cache.dma_written if write else cache.dma_read)(address, bytes)

        board.pl.set_hook(hook)
        with Device(board) as device:
            assert len(tokens_of(device.generate(PROMPT, GREEDY, 2))) == 2
        assert min(written) >= RESULTS_BASE and cache.dma_high[:RESULTS_BYTES].any() and not cache.dma_high[RESULTS_BYTES:].any()
    board = VirtualBoard(path, pl)
    with Device(board) as device:
        board.slcr.registers[OCM_MAP] = 0x18
        with pytest.raises(BoardError, match="a list has its results at 0xfffc[0-9a-f]{4}, but the on-chip memory is not mapped there"):
            list(device.generate(PROMPT, GREEDY, 2))


def test_rtl_cycles_repeat_and_caches_hold_in_strict_mode(path):
    def run(**options):
        with open_device("virtual", "rtl", path, **options) as device:
            return [(event.token, event.pl_cycles) for event in device.generate(PROMPT, GREEDY, 4)]

    first = run()
    assert first == run()
    assert [token for token, _ in first] == [token for token, _ in run(strict=True)]


def test_sessions_share_the_board(path):
    tokens, _ = reference(PROMPT, 6)
    other, _  = reference([11, 13], 6)
    with open_device("virtual", "c", path) as device:
        assert device.identity["sessions"] >= 2
        assert tokens_of(device.generate(PROMPT, GREEDY, 3)) == tokens[:3]
        assert tokens_of(device.generate([11, 13], GREEDY, 6, session=1)) == other
        assert tokens_of(device.generate([], GREEDY, 3, session=0)) == tokens[3:]
        device.reset(0)
        assert tokens_of(device.generate(PROMPT, GREEDY, 2)) == tokens[:2]

# Requests -----------------------------------------------------------------------------------------


def test_stop_ends_at_a_token_and_the_session_goes_on(path):
    tokens, _ = reference(PROMPT, 20)
    with open_device("virtual", "c", path) as device:
        got = []
        for event in device.generate(PROMPT, GREEDY, 30):
            got.append(event)
            if len(tokens_of(got)) == 4 and not event.end:
                device.stop()
        assert got[-1].end == "stopped" and 4 <= len(tokens_of(got)) < 20
        assert tokens_of(got) == tokens[:len(tokens_of(got))]
        more = tokens_of(device.generate([], GREEDY, 3))
        assert more == tokens[len(tokens_of(got)):][:3]


def test_context_ends(path):
    with open_device("virtual", "c", path) as device:
        events = list(device.generate(PROMPT, GREEDY, 1000))
        assert events[-1].end == "context" and events[-1].position == device.context
        with pytest.raises(LinkError, match="context"):
            list(device.generate(PROMPT, GREEDY, 1))
        device.reset()
        with pytest.raises(ValueError, match=f"prompt of {device.context + 1} tokens: the context holds {device.context}"):
            list(device.generate([1]*(device.context + 1), GREEDY, 1))
        assert tokens_of(device.generate(PROMPT, GREEDY, 2)) == reference(PROMPT, 2)[0]


@pytest.mark.parametrize("tokens, sampling, session, text", [
    ([1000],  GREEDY,                            0,  "vocabulary"),
    ([1],     Sampling(temperature=-1),          0,  "setting"),
    ([1],     Sampling(repetition_penalty=0),    0,  "setting"),
    ([1],     GREEDY,                            77, "session"),
    ([],      GREEDY,                            1,  "prompt"),
    ([1]*30,  GREEDY,                            0,  "too many"),
])
def test_refusals_are_one_line_and_change_nothing(path, tokens, sampling, session, text):
    with open_device("virtual", "c", path) as device:
        if text == "too many":
            for offset in range(0, 6000, len(tokens)):
                device._send("TOKENS", devices._message(TOKENS, 0, offset) + np.array(tokens, "<u4").tobytes())
            tokens = []
            device._request = 1
            device._send("GENERATE", devices._message(GENERATE, 0, 1, 6000, 1, 0, 0, 1, 1, 0, 0, 0, 0))
        with pytest.raises(LinkError, match=f"(?i)^[^\n]*{text}[^\n]*$"):
            list(device._events(False) if text == "too many" else device.generate(tokens, sampling, 2, session=session))
        assert tokens_of(device.generate(PROMPT, GREEDY, 2)) == reference(PROMPT, 2)[0]


def test_messages_that_no_host_sends(path):
    with open_device("virtual", "c", path) as device:
        for name, payload, text in (("GENERATE", b"short", "wrong length"), ("UPLOAD_DATA", bytes(40), "no upload asked for"),
            ("UPLOAD_END", b"", "not complete"), ("STOP", b"", "wrong length")):
            device._send(name, payload)
            with pytest.raises(LinkError, match=text):
                device._expect("DONE", name)
        device.link.send(0x7F)
        assert b"unknown message" in device.link.receive(5)[1]
        device._send("TOKENS", devices._message(TOKENS, 0, 9) + bytes(4))
        device._send("GENERATE", devices._message(GENERATE, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0))
        with pytest.raises(LinkError, match="missing"):
            device._expect("DONE", "GENERATE")


def test_versions_without_overlap(path):
    with open_device("virtual", "c", path) as device:
        device.link.open(np.array((7, 9), "<u4").tobytes())
        with pytest.raises(LinkError, match="no common protocol version"):
            device._expect("IDENTITY", "HELLO")


def test_statistics(path):
    with open_device("virtual", "c", path) as device:
        list(device.generate(PROMPT, GREEDY, 5))
        stats = device.stats()
        assert stats["tokens"] == len(PROMPT) + 4 and stats["frames_damaged"] == stats["line_errors"] == stats["pl_errors"] == 0


def test_a_new_host_takes_over(path):
    """A host that vanishes in the middle of a text leaves nothing behind that a second one could trip over."""
    with open_device("virtual", "c", path) as device:
        running = device.generate(PROMPT, GREEDY, 30, logits=True)
        next(running), next(running)
        second = Device(device.transport)
        second.reset()
        assert tokens_of(second.generate(PROMPT, GREEDY, 5)) == reference(PROMPT, 5)[0]

# Upload -------------------------------------------------------------------------------------------


def test_upload_resumes_and_replaces(path, tmp_path):
    board = VirtualBoard(pl="c")
    with Device(board) as device:
        assert device.image_crc is None and device.context == 0
        with pytest.raises(LinkError, match="no model is loaded"):
            list(device.generate(PROMPT, GREEDY, 1))

        class Cut(Exception):
            pass

        def cut(done, total):
            if done > total//2:
                raise Cut

        with pytest.raises(Cut):
            device.upload(path, cut)
        second = Device(board)
        seen   = []
        second.upload(path, lambda done, total: seen.append(done))
        assert seen[0] > path.stat().st_size//3 and seen[-1] == path.stat().st_size
        assert tokens_of(second.generate(PROMPT, GREEDY, 4)) == reference(PROMPT, 4)[0]
        seen.clear()
        second.upload(path, lambda done, total: seen.append(done))
        assert seen == []  # It is there.
        other = tmp_path/"other.tern"
        other.write_bytes(tiny_image(6)[0])
        crc = second.image_crc
        second.upload(other)
        assert second.image_crc not in (None, crc)
        assert tokens_of(second.generate(PROMPT, GREEDY, 4)) != reference(PROMPT, 4)[0]


def broken(data, at, value=None):
    data = bytearray(data)
    data[at] = data[at] ^ 0x10 if value is None else value
    return bytes(data)


@pytest.mark.parametrize("change, text", [
    (lambda data: broken(data, len(data) - 5), "damaged|CRC"),
    (lambda data: broken(data, 4, 9),          "version"),
    (lambda data: broken(data, 0),             "magic|not a"),
    (lambda data: data[:-128],                 "bytes|length|long"),
])
def test_refused_images(path, tmp_path, change, text):
    """By the host where it looks, by the board in any case; the board goes on."""
    bad = tmp_path/"bad.tern"
    bad.write_bytes(change(path.read_bytes()))
    with pytest.raises((ValueError, LinkError), match=f"(?i)^[^\n]*({text})[^\n]*$"):
        open_device("virtual", "c", bad).close()
    with Device(VirtualBoard(bad, pl="c")) as device:
        assert device.identity["problem"] and device.image_crc is None
        device.upload(path)
        assert device.identity["problem"] == "" and tokens_of(device.generate(PROMPT, GREEDY, 3)) == reference(PROMPT, 3)[0]


def test_too_large_images(path, tmp_path):
    huge = tmp_path/"huge.tern"
    with open(huge, "wb") as file:
        file.write(path.read_bytes())
        file.truncate(477 << 20)
    with pytest.raises(ValueError, match="the board holds"):
        open_device("virtual", "c", huge)
    with Device(VirtualBoard(pl="c")) as device:
        device._send("UPLOAD_BEGIN", np.array((2**31, 1), "<u4").tobytes())
        with pytest.raises(LinkError, match="larger than the board's memory"):
            device._expect("UPLOAD_STATUS", "UPLOAD_BEGIN")

# Line ---------------------------------------------------------------------------------------------


class BadLine:
    """Loses, repeats and damages what goes over a board's line, both ways."""
    def __init__(self, board, seed, rate):
        self.board, self.random, self.rate, self.spoiled = board, random.Random(seed), rate, 0

    def _spoil(self, data):
        data = bytearray(data)
        if data and self.random.random() < self.rate:
            self.spoiled += 1
            kind, at = self.random.randrange(4), self.random.randrange(len(data))
            if kind == 0:
                data[at] ^= 1 << self.random.randrange(8)
            elif kind == 1:
                del data[at:at + self.random.randint(1, 50)]
            elif kind == 2:
                data = data + data
            else:
                data[at:at] = self.random.randbytes(20)
        return bytes(data)

    def write(self, data):
        self.board.write(self._spoil(data))

    def read(self, timeout):
        return self._spoil(self.board.read(timeout))

    def close(self):
        self.board.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_line_changes_nothing(path, seed):
    with Device(BadLine(VirtualBoard(pl="c"), seed, 0.2), clock=lambda: 4*time.monotonic(), silence=300) as device:
        device.upload(path)
        assert tokens_of(device.generate(PROMPT, GREEDY, 12)) == reference(PROMPT, 12)[0]
        assert device.transport.spoiled > 3


@pytest.mark.parametrize("pl", ["none", "c"])
def test_the_fifo_of_a_real_line_never_overruns(path, pl):
    """At the console's rate the firmware looks often enough, even where it computes everything itself."""
    board = VirtualBoard(path, pl=pl)
    board.uart.baud = 115200
    with Device(board) as device:
        assert tokens_of(device.generate(PROMPT*5, GREEDY, 6)) == reference(PROMPT*5, 6)[0]
        assert device.stats()["line_errors"] == 0


def test_overruns_are_counted_and_healed(path):
    """Every other long frame comes faster than the firmware can look."""
    board, long = VirtualBoard(path, pl="c"), [0]

    def hasty(data):
        long[0] += len(data) > 90
        board.uart.baud = 60_000_000 if len(data) > 90 and long[0] % 2 else None
        VirtualBoard.write(board, data)
        while board.uart.baud and board.uart.waiting:
            board.slice()

    with Device(board, clock=lambda: 4*time.monotonic(), silence=300) as device:
        board.write = hasty
        for count in range(1, 6):
            device.reset()
            assert tokens_of(device.generate(PROMPT*5, GREEDY, count)) == reference(PROMPT*5, count)[0]
        assert device.stats()["line_errors"] > 0


def test_over_tcp_as_a_serial_port(path):
    board, stop = VirtualBoard(path, pl="c"), threading.Event()
    with board, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(board, listener, stop.is_set))
        thread.start()
        try:
            for _ in range(2):  # One client after the other.
                with open_device(f"serial:socket://127.0.0.1:{listener.getsockname()[1]}") as device:
                    device.reset()
                    assert tokens_of(device.generate(PROMPT, GREEDY, 4)) == reference(PROMPT, 4)[0]
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("name", ["virtuell", "virtual:1", "serial:", "serial", "udp:192.168.2.99", ""])
def test_unknown_boards(name):
    with pytest.raises(ValueError, match="must be virtual, serial:DEVICE"):
        open_transport(name)


def test_unknown_pl_and_port():
    with pytest.raises(ValueError, match="pl 'fpga': must be one of rtl, c, none"):
        VirtualBoard(pl="fpga")
    with pytest.raises(ValueError, match="serial port /dev/nobody"):
        SerialTransport("/dev/nobody")

# The end ------------------------------------------------------------------------------------------


SPIN, UNDEFINED = 0xEAFFFFFE, 0xE7F000F0


def overwrite(board, symbol, instruction):
    """From now on, this is a function's first instruction."""
    address = board.elf.symbols[symbol]
    board.cpu.uc.ctl_remove_cache(address, address + 4)
    board.cache.preload(address, instruction.to_bytes(4, "little"))


def test_firmware_that_never_answers():
    board = VirtualBoard(pl="c")
    overwrite(board, "uart_init", SPIN)
    with pytest.raises(LinkError, match="^no LiteTern firmware answered within 1 s: nothing came$"):
        Device(board, silence=1)
    assert board.pl is None  # Closed.


def test_firmware_that_stops_answering(path):
    with Device(VirtualBoard(path, pl="c"), silence=1) as device:
        events = device.generate(PROMPT, GREEDY, 30)
        next(events)
        overwrite(device.transport, "engine_poll", SPIN)
        with pytest.raises(LinkError, match="^the board has stopped answering"):
            list(events)


def test_firmware_fault_during_generation(path):
    with open_device("virtual", "c", path) as device:
        events = device.generate(PROMPT, GREEDY, 30)
        next(events)
        overwrite(device.transport, "engine_poll", UNDEFINED)
        with pytest.raises(BoardError, match="^the firmware has stopped: undefined instruction at pc [^\n]*$"):
            list(events)


def test_pl_that_stops_is_given_up(path):
    """A lane that never ends: the engine's time-out aborts it, says so, and the next request works."""
    with open_device("virtual", "c", path) as device:
        pl   = device.transport.pl
        real = pl.read
        seconds = device.transport.seconds
        device.transport.mpcore.seconds = lambda: 30*seconds()  # The firmware's patience passes quickly.
        busy = [pl.registers[f"accelerator_lane{lane}_{name}"] for lane in (0, 1) for name in ("status", "results")]
        pl.read = lambda address: int(address == busy[0] or address == busy[2]) if address in busy else real(address)
        with pytest.raises(LinkError, match="time"):
            list(device.generate(PROMPT, GREEDY, 3))
        pl.read = real
        assert tokens_of(device.generate(PROMPT, GREEDY, 3)) == reference(PROMPT, 3)[0]


def test_broken_list_is_an_error(path):
    """The gateware refuses a header: one line, and the board goes on."""
    with open_device("virtual", "c", path) as device:
        pl   = device.transport.pl
        real = pl._start

        def refuse(run, memory, softmax, core, start, *others):
            """The list's first header loses its magic number."""
            word = int.from_bytes(pl.memory[start:start + 8].tobytes(), "little")
            head = (word >> 3 & (1 << 29) - 1)*8
            pl.memory[head + 7] ^= 0x10
            errors = real(run, memory, softmax, core, start, *others)
            pl.memory[head + 7] ^= 0x10
            return errors

        pl._start = refuse
        with pytest.raises(LinkError, match="refused"):
            list(device.generate(PROMPT, GREEDY, 3))
        pl._start = real
        assert device.stats()["pl_errors"] > 0
        assert tokens_of(device.generate(PROMPT, GREEDY, 3)) == reference(PROMPT, 3)[0]
