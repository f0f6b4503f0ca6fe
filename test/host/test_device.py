#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The host's device: beside a service in this process, and beside boards that say what no firmware does."""

import struct
import time

import numpy as np
import pytest

from litetern.host.link.device import BACKS, NOT_COMPLETE, Device, Sampling
from litetern.host.link.messages import CHECKING, DONE, END, ERROR, FLAG_SEQUENCED, GENERATE, IDENTITY, LOGITS, NAMES, TOKEN, UPLOAD_CHUNK, VALUES, WINDOW
from litetern.host.link.protocol import LinkError, Parser, pack_frame

from firmware_builds import firmware_build
from service_board import ServiceBoard
from tiny_model import tiny_image

PROMPT = [2, 3, 5]
GREEDY = Sampling(ignore_eos=True)

# Boards -------------------------------------------------------------------------------------------


def record(layout, rest=b"", **members):
    values = np.zeros((), layout.dtype)
    for name, value in members.items():
        values[name] = value
    return values.tobytes() + rest


class Board:
    """Answers a message `name` with what its method of that name returns: [(name, payload)]."""
    vocab = 5

    def __init__(self):
        self.said, self.sent, self.received, self.heard = bytearray(), 0, 0, []
        self.parser = Parser(self._take)

    def _take(self, connection, number, acknowledged, type, flags, payload):
        self.connection = connection
        if not flags & FLAG_SEQUENCED or number != self.received + 1:
            return
        self.received += 1
        self.heard.append((NAMES[type], payload))
        self.say(*getattr(self, NAMES[type].lower(), lambda payload: [])(payload))

    def say(self, *messages):
        for name, payload in messages:
            self.sent += 1
            self.said += pack_frame(self.connection, self.sent, self.received, VALUES.get(name, 0x99), FLAG_SEQUENCED, payload)
        if not messages:
            self.said += pack_frame(self.connection, 0, self.received, VALUES["ACK"], 0)

    def write(self, data):
        self.parser.feed(data, 0)

    def read(self, timeout):
        said, self.said = bytes(self.said), bytearray()
        return said

    def close(self):
        pass

    def hello(self, payload):
        return [("IDENTITY", record(IDENTITY, vocab=self.vocab, context=100, sessions=2, image_limit=1 << 20, image_bytes=1000, image_crc=1))]

    def generate(self, payload):
        request = np.frombuffer(payload, GENERATE.dtype)[0]["request"].item()
        return self.events(request)

    def events(self, request):
        return [("TOKEN", record(TOKEN, request=request, token=request, end=2))]


def token(request, **members):
    return "TOKEN", record(TOKEN, request=request, **members)


def logits(request, offset, values):
    return "LOGITS", record(LOGITS, np.asarray(values, "<f4").tobytes(), request=request, offset=offset)


def error(name, text=b"refused", code=8, **members):
    return "ERROR", record(ERROR, text, type=VALUES[name], code=code, **members)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for seed in (5, 6):
        (folder/f"{seed}.tern").write_bytes(tiny_image(seed)[0])
    return folder/"5.tern", folder/"6.tern"


@pytest.fixture
def service(images):
    return ServiceBoard(firmware_build("host C scalar"), images[0].read_bytes(), share=200)


def tokens_of(events):
    return [event.token for event in events if event.kind == "token"]

# Requests one after the other ---------------------------------------------------------------------


def test_events_of_an_abandoned_request_are_left_behind():
    """And its errors, and its logits; of two sessions alike."""
    class Late(Board):
        def events(self, request):
            old = request - 1
            return [token(old, token=90, end=1), error("GENERATE", request=old), logits(old, 0, [9]*5), ("END", record(END, request=old, end=4)),
                *super().events(request)]

    device = Device(Late())
    for request in (1, 2, 3):
        assert [(event.kind, event.token) for event in device.generate(PROMPT)] == [("token", request)]


@pytest.mark.parametrize("call, name", [(Device.reset, "RESET"), (Device.stats, "STATS")])
def test_errors_belong_to_their_requests(call, name):
    """An ERROR of another request, whatever its number, ends nothing; one's own does."""
    class Other(Board):
        reset = stats = lambda self, payload: [error("GENERATE"), error("GENERATE", request=1), error("TOKENS"), error(name, b"mine")]

    with pytest.raises(LinkError, match="^mine$"):
        call(Device(Other()))


