#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The firmware's service with the C cores behind it, in this process: a transport for `litetern.host.link.device.Device` that answers at once."""

import ctypes

import numpy as np

from litetern.model.formats.engine import PL

from litetern.host.link.messages import FLAG_GAP, FLAG_SEQUENCED, IDENTITY, VALUES
from litetern.host.link.protocol import Parser, pack_frame

FRAME_ROOM  = 2048
IMAGE_LIMIT = 1 << 20   # Bytes.
POINTER     = ctypes.c_void_p


class Config(ctypes.Structure):
    """struct service_config."""
    _fields_ = [("memory", POINTER), ("memory_bytes", ctypes.c_size_t), ("image_limit", ctypes.c_size_t), ("image", POINTER),
        ("image_bytes", ctypes.c_size_t), ("pl", PL.ctypes), ("identity", ctypes.c_uint8*IDENTITY.size), ("line_errors", POINTER), ("pl_errors", POINTER)]


class ServiceBoard:
    """build: a host build of `firmware_builds`. image: bytes that are there at the start. share: beats of a turn of the C cores.

    image_limit, arena_bytes : from the image's place on and before it: an upload goes to where the latter begin.
    polls : turns of the board's loop between two looks at the line; `now` is its clock in seconds, a millisecond for each turn.
    """
    def __init__(self, build, image=b"", share=2**32 - 1, image_limit=IMAGE_LIMIT, arena_bytes=0):
        build.free()
        self.build, self.polls, self.now, self.incoming = build, 1, 0.0, bytearray()
        memory = build.base
        config = self.config = Config(memory_bytes=arena_bytes + image_limit, image_limit=image_limit, image_bytes=len(image))
        config.memory = self.memory = build.room(arena_bytes + image_limit)
        config.image  = self.image  = self.memory + arena_bytes
        build.view(self.image, np.uint8, len(image))[:] = np.frombuffer(image, np.uint8)
        self.cores   = build.room(build.call("cores_pl_bytes"))
        self.service = build.room(build.call("service_bytes"))
        self.frame   = build.room(FRAME_ROOM)
        self.data    = build.room(1 << 16)
        build.call("cores_pl_init", self.cores, ctypes.addressof(config.pl), memory, np.uint64(len(build.memory)), share, 0)
        build.call("service_init", self.service, build.room(build.call("engine_bytes")), ctypes.addressof(config))

    def turn(self, data=b""):
        """One service_poll() with bytes of the line; returns the frame that goes out, or b""."""
        build, self.now = self.build, self.now + 0.001
        clock = int(self.now*1e6) & 0xFFFFFFFF
        build.view(self.data, np.uint8, len(data))[:] = np.frombuffer(data, np.uint8)
        build.call("service_poll", self.service, clock, self.data, len(data))
        return build.get(self.frame, np.uint8, build.call("service_output", self.service, clock, self.frame)).tobytes()

    def write(self, data):
        self.incoming += data

    def read(self, timeout):
        data, self.incoming = bytes(self.incoming), bytearray()
        said = self.turn(data)
        for _ in range(self.polls - 1):
            said += self.turn()
        return said

    def close(self):
        pass


class RawHost:
    """A host that says anything in any order, and again what the board asks for. `heard`: (type, payload) of all messages, once and in order."""
    def __init__(self, board, connection=1):
        self.board, self.connection, self.number, self.received, self.acknowledged = board, connection, 0, 0, 0
        self.heard, self.waiting, self.gap, self.open = [], {}, False, False
        self.parser = Parser(self._take)

    def _take(self, connection, number, acknowledged, type, flags, payload):
        if connection != self.connection:
            return
        self.open    = True
        self.acknowledged = acknowledged
        self.waiting = {sent: message for sent, message in self.waiting.items() if sent > acknowledged}
        self.gap    |= bool(flags & FLAG_GAP)
        if flags & FLAG_SEQUENCED and number == self.received + 1:
            self.received += 1
            self.heard.append((type, payload))

    def _frame(self, number, type, payload):
        return pack_frame(self.connection, number, self.received, type, FLAG_SEQUENCED, payload)

    def say(self, type, payload=b""):
        """Sends a message and lets the board take a turn."""
        self.number += 1
        frame = self._frame(self.number, type, payload)
        self.hear(frame)
        if self.number > self.acknowledged:
            self.waiting[self.number] = type, payload

    def hear(self, data=b"", turns=1):
        """Turns of the board, whose frames are acknowledged."""
        for _ in range(turns):
            again = b"".join(self._frame(number, *message) for number, message in self.waiting.items()) if self.gap else b""
            self.gap = False
            self.parser.feed(self.board.turn(pack_frame(self.connection, 0, self.received, VALUES["ACK"], 0)*self.open + again + data), self.board.now)
            data = b""
