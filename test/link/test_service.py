#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The board's service, message by message: one answer to every request in every state, and nothing of a host for the next one."""

import struct
import zlib

import numpy as np
import pytest

from litetern.host.link.messages import DONE, END, ERRORS, GENERATE_LOGITS, IDENTITY, LOGITS, PROTOCOL_VERSION, TOKEN, VALUES, ERROR as ERROR_LAYOUT
from litetern.model.numerics.exact import ExactModel
from litetern.model.numerics.sampling import Sampler, SamplingSettings

from firmware_builds import firmware_build
from service_board import IMAGE_LIMIT, RawHost, ServiceBoard
from tiny_model import changed, tiny_image

PROMPT_MAX = 4096
PROMPT     = [2, 3, 5]
CODES      = {name: code for code, (name, _) in enumerate(ERRORS, 1)}

# Hosts --------------------------------------------------------------------------------------------


class Host(RawHost):
    """Says requests by name; answers are (name, {member: value}, rest)."""
    def request(self, name, *words, rest=b""):
        self.say(VALUES[name], struct.pack(f"<{len(words)}I", *words) + rest)

    def hello(self, low=PROTOCOL_VERSION, high=PROTOCOL_VERSION):
        self.request("HELLO", low, high)

    def tokens(self, tokens, session=0, offset=0):
        self.request("TOKENS", session, offset, rest=np.asarray(tokens, "<u4").tobytes())

    def generate(self, count=len(PROMPT), session=0, request=7, most=30, flags=0, penalty=1.0):
        self.say(VALUES["GENERATE"], struct.pack("<IIIIfIffIIII", session, request, count, most, 0, 0, 1, penalty, 0, 0, 1, flags))

    def start(self, prompt=PROMPT, **options):
        self.tokens(prompt, options.get("session", 0))
        self.generate(len(prompt), **options)

    def upload(self, data, crc=None):
        self.request("UPLOAD_BEGIN", len(data), zlib.crc32(data) if crc is None else crc)
        self.hear(turns=200)
        for offset in range(0, len(data), 1000):
            self.request("UPLOAD_DATA", offset, rest=data[offset:offset + 1000])
        self.request("UPLOAD_END")

    def answers(self, turns=400):
        """What the board has said since the last call."""
        self.hear(turns=turns)
        layouts, said, self.heard = {"ERROR": ERROR_LAYOUT, "DONE": DONE, "TOKEN": TOKEN, "PROMPT": TOKEN, "END": END, "LOGITS": LOGITS,
            "IDENTITY": IDENTITY}, self.heard, []
        found = []
        for type, payload in said:
            name   = next(name for name, value in VALUES.items() if value == type)
            layout = layouts.get(name)
            record = np.frombuffer(payload, layout.dtype, 1)[0] if layout else None
            found.append((name, {member: record[member].item() for member in layout.dtype.names} if layout else {},
                payload[layout.size:] if layout else payload))
        return found

    def names(self, turns=400):
        """Their names without events; of an ERROR its code's name, too."""
        return [name if name != "ERROR" else f"ERROR {ERRORS[members['code'] - 1][0]}" for name, members, _ in self.answers(turns)
            if name not in ("TOKEN", "PROMPT", "LOGITS")]


def crc_of(image):
    return struct.unpack_from("<I", image, 12)[0]


@pytest.fixture(scope="module")
def image():
    return tiny_image(5)[0]


@pytest.fixture(scope="module")
def reference():
    """tokens(prompt, count, settings) as numpy generates them, and the logits of the last one."""
    model = tiny_image(5)[1]

    def tokens(prompt, count, settings=SamplingSettings()):
        exact, sampler, text, found = ExactModel(model), Sampler(settings), list(prompt), []
        for token in prompt:
            logits = exact.step([token])[0]
        for _ in range(count):
            found.append(sampler.choose(logits, text))
            text.append(found[-1])
            logits = exact.step([found[-1]])[0]
        return found
    return tokens


def make(image, **options):
    return ServiceBoard(firmware_build("host C scalar"), image, **options)


@pytest.fixture
def board(image):
    """Slow enough that a generation is under way for many turns."""
    return make(image, share=40)


