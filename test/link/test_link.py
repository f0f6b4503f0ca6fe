#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The link's two ends against each other and against bytes that nobody should have sent.

    host.link.Link ──► Line (loses, repeats, swaps, damages, adds) ──► firmware/link/link.c   in one process, in simulated time
                   ◄── Line ◄──
"""

import ctypes
import random
import re
import zlib

import pytest

from litetern.firmware import build
from litetern.host.link import messages
from litetern.host.link.messages import FLAG_GAP, FLAG_SEQUENCED, PAYLOAD_MAX, VALUES, WINDOW
from litetern.host.link.protocol import Link, LinkError, Parser, pack_frame

HELLO, ECHO = VALUES["HELLO"], VALUES["TOKENS"]
BOARD       = 0x80  # Types of boards.
FRAME_MAX   = 16 + PAYLOAD_MAX + 4
HANDLER     = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint32)

# Ends ---------------------------------------------------------------------------------------------


class Board:
    """firmware/link/link.c; it answers each message with the same bytes, its type with the board's bit."""
    def __init__(self):
        self.lib = lib = build.load_host_library()
        lib.link_bytes.restype = lib.link_output.restype = ctypes.c_size_t
        lib.link_output.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
        lib.link_input.argtypes  = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
        lib.link_send.argtypes   = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32]
        lib.link_free.argtypes   = [ctypes.c_void_p]
        lib.link_init.argtypes   = [ctypes.c_void_p, HANDLER, ctypes.c_void_p]
        self.received = []
        self.state    = ctypes.create_string_buffer(lib.link_bytes())
        self._frame   = ctypes.create_string_buffer(FRAME_MAX)
        self._handler = HANDLER(self._handle)
        lib.link_init(self.state, self._handler, None)

    def _handle(self, _, type, payload, length):
        data = bytes(payload[:length])
        self.received.append((type, data))
        assert self.lib.link_send(self.state, BOARD | type, data[:3], len(data[:3]), data[3:], len(data[3:]))

    def put(self, now, data):
        self.lib.link_input(self.state, int(now*1e6) & 0xFFFFFFFF, data, len(data))

    def frames(self, now):
        """Frames that are due."""
        while True:
            length = self.lib.link_output(self.state, int(now*1e6) & 0xFFFFFFFF, self._frame)
            if not length:
                return
            yield self._frame.raw[:length]


class Line:
    """One direction. Each fault strikes a frame with its probability."""
    def __init__(self, seed, lose=0.0, repeat=0.0, swap=0.0, damage=0.0, cut=0.0, noise=0.0):
        self.random = random.Random(seed)
        self.rates  = dict(lose=lose, repeat=repeat, swap=swap, damage=damage, cut=cut, noise=noise)
        self.queue  = []

    def put(self, frame):
        strikes = {name for name, rate in self.rates.items() if self.random.random() < rate}
        frame   = bytearray(frame)
        if "damage" in strikes:
            for _ in range(self.random.randint(1, 3)):
                frame[self.random.randrange(len(frame))] ^= 1 << self.random.randrange(8)
        if "cut" in strikes:
            at = self.random.randrange(len(frame))
            del frame[at:at + self.random.randint(1, 40)]
        if "noise" in strikes:
            frame = bytearray(self.random.randbytes(self.random.randint(1, 60))) + frame
        if "lose" not in strikes:
            self.queue.append(bytes(frame))
        if "repeat" in strikes:
            self.queue.append(bytes(frame))
        if "swap" in strikes and len(self.queue) > 1:
            self.queue.insert(self.random.randrange(len(self.queue)), self.queue.pop())

    def take(self):
        """All bytes that have arrived, cut anywhere."""
        data, self.queue = b"".join(self.queue), []
        return data


