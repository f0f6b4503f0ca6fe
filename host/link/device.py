#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""A board with LiteTern's firmware, as Python sees it: who it is, which model it holds, and tokens.

    with open_device("virtual", image="stories.tern") as device:
        for event in device.generate([1, 42], Sampling(temperature=0.0), max_tokens=24):
            print(event.kind, event.token, event.pl_cycles)
"""

import contextlib
import time

from dataclasses import dataclass, field

import numpy as np

from litetern.host.link.messages import (ERRORS, GENERATE, GENERATE_LOGITS, HELLO, LAYOUTS, NAMES, PARTS, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, SESSION, TOKENS,
    TOKENS_PER_FRAME, UPLOAD_BEGIN, UPLOAD_CHUNK, UPLOAD_DATA, VALUES)
from litetern.host.link.protocol import Link, LinkError
from litetern.host.link.transport import open_transport
from litetern.model.common.printable import printable
from litetern.model.formats.engine import END
from litetern.model.formats.image import read_file, read_header

ENDS    = ("", *END.names[1:])  # Of an event; of one that does not end anything: empty.
ANSWER  = 30.0   # Seconds that a board may take for an answer that is not a token's, or for a sign that it is at work on it.
BACKS   = 100    # An upload goes back so often at most.

NOT_COMPLETE = 1 + [name for name, _ in ERRORS].index("upload")  # enum link_error, of UPLOAD_END.

# Values -------------------------------------------------------------------------------------------


@dataclass
class Sampling:
    """How tokens are chosen; temperature 0 is greedy, top_k 0 keeps all."""
    temperature        : float = 0.0
    top_k              : int   = 0
    top_p              : float = 1.0
    repetition_penalty : float = 1.0
    seed               : int   = 0
    ignore_eos         : bool  = False


@dataclass
class Event:
    """What a token did.

    kind          : "prompt" (a token of the prompt went through) or "token" (one was sampled); "end" where generation ended without one.
    end           : "" while it goes on; else "eos", "length", "context", "stopped".
    pl_cycles     : {part: PL cycles from doorbells to last results}; empty where C cores run, which have no cycles.
    pl_bytes      : bytes that the PL read.
    seconds       : time of this token on the board.
    logits        : of kind "token", float32 [vocab] where asked for; else None.
    """
    kind          : str
    token         : int   = None
    end           : str   = ""
    position      : int   = 0
    prompt_done   : int   = 0
    prompt_tokens : int   = 0
    generated     : int   = 0
    pl_cycles     : dict  = field(default_factory=dict)
    pl_bytes      : int   = 0
    seconds       : float = 0.0
    logits        : np.ndarray = None


def _members(type, payload):
    """({member: value}, what follows) of a message."""
    layout = LAYOUTS[type]
    if len(payload) < layout.size:
        raise LinkError(f"the board sent a {NAMES[type]} of {len(payload)} bytes, {layout.size} were expected")
    record = np.frombuffer(payload, layout.dtype, 1)[0]
    values = {name: record[name].item() for name in layout.dtype.names}
    text   = lambda value: printable(value.decode("utf-8", "replace"), "") if isinstance(value, bytes) else value
    return {name: text(value) for name, value in values.items()}, payload[layout.size:]


def _message(layout, *values):
    """Bytes of a message; ValueError where a member cannot hold its value."""
    record = np.zeros((), layout.dtype)
    for name, value in zip(layout.dtype.names, values, strict=True):
        try:
            record[name] = value
        except (OverflowError, ValueError, TypeError):
            raise ValueError(f"{name} = {value!r}: does not fit a {layout.dtype[name]}") from None
    return record.tobytes()

# Device -------------------------------------------------------------------------------------------


class Device:
    """Opens a connection; `identity` is a dict of IDENTITY's members.

    transport, options : see `litetern.host.link.protocol.Link`.
    checking           : called with (bytes done, bytes) while the board checks an image, which it does before it answers.
    """
    def __init__(self, transport, checking=lambda done, total: None, **options):
        self.transport = transport
        self.checking  = checking
        self.link      = Link(transport, **options)
        self._request  = 0
        self._stopping = {}  # STOPs of a session that are not done.
        try:
            self.link.open(_message(HELLO, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION))
            self.identity = self._expect("IDENTITY", "HELLO")
        except BaseException:
            self.close()
            raise

    # Plumbing -------------------------------------------------------------------------------------

    def _send(self, name, payload=b""):
        self.link.send(VALUES[name], payload)

    def _next(self, deadline, *requests):
        """(name, members, rest) of the next message; None after the deadline (of time.monotonic). An ERROR that refuses one of `requests`,
        names of messages, becomes LinkError; GENERATE means the one of the last `generate`."""
        message = self.link.receive(max(deadline - time.monotonic(), 0))
        if message is None:
            return None
        type, payload = message
        if type not in LAYOUTS:
            return f"type {type}", {}, payload
        name = NAMES[type]
        members, rest = _members(type, payload) if LAYOUTS[type].members else ({}, payload)
        if name in ("DONE", "ERROR") and members["type"] == VALUES["STOP"] and self._stopping.get(members["session"]):
            self._stopping[members["session"]] -= 1
        if name == "ERROR" and NAMES.get(members["type"]) in requests and (members["type"] != VALUES["GENERATE"] or
                members["request"] == self._request):
            error = LinkError(printable(rest.decode("utf-8", "replace")))
            error.members = members
            raise error
        return name, members, rest

    def _expect(self, name, *requests, **members):
        """Members of the next message `name` with these values; LinkError where one of `requests` is refused. Others are left behind.
        A board that checks an image has its time again after each sign of it."""
        deadline = time.monotonic() + ANSWER
        while True:
            message = self._next(deadline, *requests)
            if message is None:
                raise LinkError(f"the board did not answer within {ANSWER:.0f} s")
            if message[0] == "CHECKING":
                deadline = time.monotonic() + ANSWER
                self.checking(message[1]["done"], message[1]["bytes"])
            elif message[0] == name and all(message[1][member] == value for member, value in members.items()):
                return message[1]

    # Model ----------------------------------------------------------------------------------------

    @property
    def context(self):
        return self.identity["context"]

    @property
    def image_crc(self):
        """Names the loaded image; None without one."""
        return self.identity["image_crc"] if self.identity["image_bytes"] else None

    def upload(self, path, progress=lambda done, total: None):
        """Loads an image; goes on where an upload of the same image was cut off. Does nothing where the board holds it already."""
        data      = read_file(path)
        header, _ = read_header(data, path)
        crc       = int(header["header_crc"])
        if len(data) > self.identity["image_limit"]:
            raise ValueError(f"{path}: {len(data)} bytes, the board holds {self.identity['image_limit']}")
        if self.image_crc == crc and self.identity["image_bytes"] == len(data):
            return
        offset = self._begin_upload(data, crc)
        # Until the end the board holds neither the old image nor the new one.
        self.identity = {**self.identity, **dict.fromkeys(("image_bytes", "image_crc", "context", "vocab", "sessions"), 0), "name": ""}
        for _ in range(BACKS):
            if self._send_image(data, offset, progress):
                return
            offset = self._begin_upload(data, crc)
        raise LinkError(f"the board has lost bytes of the image {BACKS} times")

    def _begin_upload(self, data, crc):
        """The offset from which on the board wants the image."""
        self._send("UPLOAD_BEGIN", _message(UPLOAD_BEGIN, len(data), crc))
        return self._upload_offset(data, self._expect("UPLOAD_STATUS", "UPLOAD_BEGIN"))

    def _upload_offset(self, data, status):
        if status["offset"] > len(data):
            raise LinkError(f"the board asks for byte {status['offset']} of an image of {len(data)} bytes")
        return status["offset"]

    def _send_image(self, data, offset, progress):
        """Sends an image from `offset` on to its end, and again what the board asks for; False where it misses some all the same."""
        backs = 0
        while offset < len(data) and backs < BACKS:
            chunk = data[offset:offset + UPLOAD_CHUNK]
            self._send("UPLOAD_DATA", _message(UPLOAD_DATA, offset) + chunk)
            offset += len(chunk)
            progress(offset, len(data))
            while self.link.inbox:
                name, members, _ = self._next(time.monotonic(), "UPLOAD_DATA")
                if name == "UPLOAD_STATUS":
                    offset, backs = self._upload_offset(data, members), backs + 1
        try:
            self._send("UPLOAD_END")
            self.identity = self._expect("IDENTITY", "UPLOAD_DATA", "UPLOAD_END")
        except LinkError as error:
            members = getattr(error, "members", {})
            if (members.get("type"), members.get("code")) != (VALUES["UPLOAD_END"], NOT_COMPLETE):
                raise
            return False
        return True

    # Sessions -------------------------------------------------------------------------------------

    def reset(self, session=0):
        """Forgets a session's text; what it generates ends, and has ended when this returns."""
        self._send("RESET", _message(SESSION, session))
        self._expect("DONE", "RESET", type=VALUES["RESET"], session=session)

    def stop(self, session=0):
        """Ends the generation at the next token; its last event says "stopped"."""
        self._stopping[session] = self._stopping.get(session, 0) + 1
        self._send("STOP", _message(SESSION, session))

    def generate(self, tokens, sampling=Sampling(), max_tokens=1, session=0, logits=False):
        """Reads `tokens` behind the session's text and generates; yields an `Event` per token. One that is left early is stopped.

        sampling : anything with the members of `Sampling`.
        logits   : events of kind "token" carry them (slow over a serial port).
        """
        if not all(0 <= token < 2**32 for token in tokens):
            raise ValueError("tokens: each must be a whole number of 32 bits")
        tokens = np.asarray(tokens, "<u4")
        if self.context and len(tokens) > self.context:
            raise ValueError(f"prompt of {len(tokens)} tokens: the context holds {self.context}")
        self._settle(session)
        self._request += 1
        for offset in range(0, len(tokens), TOKENS_PER_FRAME):
            self._send("TOKENS", _message(TOKENS, session, offset) + tokens[offset:offset + TOKENS_PER_FRAME].tobytes())
        seed = int(sampling.seed) & (2**64 - 1)
        self._send("GENERATE", _message(GENERATE, session, self._request, len(tokens), max_tokens, sampling.temperature, sampling.top_k,
            sampling.top_p, sampling.repetition_penalty, seed & 0xFFFFFFFF, seed >> 32, int(getattr(sampling, "ignore_eos", False)),
            GENERATE_LOGITS if logits else 0))
        try:
            yield from self._events(logits)
        except GeneratorExit:
            with contextlib.suppress(LinkError, ConnectionError):  # Whoever comes next is told.
                self.stop(session)
            raise

    def _settle(self, session):
        """Waits until the generation that was stopped has ended."""
        deadline = time.monotonic() + ANSWER
        while self._stopping.get(session):
            if self._next(deadline, "STOP") is None:
                raise LinkError(f"the board did not stop within {ANSWER:.0f} s")

    def _event(self, request):
        """(name, members, rest) of the next message about a request."""
        while True:
            message = self._next(time.monotonic() + self.link.silence, "GENERATE")
            if message is None:
                self._send("STATS")  # It wants an acknowledgement: a board that does not give it has stopped.
            elif message[0] in ("TOKEN", "PROMPT", "END", "LOGITS") and message[1]["request"] == request:
                return message

    def _events(self, logits):
        request = self._request
        while True:
            name, members, _ = self._event(request)
            if name == "LOGITS":
                raise LinkError("the board sent logits that nobody asked for")
            end = ENDS[members["end"]] if members["end"] < len(ENDS) else f"end {members['end']}"
            if name == "END":
                yield Event("end", end=end, position=members["position"], generated=members["generated"])
                return
            cycles = {part: members[f"cycles_{part}"] for part in PARTS}
            event  = Event(name.lower(), members["token"], end, members["position"], members["prompt_done"], members["prompt_tokens"],
                members["generated"], cycles if any(cycles.values()) else {}, members["pl_bytes"], members["microseconds"]*1e-6)
            if logits and name == "TOKEN":
                event.logits = self._logits(request)
            yield event
            if end:
                return

    def _logits(self, request):
        """float32 [vocab]: the pieces of LOGITS, in order."""
        vocab, pieces, count = self.identity["vocab"], [], 0
        while count < vocab:
            name, members, rest = self._event(request)
            if name != "LOGITS" or members["offset"] != count or not rest or len(rest) % 4 or count + len(rest)//4 > vocab:
                raise LinkError(f"the board sent a {name} of {len(rest)} bytes where logits from {count} on of {vocab} were due")
            pieces.append(np.frombuffer(rest, "<f4"))
            count += len(pieces[-1])
        return np.concatenate(pieces) if pieces else np.zeros(0, "<f4")

    def stats(self):
        """Counters of the board: dict of STATS's members."""
        self._send("STATS")
        return self._expect("STATS_REPLY", "STATS")

    # End ------------------------------------------------------------------------------------------

    def close(self):
        self.transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open_device(name, pl="rtl", image=None, progress=lambda done, total: None, checking=lambda done, total: None, **options):
    """The `Device` behind a board's name, holding `image` (path) where one is given: by the virtual board's boot script, or by upload."""
    virtual   = name == "virtual"
    transport = open_transport(name, pl, image if virtual else None, **options)
    device    = Device(transport, checking)
    try:
        if virtual and device.identity["problem"]:
            raise ValueError(f"{image}: the board refuses it: {device.identity['problem']}")
        if image is not None:
            device.upload(image, progress)
    except BaseException:
        device.close()
        raise
    return device