@pytest.fixture
def host(board):
    host = Host(board)
    host.hello()
    assert host.names() == ["IDENTITY"]
    return host

# Prompts ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_image():
    return tiny_image(5, context=PROMPT_MAX, layers=1)[0]


@pytest.mark.parametrize("count", [PROMPT_MAX - 1, PROMPT_MAX, PROMPT_MAX + 1])
@pytest.mark.parametrize("piece", [252, 64, 1])
def test_the_longest_prompt(long_image, count, piece):
    board = make(long_image, image_limit=IMAGE_LIMIT*8)
    host  = Host(board)
    host.hello()
    for offset in range(0, count, piece):
        host.tokens([1]*min(piece, count - offset), offset=offset)
    host.generate(count, most=0)
    answers = host.answers(turns=40)
    if count > PROMPT_MAX:
        assert [(name, members["code"]) for name, members, _ in answers[1:]] == [("ERROR", CODES["prompt"])]
    else:
        assert answers[1][0] == "PROMPT" and answers[1][1]["prompt_tokens"] == count


@pytest.mark.parametrize("deeds, count", [
    ([(9, [1])],                                             1),          # A hole at the start,
    ([(9, [1]), (2**32 - 1, [9, 2, 3, 5])],                  3),          # and an offset that looks like its mark.
    ([(9, [1])],                                             2**32 - 1),
    ([(9, [1])],                                             0),
    ([(9, [1]), (9, [1])],                                   10),
    ([(0, [2]), (2, [3])],                                   2),
    ([(0, [2]), (0x4000_0000, [3])],                         2),          # · 4 is 0 in 32 bits.
    ([(0, [2]), (2**32 - 1, [3])],                           1),
    ([(0, [2, 3]), (1, [3])],                                3),
    ([(0, [2]), (2**31, [3])],                               2),
    ([(0, [2, 3, 5])],                                       2),
    ([(0, [2, 3, 5])],                                       4),
    ([(0, [2, 3, 5])],                                       2**32 - 1),
    ([(0, [2, 3, 5]), (0, [])],                              3),          # A new one.
    ([],                                                     1),
])
def test_prompts_with_holes(host, deeds, count, reference):
    """Refused once, by GENERATE; the next prompt is none the worse."""
    for offset, tokens in deeds:
        host.tokens(tokens, offset=offset)
    host.generate(count)
    (name, members, _), = host.answers()
    assert (name, members["type"], members["request"], members["code"]) == ("ERROR", VALUES["GENERATE"], 7, CODES["prompt"])
    host.start(most=3)
    assert [members["token"] for name, members, _ in host.answers() if name == "TOKEN"] == reference(PROMPT, 3)


@pytest.mark.parametrize("length", [0, 1, 4, 7, 9, 10, 11, 13])
def test_tokens_of_a_wrong_length(host, length):
    """No whole session, offset and tokens: an error, and no part of a prompt."""
    host.tokens(PROMPT)
    host.say(VALUES["TOKENS"], bytes(length))
    (name, members, _), = host.answers()
    assert (name, members["type"], members["code"]) == ("ERROR", VALUES["TOKENS"], CODES["length"])
    host.generate(most=1)
    assert "TOKEN" in [name for name, _, _ in host.answers()]


@pytest.mark.parametrize("session", [4, 5, 7, 2**31, 2**32 - 1])
def test_sessions_that_are_not_there(host, session):
    host.tokens(PROMPT, session)
    assert host.answers() == []
    for name, ask in (("GENERATE", lambda: host.generate(session=session)), ("STOP", lambda: host.request("STOP", session)),
            ("RESET", lambda: host.request("RESET", session))):
        ask()
        (_, members, rest), = host.answers()
        assert (members["type"], members["session"], members["code"], rest) == (VALUES[name], session, CODES["engine"], b"no such session")