class World:
    """Transport of a Link whose other end is a Board; each look at it lets a millisecond pass."""
    def __init__(self, seed=1, foreign=False, silence=200, **rates):
        self.now, self.board, self.foreign = 100.0, Board(), foreign
        self.to_board, self.to_host = Line(seed, **rates), Line(seed + 1000, **rates)
        self.link = Link(self, clock=lambda: self.now, silence=silence)

    def write(self, data):
        self.to_board.put(data)

    def read(self, timeout):
        self.now += 0.001
        self.board.put(self.now, self.to_board.take())
        for frame in self.board.frames(self.now):
            self.to_host.put(frame)
        return self.to_host.take()

# Tests --------------------------------------------------------------------------------------------


def exchange(world, count, seed):
    """Opens a connection and sends `count` messages of random length; returns (sent, answers without the board's bit)."""
    draw = random.Random(seed)
    sent = [(HELLO, b"hello")] + [(ECHO, draw.randbytes(draw.choice([0, 1, 4, 30, 252, PAYLOAD_MAX]))) for _ in range(count)]
    world.link.open(sent[0][1])
    for type, payload in sent[1:]:
        world.link.send(type, payload)
    answers = []
    while len(answers) < len(sent):
        message = world.link.receive(500)
        assert message is not None, f"{len(answers)} of {len(sent)} answers came"
        answers.append((message[0] ^ BOARD, message[1]))
    return sent, answers


FAULTS = {
    "none"    : {},
    "lose"    : dict(lose=0.2),
    "repeat"  : dict(repeat=0.3),
    "swap"    : dict(swap=0.3),
    "damage"  : dict(damage=0.2),
    "cut"     : dict(cut=0.2),
    "noise"   : dict(noise=0.3),
    "all"     : dict(lose=0.08, repeat=0.1, swap=0.1, damage=0.08, cut=0.08, noise=0.1),
}


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("seed", range(3))
def test_messages_arrive_once_and_in_order(faults, seed):
    world = World(seed, **FAULTS[faults])
    sent, answers = exchange(world, 150, seed)
    assert world.board.received == sent
    assert answers == sent
    if faults == "none":
        assert world.link.counters["again"] == world.link.counters["dropped"] == 0


def test_numbers_wrap():
    world = World()
    world.link.open(b"")
    for i in range(2**16 + 2*WINDOW):
        world.link.send(ECHO, i.to_bytes(4, "little"))
        while world.link.inbox:
            world.link.inbox.popleft()
    while world.link.in_flight:
        world.link.poll()
    assert [payload for _, payload in world.board.received[1:]] == [i.to_bytes(4, "little") for i in range(2**16 + 2*WINDOW)]


def test_a_new_connection_forgets_the_old_one():
    world = World(3)
    exchange(world, 20, 3)
    old = pack_frame(world.link.connection, 22, 0, ECHO, FLAG_SEQUENCED, b"late")
    again = pack_frame(world.link.connection, 1, 0, HELLO, FLAG_SEQUENCED, b"hello")
    world.board.received.clear()
    world.link.open(b"second")
    assert world.link.receive(1) == (BOARD | HELLO, b"second")
    world.to_board.put(old)
    world.to_board.put(again)  # A HELLO that was on its way for long opens nothing.
    world.link.send(ECHO, b"now")
    assert world.link.receive(1) == (BOARD | ECHO, b"now")
    assert world.board.received == [(HELLO, b"second"), (ECHO, b"now")]


def test_a_full_window_waits():
    world = World()
    world.link.open(b"")
    world.link.receive(1)
    frames = [pack_frame(world.link.connection, 2 + i, 1, ECHO, FLAG_SEQUENCED, bytes([i])) for i in range(3*WINDOW)]
    for frame in frames:  # The host acknowledges nothing: the board must not take more than it can answer.
        world.board.put(world.now, frame)
    assert len(world.board.received) == 1 + WINDOW


def parsed(frames):
    """[(number, acknowledged, type, flags, payload)] of a board's frames."""
    found  = []
    parser = Parser(lambda *frame: found.append(frame[1:]))
    for frame in frames:
        parser.feed(frame, 0)
    return found