def test_done_belongs_to_its_request():
    """STOP's is not RESET's, nor is another session's."""
    class Other(Board):
        def reset(self, payload):
            return [("DONE", record(DONE, type=VALUES["STOP"], session=1)), ("DONE", record(DONE, type=VALUES["RESET"], session=0)),
                error("RESET", b"mine")]

    with pytest.raises(LinkError, match="^mine$"):
        Device(Other()).reset(1)


@pytest.mark.parametrize("seen", [1, 2, 3, 5])
def test_a_generation_that_is_left_early_is_stopped(service, seen):
    """The next one of the session waits for its end, and is not refused; the text is what was read until then."""
    device  = Device(service)
    whole   = tokens_of(device.generate(PROMPT, GREEDY, 30))
    device.reset()
    running = device.generate(PROMPT, GREEDY, 30)
    for _ in range(seen):
        next(running)
    running.close()
    device.reset()
    assert tokens_of(device.generate(PROMPT, GREEDY, 4)) == whole[:4]
    running = device.generate([7], GREEDY, 20)
    next(running)
    running.close()
    assert len(tokens_of(device.generate([8], GREEDY, 3))) == 3
    assert device.stats()["frames_damaged"] == 0


def test_stop_that_is_refused_holds_nothing_up():
    class Stubborn(Board):
        stop = lambda self, payload: [error("STOP")]

    device  = Device(Stubborn())
    device.stop()
    with pytest.raises(LinkError, match="refused"):
        list(device.generate(PROMPT))
    assert tokens_of(device.generate(PROMPT)) == [1]

# Upload -------------------------------------------------------------------------------------------


class Keeper(Board):
    """Takes an image, but loses the chunks whose numbers are in `lost`, each once."""
    def __init__(self, lost=()):
        super().__init__()
        self.lost, self.image, self.hole, self.chunks, self.ends = list(lost), bytearray(), False, 0, 0

    def status(self):
        return "UPLOAD_STATUS", struct.pack("<I", len(self.image))

    def upload_begin(self, payload):
        self.hole  = False
        self.bytes = struct.unpack_from("<I", payload)[0]
        return [self.status()]

    def upload_data(self, payload):
        number, offset = self.chunks, struct.unpack_from("<I", payload)[0]
        self.chunks   += 1
        if number in self.lost:
            return []
        if offset != len(self.image):
            said, self.hole = [] if self.hole else [self.status()], True
            return said
        self.hole   = False
        self.image += payload[4:]
        return []

    def upload_end(self, payload):
        self.ends += 1
        if len(self.image) != self.bytes:
            return [error("UPLOAD_END", b"the upload is not complete", NOT_COMPLETE)]
        return [("IDENTITY", record(IDENTITY, image_bytes=self.bytes, image_crc=7))]


