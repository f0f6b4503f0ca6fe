#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The host's end of the link: reliable messages over a transport that may lose, repeat, reorder and damage (see `litetern.host.link.messages`).

`firmware/link/link.c` is the other end; both follow the same rules.
"""

import secrets
import struct
import time
import zlib

from collections import deque

from litetern.host.board_text import BoardText
from litetern.host.link.messages import CRC_BYTES, FLAG_GAP, FLAG_SEQUENCED, FRAME, FRAME_CHECKED, FRAME_SYNC, PAYLOAD_MAX, VALUES, WINDOW

_HEADER    = struct.Struct("<HHHHIBBH")
_SYNC      = struct.pack("<H", FRAME_SYNC)
_FIRST     = 1                # Number of a connection's first message.
_WAIT      = 0.5              # Seconds until the first repetition; doubles up to _WAIT_MAX.
_WAIT_MAX  = 4.0
_BACK      = 0.02             # Going back on request happens at most this often.
_STALL     = 0.05             # A frame whose bytes stop coming for so long has lost some.
_QUIET     = 0.3              # Where another device may come, one that is quiet for so long is asked for a sign of life,
_PING      = 0.1              # then so often;
_PINGS     = 12               # one that talks, but gave none to so many, is another one. A line that loses much is none.
_BOARDS    = 0x80             # Types from here on come from boards.
SILENCE    = 20.0             # Seconds without an answer after which a board is given up.
OPENING    = 5.0              # The same for HELLO, where another device may stand in the board's place,
LOADING    = 120.0            # and for a board that has just begun to start.

assert _HEADER.size == FRAME.size

# Frames -------------------------------------------------------------------------------------------


class LinkError(RuntimeError):
    """The board does not answer, or refuses: one line says what."""


def pack_frame(connection, number, acknowledged, type, flags, payload=b""):
    """Bytes of a frame."""
    if len(payload) > PAYLOAD_MAX:
        raise ValueError(f"payload of {len(payload)} bytes: must be at most {PAYLOAD_MAX}")
    header = _HEADER.pack(FRAME_SYNC, len(payload), number, acknowledged, connection, type, flags, 0)[:FRAME_CHECKED]
    frame  = header + struct.pack("<H", zlib.crc32(header) & 0xFFFF) + payload
    return frame + struct.pack("<I", zlib.crc32(frame))


class Parser:
    """Finds frames in a stream of bytes that holds text and damage, too.

    on_frame : called with (connection, number, acknowledged, type, flags, payload) of each whole, undamaged frame.
    on_text  : called with the bytes between frames.
    """
    def __init__(self, on_frame, on_text=lambda data: None):
        self.on_frame, self.on_text = on_frame, on_text
        self.buffer  = bytearray()
        self.damaged = 0
        self._last   = 0.0

    def feed(self, data, now):
        """Takes bytes (b"" lets only time pass)."""
        while self.buffer and now - self._last > _STALL:
            self.damaged += len(self.buffer) >= _HEADER.size
            self._drop()
            self._parse()
        if data:
            self._last = now
            self.buffer += data
            self._parse()

    def _drop(self):
        """The buffer starts with no frame: what follows its first byte may be one."""
        at = self.buffer.find(_SYNC, 1)
        if at < 0:
            at = len(self.buffer) - (self.buffer[-1:] == _SYNC[:1] and len(self.buffer) > 1)
        self.on_text(bytes(self.buffer[:at]))
        del self.buffer[:at]

    def _parse(self):
        buffer = self.buffer
        while len(buffer) >= 2:
            if buffer[:2] != _SYNC:
                self._drop()
                continue
            if len(buffer) < _HEADER.size:
                return
            _, length, number, acknowledged, connection, type, flags, check = _HEADER.unpack_from(buffer)
            if length > PAYLOAD_MAX or zlib.crc32(buffer[:FRAME_CHECKED]) & 0xFFFF != check:
                self.damaged += 1
                self._drop()
                continue
            end = _HEADER.size + length
            if len(buffer) < end + CRC_BYTES:
                return
            if zlib.crc32(buffer[:end]) != int.from_bytes(buffer[end:end + CRC_BYTES], "little"):
                self.damaged += 1
                self._drop()
                continue
            payload = bytes(buffer[_HEADER.size:end])
            del buffer[:end + CRC_BYTES]
            self.on_frame(connection, number, acknowledged, type, flags, payload)

# Link ---------------------------------------------------------------------------------------------


class Link:
    """A connection over a transport with ``write(bytes)`` and ``read(timeout) -> bytes``.

    A transport whose ``foreign`` is true may have any device at its end, and another one later (a serial port).

    clock   : function that returns seconds.
    silence : seconds without an answer after which `LinkError` is raised.
    opening : the same for HELLO; by default shorter where the transport is foreign.
    text    : `BoardText` of what comes between frames.
    """
    def __init__(self, transport, clock=time.monotonic, silence=SILENCE, opening=None):
        self.transport, self.clock = transport, clock
        self.foreign    = getattr(transport, "foreign", False)
        self.silence    = silence
        self.opening    = opening if opening is not None else min(OPENING, silence) if self.foreign else silence
        self.text       = BoardText()
        self.parser     = Parser(self._take, self.text.add)
        self.inbox      = deque()  # (type, payload) in order.
        self.counters   = {name: 0 for name in ("received", "dropped", "sent", "again")}
        self.connection = None
        self._forget()

    def _forget(self):
        self._received  = _FIRST - 1
        self._acked     = _FIRST - 1
        self._sent      = _FIRST - 1
        self._next      = _FIRST
        self._slots     = {}
        self._due       = self._gap = False
        self._wait      = _WAIT
        self._timer     = self._back = self.clock()
        self._heard     = self._asked = self._timer
        self._pings     = 0
        self._open      = False  # The board has answered.
        self.inbox.clear()
        self.text.clear()

    def open(self, payload, connection=None):
        """Begins a new connection with HELLO."""
        self.connection = connection if connection is not None else secrets.randbits(32)
        self._forget()
        self.send(VALUES["HELLO"], payload)

    # Send -----------------------------------------------------------------------------------------

    @property
    def in_flight(self):
        return (self._sent - self._acked) & 0xFFFF

    def send(self, type, payload=b""):
        """Queues a message; waits where the window is full."""
        while self.in_flight >= WINDOW:
            self.poll(0.05)
        if self.in_flight == 0:
            self._heard = self._asked = self.clock()
            self._pings = 0
        self._sent = (self._sent + 1) & 0xFFFF
        self._slots[self._sent] = type, payload
        self._output()

    def _frame(self, number, type, flags, payload):
        flags |= FLAG_GAP if self._gap else 0
        self._due = self._gap = False
        self.counters["sent"] += 1
        self.transport.write(pack_frame(self.connection, number, self._received, type, flags, payload))

    def _output(self):
        now = self.clock()
        end = (self._sent + 1) & 0xFFFF
        if self.in_flight and self._next == end and now - self._timer > self._wait:
            self.counters["again"] += self.in_flight
            self._next = (self._acked + 1) & 0xFFFF
            self._wait = min(2*self._wait, _WAIT_MAX)
        while self._next != end:
            self._timer = now
            self._frame(self._next, self._slots[self._next][0], FLAG_SEQUENCED, self._slots[self._next][1])
            self._next = (self._next + 1) & 0xFFFF
        if self._due:
            self._frame(0, VALUES["ACK"], 0, b"")

    # Receive --------------------------------------------------------------------------------------

    def _take(self, connection, number, acknowledged, type, flags, payload):
        self.counters["received"] += 1
        if connection != self.connection:
            self.counters["dropped"] += 1
            if self._open and type == VALUES["IDENTITY"]:
                raise LinkError("another host has opened a connection to the board, which has left this one")
            return
        if flags & FLAG_SEQUENCED and type < _BOARDS:
            self.text.fresh = self.text.echo = True
            return
        now = self._heard = self._asked = self.clock()
        if not self._open:
            self.text.clear()
        self._open, self._pings, self.text.fresh = True, 0, False
        news = (acknowledged - self._acked) & 0xFFFF
        if news > self.in_flight:
            return
        if news:
            for _ in range(news):
                self._acked = (self._acked + 1) & 0xFFFF
                del self._slots[self._acked]
            if (self._next - self._acked - 1) & 0xFFFF > self.in_flight:
                self._next = (self._acked + 1) & 0xFFFF
            self._timer, self._wait = now, _WAIT
        if flags & FLAG_GAP and self.in_flight and now - self._back > _BACK:
            self.counters["again"] += (self._next - self._acked - 1) & 0xFFFF
            self._next, self._back = (self._acked + 1) & 0xFFFF, now
        if not flags & FLAG_SEQUENCED:
            return
        self._due = True
        early = (number - self._received - 1) & 0xFFFF
        if early:
            self._gap |= early < 0x8000
            self.counters["dropped"] += 1
            return
        self._received = number
        self.inbox.append((type, payload))

    def poll(self, timeout=0.0):
        """Sends what is due and takes what has come. Raises LinkError where the board owes an answer for too long."""
        self._output()
        self.parser.feed(self.transport.read(timeout), self.clock())
        self._output()
        self._watch(self.clock())

    def _watch(self, now):
        """Raises LinkError where nobody answers any more, or somebody else."""
        quiet = now - self._heard
        if self.text.fault:
            raise LinkError(f"the board's firmware has stopped: {self.text.fault}")
        if not self._open:
            limit = max(self.opening, LOADING) if self.foreign and self.text.started else self.opening
            if self.in_flight and quiet > limit:
                raise LinkError(f"no LiteTern firmware answered within {limit:.0f} s: {self.text.said()}")
            return
        if self.text.started:
            raise LinkError("the board was reset and has started anew")
        if self.foreign and now - self._asked > (_QUIET if self._asked == self._heard else _PING):
            if self._pings >= _PINGS:
                raise LinkError(f"the board has stopped answering: {self.text.said()}")
            self._pings += self.text.fresh
            self._asked  = now
            self._ping()
        if self.in_flight and quiet > self.silence:
            raise LinkError(f"the board has stopped answering (nothing for {self.silence:.0f} s)")

    def _ping(self):
        """Repeats the number that the board has acknowledged last: it drops the frame and acknowledges again."""
        self._frame(self._acked, VALUES["ACK"], FLAG_SEQUENCED, b"")

    def receive(self, timeout):
        """Next message (type, payload), or None after `timeout` seconds."""
        end = self.clock() + timeout
        while not self.inbox:
            left = end - self.clock()
            if left < 0:
                return None
            self.poll(min(left, 0.1))
        return self.inbox.popleft()