def test_what_had_no_room_is_asked_for_when_there_is():
    """Not left until the host's patience ends."""
    world = World()
    world.link.open(b"")
    world.link.receive(1)
    for i in range(WINDOW + 1):
        world.board.put(world.now, pack_frame(world.link.connection, 2 + i, 1, ECHO, FLAG_SEQUENCED, bytes([i])))
    assert len(parsed(world.board.frames(world.now))) == WINDOW
    world.board.put(world.now, pack_frame(world.link.connection, 0, 4, VALUES["ACK"], 0))
    assert [frame[:4] for frame in parsed(world.board.frames(world.now))] == [(0, 1 + WINDOW, VALUES["ACK"], FLAG_GAP)]


def test_only_a_numbered_hello_opens():
    """Any other reaches no handler, which would forget what the host before has left."""
    board = Board()
    board.put(0, pack_frame(7, 1, 0, HELLO, 0, b"x") + pack_frame(7, 2, 0, HELLO, FLAG_SEQUENCED, b"x") + pack_frame(7, 1, 0, ECHO, FLAG_SEQUENCED, b"x"))
    assert board.received == [] and list(board.frames(0)) == []
    board.put(0, pack_frame(7, 1, 0, HELLO, FLAG_SEQUENCED, b"x"))
    board.put(0, pack_frame(8, 1, 0, HELLO, 0, b"x") + pack_frame(8, 1, 0, ECHO, FLAG_SEQUENCED, b"x") + pack_frame(7, 2, 1, ECHO, FLAG_SEQUENCED, b"y"))
    assert board.received == [(HELLO, b"x"), (ECHO, b"y")]


@pytest.mark.parametrize("shown", [0, 2])
@pytest.mark.parametrize("ahead", [1, 2, WINDOW, 0x8000, 0xFF00])
def test_acknowledgements_of_what_the_board_never_sent(ahead, shown):
    """They are no acknowledgements: all that waits is sent, and sent again."""
    board = Board()
    board.put(0, pack_frame(7, 1, 0, HELLO, FLAG_SEQUENCED, b"x"))
    for i in range(3):
        board.put(0, pack_frame(7, 2 + i, 0, ECHO, FLAG_SEQUENCED, b"x"))
    frames = board.frames(0)
    for _ in range(shown):
        next(frames)
    board.put(0, pack_frame(7, 0, shown + ahead & 0xFFFF, VALUES["ACK"], 0))
    assert [frame[0] for frame in parsed(frames)] == list(range(1 + shown, 5))
    assert [frame[0] for frame in parsed(board.frames(0.6))] == [1, 2, 3, 4]
    board.put(0.6, pack_frame(7, 0, 4, VALUES["ACK"], 0))
    assert list(board.frames(9)) == []


@pytest.mark.parametrize("ahead", [1, WINDOW, 0x8000, 0xFF00])
def test_acknowledgements_of_what_the_host_never_sent(ahead):
    world = World()
    world.link.open(b"")
    world.link.receive(1)
    world.to_board.rates["lose"] = 1.0
    world.link.send(ECHO, b"?")
    world.to_host.put(pack_frame(world.link.connection, 0, 2 + ahead & 0xFFFF, VALUES["ACK"], 0))
    world.link.poll()
    assert world.link.in_flight == 1
    world.to_board.rates["lose"] = 0.0
    assert world.link.receive(1) == (BOARD | ECHO, b"?")