# Done ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RESET", "STOP"])
@pytest.mark.parametrize("wait", range(0, 60, 7))
def test_done_means_done(host, name, wait, reference):
    """It comes behind the generation's last event, and what is asked next is not refused."""
    host.start()
    host.hear(turns=wait)
    host.request(name, 0)
    said = host.answers()
    assert [name for name, _, _ in said][-1] == "DONE" and said[-1][1] == {"type": VALUES[name], "session": 0}
    assert said[-2][1]["end"] == 4 and [name for name, _, _ in said].count("DONE") == 1
    if name == "STOP":
        return
    host.start(request=8, most=3)
    tokens = [members for name, members, _ in host.answers() if name == "TOKEN"]
    assert [members["token"] for members in tokens] == reference(PROMPT, 3) and {members["request"] for members in tokens} == {8}


def test_every_stop_and_reset_has_its_done(host):
    host.start()
    for name in ("STOP", "RESET", "RESET", "STOP"):
        host.request(name, 0)
    host.request("RESET", 1)  # Idle: at once.
    said = [(name, members.get("type"), members["session"]) for name, members, _ in host.answers() if name in ("END", "DONE")]
    assert said[0] == ("DONE", VALUES["RESET"], 1) and said[1][0] == "END"
    assert sorted(said[2:]) == sorted([("DONE", VALUES["STOP"], 0)]*2 + [("DONE", VALUES["RESET"], 0)]*2)


def test_generate_is_refused_while_one_runs(host, reference):
    """The one that runs goes on under its own request, and takes nothing of the other's prompt."""
    host.start(most=4)
    host.start([9, 9], request=8, most=9)
    said = host.answers()
    assert [members["request"] for name, members, _ in said if name == "ERROR"] == [8]
    tokens = [members for name, members, _ in said if name == "TOKEN"]
    assert [members["token"] for members in tokens] == reference(PROMPT, 4) and {members["request"] for members in tokens} == {7}
    host.generate(2, request=9)
    assert host.names() == ["ERROR prompt"]  # GENERATE took it, though it was refused.

# Every request in every state ---------------------------------------------------------------------

SHORT = b"no image"*40


def _uploading(host):
    host.request("UPLOAD_BEGIN", len(SHORT), 1)


def _half(host):
    _uploading(host)
    host.hear(turns=200)
    host.request("UPLOAD_DATA", 0, rest=SHORT[:50])


def _all_of_it(host):
    _half(host)
    host.request("UPLOAD_DATA", 50, rest=SHORT[50:])


def _two(host):
    host.start(session=0)
    host.start(session=1, request=6)


STATES = {
    "idle"       : lambda host: None,
    "generating" : _two,
    "resetting"  : lambda host: (_two(host), host.request("RESET", 0)),
    "stopping"   : lambda host: (_two(host), host.request("STOP", 1)),
    "logits"     : lambda host: (host.start(flags=GENERATE_LOGITS), host.hear(turns=30)),
    "uploading"  : _uploading,
    "draining"   : lambda host: (_two(host), _uploading(host)),
    "half"       : _half,
    "complete"   : _all_of_it,
    "refused"    : lambda host: (_all_of_it(host), host.request("UPLOAD_END")),
}
REQUESTS = {  # What is asked, and the answer's name; ERRORs name the request.
    "HELLO"        : (lambda host: host.hello(), "IDENTITY"),
    "IDENTIFY"     : (lambda host: host.request("IDENTIFY"), "IDENTITY"),
    "STATS"        : (lambda host: host.request("STATS"), "STATS_REPLY"),
    "GENERATE"     : (lambda host: host.start(session=1, request=99), "END"),
    "STOP"         : (lambda host: host.request("STOP", 0), "DONE"),
    "RESET"        : (lambda host: host.request("RESET", 0), "DONE"),
    "UPLOAD_BEGIN" : (lambda host: host.request("UPLOAD_BEGIN", 500, 9), "UPLOAD_STATUS"),
    "UPLOAD_END"   : (lambda host: host.request("UPLOAD_END"), "IDENTITY"),
    "0x7f"         : (lambda host: host.say(0x7F), None),
    "0x00"         : (lambda host: host.say(0x00), None),
    "LOGITS"       : (lambda host: host.say(VALUES["LOGITS"]), None),
}