CHUNKS = -(-30720//UPLOAD_CHUNK)


@pytest.mark.parametrize("lost", [(), (0,), (7,), (7, 8, 9), (7, 20), (CHUNKS - 2,), (CHUNKS - 1,), (0, CHUNKS + 5), tuple(range(0, 60, 7))])
def test_an_upload_goes_back(images, lost):
    """To where the board stands, in the middle and at the end."""
    board  = Keeper(lost)
    device = Device(board)
    device.upload(images[0])
    assert bytes(board.image) == images[0].read_bytes() and device.identity["image_crc"] == 7
    if len(lost) < 5:  # At once: not when all the rest has been sent in vain.
        assert board.chunks <= CHUNKS + (WINDOW + 2)*len(lost)


def test_a_board_that_loses_all_of_an_image(images):
    with pytest.raises(LinkError, match=f"^the board has lost bytes of the image {BACKS} times$"):
        Device(Keeper(range(10**6))).upload(images[0])


def test_a_board_that_asks_for_what_there_is_not(images):
    class Greedy(Keeper):
        status = lambda self: ("UPLOAD_STATUS", struct.pack("<I", 2**32 - 1))

    with pytest.raises(LinkError, match="^the board asks for byte 4294967295 of an image of 30720 bytes$"):
        Device(Greedy()).upload(images[0])


@pytest.mark.parametrize("name", ["UPLOAD_BEGIN", "UPLOAD_DATA", "UPLOAD_END"])
def test_refused_uploads(images, name):
    board = Keeper()
    setattr(board, name.lower(), lambda payload: [error(name, b"no room")])
    with pytest.raises(LinkError, match="^no room$"):
        Device(board).upload(images[0])


class Checker(Keeper):
    """Checks an image in `steps` steps of a tenth of a second before it answers `request`, and stands still at the end of `alive` steps."""
    def __init__(self, request, steps, alive):
        super().__init__()
        self.steps, self.alive, self.step = steps, alive, None
        setattr(self, request.lower(), self._begin)

    def _begin(self, payload):
        self.step = 0
        return []

    def read(self, timeout):
        if self.step is not None and self.step < self.alive:
            time.sleep(0.1)
            self.step += 1
            self.say(("CHECKING", record(CHECKING, done=self.step, bytes=self.steps)))
            if self.step == self.steps:
                self.step = None
                self.say(("IDENTITY", record(IDENTITY, image_limit=1 << 20, image_crc=7, image_bytes=1000)))
        return super().read(timeout)


@pytest.mark.parametrize("request_name", ["HELLO", "UPLOAD_END"])
@pytest.mark.parametrize("alive", [8, 3])
def test_the_time_for_an_answer_counts_from_the_last_sign_of_a_check(monkeypatch, images, request_name, alive):
    monkeypatch.setattr("litetern.host.link.device.ANSWER", 0.4)
    board, seen = Checker(request_name, 8, alive), []

    def run():
        device = Device(board, lambda done, total: seen.append((done, total)))
        device.upload(images[0])
        return device

    if alive == 8:
        assert run().identity["image_crc"] == 7
    else:
        with pytest.raises(LinkError, match="^the board did not answer within 0 s$"):
            run()
    assert seen == [(step, 8) for step in range(1, alive + 1)]


def test_an_upload_that_was_left_is_not_there(service, images):
    """Neither the old image nor the new one is held by then: this device sends either of them again."""
    class Cut(Exception):
        pass

    def cut(done, total):
        raise Cut

    device = Device(service)
    whole  = tokens_of(device.generate(PROMPT, GREEDY, 5))
    for path in (images[1], images[0]):
        with pytest.raises(Cut):
            device.upload(path, cut)
        assert device.image_crc is None and device.context == 0
        seen = []
        device.upload(path, lambda done, total: seen.append(done))
        assert seen and device.context == 40
    device.upload(images[0], cut)  # It is there.
    assert tokens_of(device.generate(PROMPT, GREEDY, 5)) == whole

# Boards that no firmware makes --------------------------------------------------------------------


@pytest.mark.parametrize("pieces, text", [
    ([(0, [1, 2]), (3, [4, 5])],           "logits from 2 on"),     # A hole,
    ([(0, [1, 2]), (0, [1, 2])],           "logits from 2 on"),     # one twice,
    ([(1, [1, 2])],                        "logits from 0 on"),
    ([(0, [1]*6)],                         "logits from 0 on"),     # too many,
    ([(0, [1, 2]), (2, [1]*4)],            "logits from 2 on"),
    ([(0, [1, 2]), (2, [])],               "logits from 2 on"),     # none at all.
    ([(2**32 - 1, [1, 2])],                "logits from 0 on"),
])
def test_logits_out_of_place(pieces, text):
    class Torn(Board):
        events = lambda self, request: [token(request), *(logits(request, *piece) for piece in pieces)]

    with pytest.raises(LinkError, match=text):
        list(Device(Torn()).generate(PROMPT, logits=True))


def test_logits_in_pieces():
    class Good(Board):
        events = lambda self, request: [token(request - 1), token(request, end=2), logits(request, 0, [1, 2]), logits(request - 1, 0, [9]*5),
            logits(request, 2, [3, 4, 5])]

    event, = Device(Good()).generate(PROMPT, logits=True)
    assert event.logits.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("message, text", [
    (("TOKEN", b"short"),                          "TOKEN of 5 bytes"),
    (("ERROR", b""),                               "ERROR of 0 bytes"),
    (("LOGITS", bytes(16)),                        None),                # Of request 0: nobody's.
    (("SOMETHING", b"new"),                        None),                # A type of later versions.
    (token(1, end=77),                             None),
    (("LOGITS", record(LOGITS, request=1)),        "logits that nobody asked for"),
])
def test_messages_that_no_board_sends(message, text):
    class Odd(Board):
        events = lambda self, request: [message, *super().events(request)]

    device = Device(Odd())
    if text is None:
        assert tokens_of(device.generate(PROMPT))
    else:
        with pytest.raises(LinkError, match=text):
            list(device.generate(PROMPT))