def test_frames_of_an_old_connection_reach_no_host():
    world = World()
    world.link.open(b"")
    old = world.link.connection
    world.link.receive(1)
    world.link.open(b"")
    world.link.receive(1)
    for number, ack, type, flags in ((2, 1, BOARD | ECHO, FLAG_SEQUENCED), (2, 9, BOARD | ECHO, FLAG_SEQUENCED | FLAG_GAP), (0, 1, VALUES["ACK"], FLAG_GAP)):
        world.to_host.put(pack_frame(old, number, ack, type, flags, b"late"))
    assert world.link.receive(0.1) is None and world.link.counters["dropped"] == 3 and world.link.counters["again"] == 0
    world.link.send(ECHO, b"now")
    assert world.link.receive(1) == (BOARD | ECHO, b"now")


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_a_cut_frame_ends_by_time(pieces):
    """What follows it is not taken for its rest: the first frame after the pause is heard, on both ends, however many heads wait."""
    heads = pack_frame(7, 2, 0, ECHO, FLAG_SEQUENCED, bytes(PAYLOAD_MAX))[:16]*pieces
    board = Board()
    board.put(0, pack_frame(7, 1, 0, HELLO, FLAG_SEQUENCED, b""))
    board.put(1, heads)
    board.put(1.06, pack_frame(7, 2, 0, ECHO, FLAG_SEQUENCED, b"heard"))
    assert board.received[1:] == [(ECHO, b"heard")]
    heard  = []
    parser = Parser(lambda *frame: heard.append(frame[-1]))
    parser.feed(heads, 1)
    parser.feed(pack_frame(7, 2, 0, ECHO, FLAG_SEQUENCED, b"heard"), 1.06)
    assert heard == [b"heard"] and parser.damaged == pieces


def test_silence_is_an_error():
    world = World(lose=0.0)
    world.link.open(b"")
    world.link.receive(1)
    world.to_board.rates["lose"] = 1.0
    world.link.silence = 5
    world.link.send(ECHO, b"?")
    with pytest.raises(LinkError, match="stopped answering"):
        world.link.receive(60)


class Stranger:
    """A device that is no board: `talk` (bytes that have come) -> bytes; it says `first` by itself."""
    def __init__(self, talk, first=b""):
        self.talk, self.said = talk, first

    def put(self, now, data):
        self.said += self.talk(data) if data else b""

    def frames(self, now):
        said, self.said = self.said, b""
        return [said]*bool(said)