ALIKE = {("resetting", "RESET"): 1, ("uploading", "UPLOAD_BEGIN"): 1, ("draining", "UPLOAD_BEGIN"): 1, ("half", "UPLOAD_BEGIN"): 1,
    ("complete", "UPLOAD_BEGIN"): 1, ("refused", "UPLOAD_BEGIN"): 1, ("refused", "UPLOAD_END"): 1}  # Answers of the state's own requests.


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", STATES)
def test_one_answer(host, image, state, request_name, reference):
    """To this request and to all before it; and the next host gets what the first one would have got."""
    ask, answer = REQUESTS[request_name]
    session     = 1 if request_name == "GENERATE" else 0
    STATES[state](host)
    ask(host)
    said = host.answers(turns=3000)
    type = VALUES.get(request_name, {"0x7f": 0x7F, "0x00": 0x00}.get(request_name))
    mine = [name for name, members, _ in said if name == "ERROR" and members["type"] == type and members["request"] in (0, 99) or
        name == answer and members.get("request", 99) == 99 and members.get("type", type) == type and members.get("session", session) == session]
    if request_name == "GENERATE":  # Its last event may be a TOKEN.
        mine += [name for name, members, _ in said if name in ("TOKEN", "PROMPT") and members["request"] == 99 and members["end"]]
    if request_name == "HELLO":     # What was under way is forgotten.
        assert said[-1][0] == "IDENTITY" and len(mine) == 1
    else:
        assert len(mine) == 1 + ALIKE.get((state, request_name), 0)

    second = Host(host.board, connection=2)
    second.hello()
    identity = second.answers()[0][1]
    assert bool(identity["image_bytes"]) == (state not in ("half", "complete", "refused"))
    if not identity["image_bytes"]:
        assert identity["problem"] and identity["context"] == identity["vocab"] == identity["sessions"] == 0 and not identity["name"]
        second.upload(image, crc_of(image))
        assert second.names()[-1] == "IDENTITY"
    second.start(most=3)
    assert [members["token"] for name, members, _ in second.answers() if name == "TOKEN"] == reference(PROMPT, 3)


def test_before_a_version_is_agreed_on(board):
    """A host that speaks another language gets refusals, no service."""
    host = Host(board)
    host.hello(PROTOCOL_VERSION + 1, PROTOCOL_VERSION + 5)
    host.request("IDENTIFY")
    host.start()
    assert host.names() == ["ERROR version"]*4
    host.hello(1, PROTOCOL_VERSION + 5)
    assert host.names() == ["IDENTITY"]


@pytest.mark.parametrize("low, high, good", [(1, PROTOCOL_VERSION, True), (0, 2**32 - 1, True), (1, 1, False), (2**32 - 1, 2**32 - 1, False),
    (PROTOCOL_VERSION, PROTOCOL_VERSION, True)])
def test_versions(board, low, high, good):
    host = Host(board)
    host.hello(low, high)
    assert host.names() == (["IDENTITY"] if good else ["ERROR version"])

# Hosts one after the other ------------------------------------------------------------------------


@pytest.mark.parametrize("hello", [b"", b"short", struct.pack("<2I", PROTOCOL_VERSION + 1, 99), struct.pack("<2I", PROTOCOL_VERSION, PROTOCOL_VERSION)])
def test_nothing_of_a_host_reaches_the_next(board, hello, reference):
    """Texts, penalties, waiting prompts, events, logits, answers that are due: whatever the second one's HELLO says."""
    first = Host(board)
    first.hello()
    first.start(most=5, penalty=1.5)
    first.answers(turns=3000)
    first.tokens([7, 7], session=1)
    first.start([9], session=2, flags=GENERATE_LOGITS)
    first.start([8], session=0, request=3)
    first.request("RESET", 0)
    first.hear(turns=5)
    second = Host(board, connection=2)
    second.say(VALUES["HELLO"], hello)
    assert [name for name, _, _ in second.answers()] == ["ERROR" if len(hello) < 8 or hello[0] > PROTOCOL_VERSION else "IDENTITY"]
    third = Host(board, connection=3)
    third.hello()
    third.generate(2, session=1)
    assert third.names() == ["IDENTITY", "ERROR prompt"]
    settings = SamplingSettings(repetition_penalty=1.5)
    for session in range(3):
        third.start(session=session, most=4, penalty=1.5)
        said = third.answers(turns=3000)
        assert [members["token"] for name, members, _ in said if name == "TOKEN"] == reference(PROMPT, 4, settings)
        assert {members["request"] for _, members, _ in said} == {7} and said[-1][1]["position"] == len(PROMPT) + 3


