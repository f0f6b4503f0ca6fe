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

import time

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from host.link import LOADING, SILENCE, Link, LinkError
from host.messages import (GENERATE, GENERATE_LOGITS, HELLO, LAYOUTS, NAMES, PARTS, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, SESSION, TOKENS,
    TOKENS_PER_FRAME, UPLOAD_BEGIN, UPLOAD_CHUNK, UPLOAD_DATA, VALUES)
from host.transport import open_transport
from model.files import read_bytes
from model.image import IMAGE_LIMIT, read_header
from model.printable import printable

ENDS    = ("", "eos", "length", "context", "stopped")  # enum engine_end.
ANSWER  = 30.0   # Seconds that a board may take for an answer that is not a token's.
CHECKED = 1e6    # Bytes of an image that the slowest emulated CPU checks in a second.

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
    logits        : float32 [vocab] where asked for, else None.
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
    """transport, options: see `host.link.Link`. Opens a connection; `identity` is a dict of IDENTITY's members."""
    def __init__(self, transport, **options):
        self.transport = transport
        self.link      = Link(transport, **options)
        self._request  = 0
        try:
            self.link.open(_message(HELLO, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION))
            self.identity = self._expect("IDENTITY", max(self.link.opening, LOADING))
        except BaseException:
            self.close()
            raise

    # Plumbing -------------------------------------------------------------------------------------

    def _send(self, name, payload=b""):
        self.link.send(VALUES[name], payload)

    def _next(self, deadline):
        """(name, members, rest) of the next message; ERROR becomes LinkError."""
        message = self.link.receive(max(deadline - time.monotonic(), 0))
        if message is None:
            return None
        type, payload = message
        if type not in LAYOUTS:
            return NAMES.get(type, f"type {type}"), {}, payload
        members, rest = _members(type, payload) if LAYOUTS[type].members else ({}, payload)
        if NAMES[type] == "ERROR" and members["request"] in (0, self._request):
            error = LinkError(printable(rest.decode("utf-8", "replace")))
            error.members = members
            raise error
        return NAMES[type], members, rest

    def _expect(self, name, timeout=ANSWER):
        """Members of the next message of that name; others are left behind."""
        deadline = time.monotonic() + timeout
        while True:
            message = self._next(deadline)
            if message is None:
                raise LinkError(f"the board did not answer within {timeout:.0f} s")
            if message[0] == name:
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
        data      = read_bytes(path, IMAGE_LIMIT)
        header, _ = read_header(data, path)
        crc       = int(header["header_crc"])
        if len(data) > self.identity["image_limit"]:
            raise ValueError(f"{path}: {len(data)} bytes, the board holds {self.identity['image_limit']}")
        if self.image_crc == crc and self.identity["image_bytes"] == len(data):
            return
        self._send("UPLOAD_BEGIN", _message(UPLOAD_BEGIN, len(data), crc))
        offset = self._expect("UPLOAD_STATUS")["offset"]
        while offset < len(data):
            chunk = data[offset:offset + UPLOAD_CHUNK]
            self._send("UPLOAD_DATA", _message(UPLOAD_DATA, offset) + chunk)
            offset += len(chunk)
            progress(offset, len(data))
            while self.link.inbox:
                name, members, _ = self._next(time.monotonic() + ANSWER)
                if name == "UPLOAD_STATUS":
                    offset = members["offset"]
        silence, self.link.silence = self.link.silence, max(self.link.silence, LOADING)  # It checks every byte first.
        self._send("UPLOAD_END")
        self.identity = self._expect("IDENTITY", LOADING)
        self.link.silence = silence

    # Sessions -------------------------------------------------------------------------------------

    def reset(self, session=0):
        """Forgets a session's text."""
        self._send("RESET", _message(SESSION, session))
        self._expect("DONE")

    def stop(self, session=0):
        """Ends the generation at the next token; its last event says "stopped"."""
        self._send("STOP", _message(SESSION, session))

    def generate(self, tokens, sampling=Sampling(), max_tokens=1, session=0, logits=False):
        """Reads `tokens` behind the session's text and generates; yields an `Event` per token.

        sampling : anything with the members of `Sampling`.
        logits   : events carry them (slow over a serial port).
        """
        self._request += 1
        if not all(0 <= token < 2**32 for token in tokens):
            raise ValueError("tokens: each must be a whole number of 32 bits")
        tokens = np.asarray(tokens, "<u4")
        if self.context and len(tokens) > self.context:
            raise ValueError(f"prompt of {len(tokens)} tokens: the context holds {self.context}")
        for offset in range(0, len(tokens), TOKENS_PER_FRAME):
            self._send("TOKENS", _message(TOKENS, session, offset) + tokens[offset:offset + TOKENS_PER_FRAME].tobytes())
        seed = int(sampling.seed) & (2**64 - 1)
        self._send("GENERATE", _message(GENERATE, session, self._request, len(tokens), max_tokens, sampling.temperature, sampling.top_k,
            sampling.top_p, sampling.repetition_penalty, seed & 0xFFFFFFFF, seed >> 32, int(getattr(sampling, "ignore_eos", False)),
            GENERATE_LOGITS if logits else 0))
        yield from self._events(logits)

    def _events(self, logits):
        while True:
            message = self._next(time.monotonic() + self.link.silence)
            if message is None:
                self._send("STATS")  # It wants an acknowledgement: a board that does not give it has stopped.
                continue
            name, members, _ = message
            if members.get("request") != self._request or name not in ("TOKEN", "PROMPT", "END"):
                continue
            end = ENDS[members["end"]] if members["end"] < len(ENDS) else f"end {members['end']}"
            if name == "END":
                yield Event("end", end=end, position=members["position"], generated=members["generated"])
                return
            cycles = {part: members[f"cycles_{part}"] for part in PARTS}
            event  = Event(name.lower(), members["token"], end, members["position"], members["prompt_done"], members["prompt_tokens"],
                members["generated"], cycles if any(cycles.values()) else {}, members["pl_bytes"], members["microseconds"]*1e-6)
            if logits:
                event.logits = self._logits()
            yield event
            if end:
                return

    def _logits(self):
        logits = np.zeros(self.identity["vocab"], "<f4")
        while True:
            message = self._next(time.monotonic() + self.link.silence)
            if message is None:
                self._send("STATS")
                continue
            name, members, rest = message
            if name != "LOGITS" or members["request"] != self._request:
                continue
            piece = np.frombuffer(rest, "<f4")
            logits[members["offset"]:members["offset"] + len(piece)] = piece
            if members["offset"] + len(piece) >= len(logits):
                return logits

    def stats(self):
        """Counters of the board: dict of STATS's members."""
        self._send("STATS")
        return self._expect("STATS_REPLY")

    # End ------------------------------------------------------------------------------------------

    def close(self):
        self.transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open_device(name, pl="rtl", image=None, progress=lambda done, total: None, **options):
    """The `Device` behind a board's name, holding `image` (path) where one is given: by the virtual board's boot script, or by upload."""
    virtual   = name == "virtual"
    transport = open_transport(name, pl, image if virtual else None, **options)
    # An emulated CPU needs its time for checking the image before it answers.
    device    = Device(transport, silence=SILENCE + (Path(image).stat().st_size/CHECKED if virtual and image is not None else 0))
    try:
        if virtual and device.identity["problem"]:
            raise ValueError(f"{image}: the board refuses it: {device.identity['problem']}")
        if image is not None:
            device.upload(image, progress)
    except BaseException:
        device.close()
        raise
    return device