STRANGERS = {  # What a device answers, and what is said of it.
    "login"  : (lambda data: b"\r\npynq login: ",                                      'the device says "pynq login:"'),
    "loader" : (lambda data: data[:4] + b"\r\nHit any key\r\nZynq> \r\n\xff\x9d\n",   'the device says "Zynq>"'),
    "noise"  : (lambda data: random.Random(zlib.crc32(data)).randbytes(300),           "what comes is no text"),
    "echo"   : (lambda data: data,                                                     "what is sent comes back, an echo"),
    "escape" : (lambda data: b"\n\x1b[2J a line of text",                              r'the device says "\x1b[2J a line of text"'),
    "long"   : (lambda data: b"x"*5000,                                                f'the device says "{"x"*60}"'),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_another_device(name):
    talk, said = STRANGERS[name]
    world = World(foreign=True)
    world.board = Stranger(talk)
    world.link.open(b"hello")
    with pytest.raises(LinkError, match=f"^no LiteTern firmware answered within 5 s: {re.escape(said)}"):
        world.link.receive(60)
    assert world.now < 105.1


RESETS = {  # What comes, the longest time until it is said, and what is said.
    "reset"  : (b"\nLiteTern firmware 0.1.0\n",                                  0.05, "the board was reset and has started anew"),
    "fault"  : (b"\nfault: data abort at pc 0x12\n",                             0.05, "the board's firmware has stopped: data abort at pc 0x12"),
    "host"   : (pack_frame(7, 1, 1, VALUES["IDENTITY"], FLAG_SEQUENCED, b"?"),   0.05, "another host has opened a connection to the board"),
    "boots"  : (b"U-Boot 2017.01\r\nDRAM:  512",                                 2,    'the board has stopped answering: the device says "DRAM'),
}


@pytest.mark.parametrize("name", [*RESETS, *STRANGERS])
@pytest.mark.parametrize("busy", (False, True), ids=("waiting", "sending"))
def test_another_device_takes_the_place_of_the_board(name, busy):
    """Within two seconds, whether a message is under way or an answer is only waited for."""
    world = World(foreign=True)
    exchange(world, 5, 1)
    first, seconds, said = RESETS.get(name) or (b"", 2, f"the board has stopped answering: {STRANGERS[name][1]}")
    world.board = Stranger(STRANGERS[name][0] if name in STRANGERS else lambda data: b"", first)
    if busy:
        world.link.send(ECHO, b"?")
    start = world.now
    with pytest.raises(LinkError, match=f"^{re.escape(said)}"):
        world.link.receive(60)
    assert world.now - start < seconds


@pytest.mark.parametrize("faults", FAULTS)
def test_a_bad_line_is_no_other_device(faults):
    """A board that takes its time, at the end of a line that loses, damages and adds."""
    world = World(5, foreign=True, **FAULTS[faults])
    exchange(world, 5, 1)
    world.to_host.queue.append(b"\x00noise")
    assert world.link.receive(60) is None
    world.link.send(ECHO, b"still here")
    assert world.link.receive(60) == (BOARD | ECHO, b"still here")
    assert len(world.board.received) == 7


def test_a_board_that_starts_late():
    """Switched on a moment ago: its banner comes, and then it checks the image on its card."""
    world, board = World(foreign=True), None
    world.board, board = Stranger(lambda data: b"", b"U-Boot 2017.01\r\nLiteTern firmware 0.1.0\n"), world.board
    world.link.open(b"hello")
    assert world.link.receive(30) is None
    world.board = board
    assert world.link.receive(30) == (BOARD | HELLO, b"hello")


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_do_no_harm(seed):
    """Random bytes, with pieces of frames among them, on both ends; then a good message comes through."""
    draw, world = random.Random(seed), World(seed)
    world.link.open(b"x")
    world.link.receive(1)
    for _ in range(200):
        piece = draw.randbytes(draw.randint(0, 300))
        frame = bytearray(pack_frame(world.link.connection, draw.randint(0, 9), draw.randint(0, 9), draw.randint(0, 255), draw.randint(0, 3),
            draw.randbytes(draw.randint(0, PAYLOAD_MAX))))
        frame[draw.randrange(len(frame))] ^= 1 << draw.randrange(8)
        data = piece + bytes(frame[draw.randrange(len(frame)):] if draw.random() < 0.5 else frame)
        world.now += draw.choice([0, 0.001, 0.2])
        world.board.put(world.now, data)
        world.link.parser.feed(data, world.now)
    assert len(world.board.received) == 1
    world.link.send(ECHO, b"still here")
    assert world.link.receive(60) == (BOARD | ECHO, b"still here")


def test_text_between_frames():
    frames, text = [], bytearray()
    parser = Parser(lambda *frame: frames.append(frame), text.extend)
    frame  = pack_frame(7, 1, 0, ECHO, FLAG_SEQUENCED, b"payload")
    for byte in b"boot report\n" + frame + b"fault: x\n" + frame:
        parser.feed(bytes([byte]), 0.0)
    assert bytes(text) == b"boot report\nfault: x\n"
    assert [f[5] for f in frames] == [b"payload"]*2 and parser.damaged == 0


def test_layouts_and_limits():
    with pytest.raises(ValueError, match="1025 bytes: must be at most 1024"):
        pack_frame(0, 0, 0, 0, 0, bytes(1025))
    assert messages.FRAME.size == 16
    assert messages.TOKENS.size + 4*messages.TOKENS_PER_FRAME <= PAYLOAD_MAX
    assert messages.LOGITS.size + 4*messages.LOGITS_PER_FRAME <= PAYLOAD_MAX
    assert messages.UPLOAD_DATA.size + messages.UPLOAD_CHUNK <= PAYLOAD_MAX
    assert messages.ERROR.size + 200 <= PAYLOAD_MAX
    values = [value for value, _, _ in messages.TYPES]
    assert len(set(values)) == len(values) and max(values) < 256