def test_hosts_that_alternate(board, reference):
    """Each HELLO is a new beginning; frames of the host that has lost the board do nothing, however right they were."""
    old = None
    for connection in range(1, 9):
        host = Host(board, connection)
        host.hello()
        host.hear(turns=20)
        if old:
            old.start([1, 1, 1], request=66)
            old.request("RESET", 0)
        host.start(most=6)
        if connection % 2:
            said = host.answers(turns=3000)
            assert [members["token"] for name, members, _ in said if name == "TOKEN"] == reference(PROMPT, 6)
            assert all(members.get("request", 7) == 7 for _, members, _ in said)
        assert old is None or old.heard == old_heard
        old, old_heard = host, list(host.heard)


def test_logits_belong_to_tokens(host, reference):
    """Those of a prompt would be what the board computed last, for anybody."""
    host.start(most=2, flags=GENERATE_LOGITS)
    said = [(name, len(rest)) for name, _, rest in host.answers(turns=3000)]
    assert said == [("PROMPT", 0)]*(len(PROMPT) - 1) + [("TOKEN", 0), ("LOGITS", 4*130)]*2


@pytest.mark.parametrize("turns", range(60, 700, 40))
def test_logits_that_wait_for_room_are_forgotten(board, turns):
    """The host before acknowledges nothing: its window is full."""
    first = Host(board)
    first.hello()
    first.start(flags=GENERATE_LOGITS)
    for _ in range(turns):
        board.turn()
    second = Host(board, connection=2)
    second.hello()
    assert [name for name, _, _ in second.answers(turns=2000)] == ["IDENTITY"]


def test_a_message_in_a_drain_is_asked_for(image):
    """As soon as the generation has ended, not after the host's patience."""
    board = make(image, share=200)
    first = Host(board)
    first.hello()
    first.start()
    first.hear(turns=20)
    second = Host(board, connection=2)
    second.hello()
    started = board.now
    second.request("STATS")
    while VALUES["STATS_REPLY"] not in [type for type, _ in second.heard]:
        second.hear()
        assert board.now < started + 0.3

# Upload -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [
    [(0, 101)],                                 # Longer than announced,
    [(0, 50), (50, 51)],                        # at the end,
    [(0, 100), (100, 1)],                       # and behind it.
    [(0, 100), (100, 900)],
])
def test_bytes_that_were_not_announced(host, board, chunks):
    """They are refused, and the memory behind the image stays as it is."""
    host.request("UPLOAD_BEGIN", 100, 1)
    host.hear(turns=50)
    behind = board.build.get(board.image + 100, np.uint8, 1000)
    for offset, count in chunks:
        host.request("UPLOAD_DATA", offset, rest=b"\xee"*count)
    assert host.names() == ["UPLOAD_STATUS", "ERROR upload"]
    assert (board.build.get(board.image + 100, np.uint8, 1000) == behind).all()


@pytest.mark.parametrize("bytes", [0, IMAGE_LIMIT + 1, 2**31, 2**32 - 1, 2**32 - 127])
def test_images_without_room(host, bytes):
    host.request("UPLOAD_BEGIN", bytes, 1)
    assert host.names() == ["ERROR upload"]
    host.request("UPLOAD_DATA", 0, rest=b"x")
    assert host.names() == ["ERROR upload"]


def test_a_hole_is_answered_once(host, image):
    """Chunks on the way when one was lost have no answers of their own: the host goes back once."""
    host.request("UPLOAD_BEGIN", len(image), crc_of(image))
    host.hear(turns=50)
    chunk = lambda number: host.request("UPLOAD_DATA", 1000*number, rest=image[1000*number:1000*number + 1000])
    for number in (0, 2, 3, 4, 2**22, 1, 2, 4, 5):
        chunk(number)
    statuses = [struct.unpack("<I", rest)[0] for name, _, rest in host.answers() if name == "UPLOAD_STATUS"]
    assert statuses == [0, 1000, 3000]
    host.request("UPLOAD_END")
    assert host.names() == ["ERROR upload"]


@pytest.mark.parametrize("cut", ["begun", "half", "complete", "refused"])
def test_an_upload_that_is_cut_off_heals(board, image, cut, reference):
    """The identity is what the board can run: the old model until the first byte has come, none until the last one was checked."""
    other = tiny_image(6)[0]
    first = Host(board)
    first.hello()
    first.request("UPLOAD_BEGIN", len(other), crc_of(other))
    first.hear(turns=50)
    upto  = {"begun": 0, "half": 5000}.get(cut, len(other))
    data  = other if cut != "refused" else other[:9000] + b"\xff"*9 + other[9009:]
    for offset in range(0, upto, 1000):
        first.request("UPLOAD_DATA", offset, rest=data[offset:min(offset + 1000, upto)])
    if cut == "refused":
        first.request("UPLOAD_END")
        assert first.names()[-1] == "ERROR image"
    second = Host(board, connection=2)
    second.hello()
    identity = second.answers()[0][1]
    assert identity["image_crc"] == (crc_of(image) if cut == "begun" else 0)
    assert bool(identity["problem"]) == (cut != "begun") and identity["context"] == (40 if cut == "begun" else 0)
    second.start()
    assert ("ERROR model" in second.names()) == (cut != "begun")
    second.request("RESET", 0)
    second.request("UPLOAD_DATA", upto, rest=other[upto:upto + 10] or b"x")  # It has begun no upload.
    assert "ERROR upload" in second.names(turns=3000)
    second.upload(image, crc_of(image))
    identity = next(members for name, members, _ in second.answers(turns=3000) if name == "IDENTITY")
    assert identity["image_crc"] == crc_of(image) and not identity["problem"] and identity["context"] == 40
    second.start(most=3)
    assert [members["token"] for name, members, _ in second.answers() if name == "TOKEN"] == reference(PROMPT, 3)


def test_an_upload_goes_on_where_it_was_cut_off(board, image):
    other = tiny_image(6)[0]
    for connection, first, last, offset in ((1, 0, 3000, 0), (2, 3000, 7000, 3000), (3, 7000, len(other), 7000)):
        host = Host(board, connection)
        host.hello()
        host.request("UPLOAD_BEGIN", len(other), crc_of(other))
        statuses = [struct.unpack("<I", rest)[0] for name, _, rest in host.answers() if name == "UPLOAD_STATUS"]
        assert statuses == [offset]
        for at in range(first, last, 1000):
            host.request("UPLOAD_DATA", at, rest=other[at:min(at + 1000, last)])
    host.request("UPLOAD_END")
    assert [members["image_crc"] for _, members, _ in host.answers()] == [crc_of(other)]


@pytest.fixture(scope="module")
def large(image):
    """An image whose check takes several turns."""
    return changed(image + bytes(300000), image_bytes=len(image) + 300000)


def _while_checked(host, seconds):
    """What the board says when each turn of its check takes so long: names, and how far it told to be."""
    for _ in range(8):
        host.board.now += seconds
        host.hear()
    said = [answer for answer in host.answers() if answer[0] != "UPLOAD_STATUS"]
    signs = [struct.unpack("<II", rest) for name, _, rest in said if name == "CHECKING"]
    return [name for name, _, _ in said if name != "CHECKING"], signs, said


@pytest.mark.parametrize("seconds, least, most", [(0.25, 4, 6), (0, 0, 1)])
def test_a_check_tells_how_far_it_is(large, reference, seconds, least, most):
    """Each twentieth of a second, not in each turn; another request waits for its end."""
    host = Host(make(b"", arena_bytes=1 << 20))
    host.hello()
    assert host.names() == ["IDENTITY"]
    host.upload(large, crc_of(large))
    host.request("STATS")
    names, signs, said = _while_checked(host, seconds)
    assert names == ["IDENTITY", "STATS_REPLY"] and least <= len(signs) <= most
    assert [name for name, _, _ in said].index("IDENTITY") == len(signs)  # All before the answer.
    assert all(total == len(large) for _, total in signs) and signs == sorted(set(signs)) and all(done < total for done, total in signs)
    host.start(most=3)
    assert [members["token"] for name, members, _ in host.answers() if name == "TOKEN"] == reference(PROMPT, 3)


@pytest.mark.parametrize("start", [True, False])
def test_a_host_that_comes_while_an_image_is_checked(large, reference, start):
    """At the board's start and in an upload: it hears how far that is, and who the board is when it knows."""
    board = make(large if start else b"", arena_bytes=1 << 20)
    if not start:
        first = Host(board)
        first.hello()
        first.upload(large, crc_of(large))
    second = Host(board, connection=2)
    second.hello()
    second.request("IDENTIFY")
    names, signs, said = _while_checked(second, 0.25)
    assert names == ["IDENTITY"]*2 and len(signs) >= 2
    assert all(members["image_crc"] == crc_of(large) and members["context"] == 40 for name, members, _ in said if name == "IDENTITY")
    second.start(most=3)
    assert [members["token"] for name, members, _ in second.answers() if name == "TOKEN"] == reference(PROMPT, 3)


@pytest.mark.parametrize("at", [0.2, 0.5, 1])
def test_damage_behind_the_first_share(host, large, at):
    damaged = bytearray(large)
    damaged[int(at*len(large)) - 1] ^= 1
    host.upload(bytes(damaged), crc_of(large))
    names, _, said = _while_checked(host, 0)
    assert names == ["ERROR"] and said[-1][2] == b"image is damaged: CRC-32 of the body does not match"
    host.request("IDENTIFY")
    identity = host.answers()[0][1]
    assert not identity["image_bytes"] and b"CRC-32" in identity["problem"]


def test_another_image_than_announced(host, image):
    host.upload(image, crc=12345)
    said = host.answers()
    assert said[-1][0] == "ERROR" and said[-1][2] == b"the image is another one than was announced"
    host.request("IDENTIFY")
    assert host.answers()[0][1]["image_bytes"] == 0


@pytest.mark.parametrize("extra, room", [(0, 0), (0, 1), (0, 128), (8, 0), (8, 119), (8, 120), (8, -1), (0, -1)])
def test_an_image_as_long_as_its_memory(image, extra, room, reference):
    """What is left behind it, in whole lines, may be nothing; it never counts as 2³² bytes."""
    longer = changed(image + bytes(extra), image_bytes=len(image) + extra)
    host   = Host(make(longer, image_limit=len(longer) + room, arena_bytes=1 << 20))
    host.hello()
    identity = host.answers()[0][1]
    if room < 0:
        assert b"too large" in identity["problem"] and not identity["image_bytes"]
        return
    host.start(most=3)
    assert [members["token"] for name, members, _ in host.answers() if name == "TOKEN"] == reference(PROMPT, 3)


def test_an_upload_goes_to_the_memorys_start(image, reference):
    """Wherever the image before lay: what a script has loaded high leaves no less room for what comes by the line."""
    board = make(image, image_limit=len(image) + 128, arena_bytes=1 << 20)
    host  = Host(board)
    host.hello()
    host.start(most=3)
    other = changed(image, name=b"other")
    host.upload(other, crc_of(other))
    assert board.build.get(board.memory, np.uint8, len(other)).tobytes() == other
    assert host.answers()[-1][1]["name"] == b"other"
    host.start(most=3)
    assert [members["token"] for name, members, _ in host.answers() if name == "TOKEN"] == reference(PROMPT, 3)


@pytest.mark.parametrize("state", ["uploading", "half", "complete"])
def test_no_generation_during_an_upload(host, state):
    """It would read what the upload replaces, and end with it, unanswered."""
    STATES[state](host)
    host.names()
    host.start()
    assert host.names() == ["ERROR upload"]


def test_without_a_model():
    host = Host(make(b""))
    host.hello()
    host.tokens(PROMPT)
    host.generate()
    host.request("STOP", 0)
    host.request("RESET", 0)
    host.request("RESET", 2**32 - 1)
    assert host.names() == ["IDENTITY"] + ["ERROR model"]*4
