#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The chat as a user meets it: text in and out, commands, scripts, and one clear line for each error.

The numpy definition stands in for a board here; test_chat_board.py runs the same commands on the virtual one.
"""

import dataclasses
import io
import json
import os
import random
import signal
import subprocess
import sys
import zlib

import numpy as np
import pytest

from tokenizers.pre_tokenizers import ByteLevel

from exact_device import ExactDevice
from litetern.host import chat, terminal
from litetern.host.chat import Settings
from litetern.host.conversation import HALF, Conversation, TextStream, Vocabulary
from litetern.host.link import device, messages
from litetern.host.pack import pack
from litetern.model.common import console
from litetern.model.common.printable import CONTROL as CONTROLS, printable
from litetern.model.common.progress import Progress
from litetern.model.formats.image import IMAGE_HEADER, LAYER_RECORD, read_image, write_image
from litetern.model.numerics.sampling import SamplingSettings
from litetern.model.paths import ROOT
from litetern.model.tokenizer.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN
from litetern.model.tokenizer.vocabulary import from_pieces
from litetern.soc.tools import verilate
from tiny_checkpoint import tokenizer, write_checkpoint

# Helpers ------------------------------------------------------------------------------------------

GREEDY = SamplingSettings()


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    pack(write_checkpoint(folder/"tiny"), folder/"tiny.tern")
    return folder/"tiny.tern"


@pytest.fixture
def vocabulary():
    return Vocabulary(tokenizer(320).to_str().encode())


def conversation(image, **options):
    model = read_image(image)
    return Conversation(ExactDevice(image, **options), Vocabulary(model.tokenizer), model.bos)


@pytest.fixture
def run(image, monkeypatch, capsys):
    """Runs the command in this process on `device`: (status, stdout, stderr)."""
    def run(*arguments, stdin="", device=None):
        monkeypatch.setattr(sys, "argv", ["chat.py", "--model", str(image), *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", None if stdin is None else io.StringIO(stdin))
        monkeypatch.setattr(chat, "open_device", lambda *_, **options: device or ExactDevice(image))
        with pytest.raises(SystemExit) as end:
            console.run(chat.main)
        return end.value.code, *capsys.readouterr()
    return run


def command(*arguments):
    """Runs the command itself: (status, stdout, stderr)."""
    done = subprocess.run([sys.executable, str(ROOT/"host"/"chat.py"), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def one_line(result):
    """The line on stderr of a command that must fail with exactly one, and no other output."""
    status, out, err = result
    assert status != 0 and out == "" and len(err.splitlines()) == 1, result
    return err.strip()

# Text ---------------------------------------------------------------------------------------------


def test_characters_come_whole(vocabulary):
    """Tokens that hold pieces of a character add nothing until it is complete."""
    text   = "a é日 🙂 ok"
    stream = TextStream(vocabulary)
    pieces = [stream.add(token) for token in vocabulary.encode(text)]
    assert "".join(pieces) == text and stream.end() == ""
    assert HALF not in "".join(pieces) and pieces.count("") >= 5
    stream = TextStream(vocabulary)
    cut    = [stream.add(token) for token in vocabulary.encode("ok 🙂")[:-1]]
    assert "".join(cut) == "ok " and stream.end() == HALF and stream.end() == ""


def falling_back(*pieces, bytes=(0x0A, 0x41, 0xC3, 0xA9, 0xF0, 0x9F, 0x99, 0x82, 0xFF)):
    """Vocabulary as llama2.c's and SentencePiece's: words of `pieces`, and tokens of bytes for all else."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in bytes), *pieces]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE]*len(bytes) + [NORMAL]*len(pieces)
    return Vocabulary(from_pieces(names, [0.0]*len(names), kinds).to_str().encode())


def token_id(vocabulary, text):
    return next(index for index in range(vocabulary.tokenizer.largest + 1) if vocabulary.tokenizer.token(index) == text)


def test_answers_are_what_decoding_the_whole_gives(vocabulary):
    """Any tokens in any order, bytes that are no UTF-8 among them: the pieces lose nothing and take nothing back."""
    draw = random.Random(1)
    for vocabulary in (vocabulary, falling_back("\u2581a", "a", "\u2581", HALF, f"\u2581{HALF}", "\n")):
        whole = lambda tokens: vocabulary.tokenizer.decode(tokens)
        count = vocabulary.tokenizer.largest + 1
        for _ in range(300):
            before = vocabulary.encode(draw.choice(["", "a", f"a {HALF}", "\n a"]))
            tokens = draw.choices(range(count), k=draw.randint(1, 12))
            stream = TextStream(vocabulary, before)
            answer = "".join(stream.add(token) for token in tokens) + stream.end()
            assert stream.end() == "" and answer == whole(before + tokens)[len(whole(before)):], (before, tokens)


def test_bytes_that_become_no_character():
    """A byte that spoils its run is known when the run ends; a chat goes on."""
    vocabulary = falling_back("a")
    A, F0, a   = (token_id(vocabulary, name) for name in ("<0x41>", "<0xF0>", "a"))
    stream = TextStream(vocabulary, vocabulary.encode("a"))
    assert [stream.add(token) for token in (A, F0, a, A, F0, a, A)] == ["", "", f"{HALF}{HALF}a", "", "", f"{HALF}{HALF}a", ""]
    assert stream.end() == "A"


def test_a_mark_at_the_end(vocabulary):
    """Marks are text, too: at the end of a prompt, and with what came before them at the end of an answer."""
    stream = TextStream(vocabulary, vocabulary.encode(f"ok {HALF}"))
    assert "".join(map(stream.add, vocabulary.encode("no"))) + stream.end() == "no"
    vocabulary = falling_back(f"\u2581a{HALF}", "\u2581a")
    stream     = TextStream(vocabulary)
    assert stream.add(token_id(vocabulary, f"\u2581a{HALF}")) + stream.end() == f"a{HALF}"


def test_an_answer_that_is_continued(image):
    """Enter alone goes on where an answer stopped in the middle of a character."""
    device     = ExactDevice(image)
    talk       = Conversation(device, Vocabulary(device.model.tokenizer), device.model.bos)
    first, *rest = talk.vocabulary.encode("\U0001f642")
    device.scripted = [first]
    assert "".join(text for _, text in talk.answer(talk.encode("Once"), GREEDY, 1)) == HALF
    device.scripted = rest
    assert "".join(text for _, text in talk.answer([], GREEDY, len(rest))) == "\U0001f642"


def test_byte_order_mark(vocabulary, run):
    assert vocabulary.encode("\ufeffOnce") == vocabulary.encode("Once") and vocabulary.unknown("\ufeffOnce") == ""
    marked = run("--prompt", "\ufeffOnce", "--tokens", 8, "--greedy")
    assert marked[:2] == run("--prompt", "Once", "--tokens", 8, "--greedy")[:2]
    answer = lambda line: run("--tokens", 8, "--greedy", stdin=line)[1].split("[")[0]
    assert answer("\ufeffOnce\n") == answer("Once\n")


@pytest.mark.parametrize("options", [
    {"truncation": {"max_length": 6, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
    {"padding": {"strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<|endoftext|>"}},
], ids=lambda options: next(iter(options)))
def test_prompts_are_neither_cut_nor_padded(vocabulary, options):
    """tokenizer.json may hold what it was trained with."""
    data = json.loads(tokenizer(320).to_str()) | options
    text = "Once upon a time there was a girl and a dog."
    assert Vocabulary(json.dumps(data).encode()).encode(text) == vocabulary.encode(text)


def test_special_tokens_show_nothing(vocabulary):
    stream = TextStream(vocabulary)
    assert [stream.add(token) for token in (*vocabulary.encode("ok"), 0)][-1] == "" and stream.end() == ""


def test_text_never_becomes_a_special_token(vocabulary):
    with pytest.raises(ValueError, match=r"holds <\|endoftext\|>, which only the model itself may say"):
        vocabulary.encode("The end.<|endoftext|>Again")
    assert 0 not in vocabulary.encode("<|endoftext| >")
    # Even if the check above were not there.
    assert 0 not in vocabulary.tokenizer.encode("<|endoftext|>")


def test_unknown_characters_are_named():
    plain = tokenizer(320)
    data  = json.loads(plain.to_str())
    for character in "Ã©":  # How byte-level vocabularies spell the bytes of é.
        del data["model"]["vocab"][character]
    small = Vocabulary(json.dumps(data).encode())
    assert small.unknown("caf\u00e9 ok") == "\u00e9" and small.unknown("ok") == ""

# Conversation -------------------------------------------------------------------------------------


def test_session_continues_until_reset(image):
    """Two answers in a row see the same text as one prompt that holds it all."""
    talk   = conversation(image)
    first  = [event.token for event, _ in talk.answer(talk.encode("Once"), GREEDY, 5) if event.kind == "token"]
    second = [event.token for event, _ in talk.answer(talk.encode(" dog"), GREEDY, 5) if event.kind == "token"]
    whole  = conversation(image)
    tokens = [*whole.encode("Once"), *first, *whole.vocabulary.encode(" dog")]
    assert [event.token for event, _ in whole.answer(tokens, GREEDY, 5) if event.kind == "token"] == second
    talk.reset()
    assert [event.token for event, _ in talk.answer(talk.encode("Once"), GREEDY, 5) if event.kind == "token"] == first


def test_figures(image):
    talk = conversation(image, cycles=50_000)
    list(talk.answer(talk.encode("Once"), GREEDY, 4))
    s = talk.summary(talk.answer_figures)
    assert s["tokens"] == 4 and s["pl_cycles_per_token"] == 50_000
    assert s["wall_fraction"] == pytest.approx(700_000/(50_000/125e6*2.009e9))
    assert s["board_tokens_per_s"] == pytest.approx(1/(50_000/125e6 + 1e-3))
    assert talk.prompt.tokens == len(talk.read) - 4 - 1  # The last prompt token samples the first answer token.


def test_without_cycles_nothing_is_claimed(image):
    """The virtual board's C model has no cycles and takes no time; C cores of the firmware take the CPU's."""
    talk = conversation(image, cycles=0)
    list(talk.answer(talk.encode("Once"), GREEDY, 2))
    s = talk.summary(talk.answer_figures)
    assert s["pl_cycles_per_token"] is s["wall_fraction"] is None and s["board_tokens_per_s"] == pytest.approx(1000)
    talk.device.identity["pl"] = 1
    assert talk.summary(talk.answer_figures)["board_tokens_per_s"] is None
    line = chat.statistics_line(talk, GREEDY)
    assert line.startswith("2 tokens") and "board" not in line and chat.details_line(talk, GREEDY) == ""


def test_statistics_of_an_answer(image):
    """One line of 80 columns that says what the board's speed is for; the virtual board's is an estimate."""
    talk = conversation(image, cycles=50_000)
    list(talk.answer(talk.encode("Once"), GREEDY, 4))
    figures = talk.answer_figures
    figures.tokens, figures.seconds, figures.board_seconds = 4096, 4096/123.4, 4096/1234
    talk.virtual, talk.device.identity["pl"] = True, 1
    sampled = SamplingSettings(temperature=0.8, seed=7)
    assert chat.statistics_line(talk, GREEDY) == "4096 tokens · 123.4 tok/s here · board: about 1234 tok/s (estimate, greedy)"
    assert chat.statistics_line(talk, sampled).endswith("(estimate, sampling)") and len(chat.statistics_line(talk, sampled)) <= 78
    assert "seed 7" in chat.details_line(talk, sampled) and "seed" not in chat.details_line(talk, GREEDY)
    talk.device.identity["pl"] = 0
    assert chat.statistics_line(talk, sampled).endswith("board: about 1234 tok/s (estimate, CPU alone)")
    assert any("7" in line and "seed" in line for line in chat.statistics(talk, 7))

# Settings -----------------------------------------------------------------------------------------


def test_settings():
    settings = Settings()
    settings.set("top-k", "40")
    settings.set("seed", "7")
    assert settings.set("top-k", "40") == "top_k" and settings.text("top_k") == "40"
    assert settings.draw() == SamplingSettings(temperature=0.8, top_k=40, top_p=0.95, seed=7) == settings.draw()
    settings.set("seed", "auto")
    assert settings.draw().seed != settings.draw().seed
    for name, value, message in (("temperature", "hot", "must be a number"), ("temperature", "-1", "must lie in 0"),
        ("top_k", "1.5", "must be a whole number"), ("tokens", "0", "at least 1"), ("heat", "1", "no setting heat: there are temperature")):
        with pytest.raises(ValueError, match=message):
            settings.set(name, value)
    assert settings.values["top_k"] == 40

# Scripts ------------------------------------------------------------------------------------------


def test_json(run):
    """A JSON object per token, then one with the totals; nothing else on stdout, and the greedy answer is the definition's."""
    status, out, _ = run("--prompt", "Once upon", "--tokens", 8, "--greedy", "--json")
    *tokens, totals = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and len(tokens) == 8 and all(set(line) == {"token", "text", "pl_cycles"} for line in tokens)
    assert {"tokens", "tokens_per_s", "pl_cycles_per_token", "wall_fraction", "board_tokens_per_s"} <= set(totals)
    assert totals["tokens"] == 8 and totals["pl_cycles_per_token"] == 60000 == tokens[0]["pl_cycles"] and totals["end"] == "length"
    assert totals["choice"] == "greedy" and json.loads(run("--prompt", "Once upon", "--tokens", 2, "--json")[1].splitlines()[-1])["choice"] == "sampled"
    again = [json.loads(line)["token"] for line in run("--prompt", "Once upon", "--tokens", 8, "--greedy", "--json")[1].splitlines()[:-1]]
    assert again == [line["token"] for line in tokens]


def test_text_on_stdout_statistics_on_stderr(run):
    status, out, err = run("--prompt", "Once", "--tokens", 3, "--seed", 5)
    assert status == 0 and out.startswith("Once") and out.endswith("\n")
    assert "3 tokens" in err and "60,000 PL cycles a token" in err and "% of the memory wall" in err and "seed 5" in err


def test_seed_repeats_a_story(run):
    first = run("--prompt", "Once", "--tokens", 20, "--seed", 5)[1]
    assert run("--prompt", "Once", "--tokens", 20, "--seed", 5)[1] == first
    assert run("--prompt", "Once", "--tokens", 20, "--seed", 6)[1] != first


def test_piped_lines(run):
    """Without a terminal every line of stdin is a turn; commands work, and an error ends the script."""
    status, out, _ = run("--tokens", 3, "--greedy", stdin="Once\n/stats\n/set\n/help\n/reset\n\n/quit\nnever\n")
    assert status == 0 and "3 of 64" not in out and "5 of 64 positions used" not in out.split("/help")[1]
    assert "temperature         0" in out and "/set NAME VALUE" in out and "(Forgotten.)" in out and out.count("3 tokens") >= 2
    status, out, _ = run(stdin="/set temperature 0.7\n/set top-k 40\n/set seed auto\n")
    assert status == 0 and out.splitlines() == ["temperature = 0.7", "top_k = 40", "seed = a new one for each answer"]
    status, _, err = run(stdin="/sing\n")
    assert status == 1 and err.endswith("chat.py: no command /sing: there are /help, /quit, /reset, /set, /stats\n")
    assert run(stdin="/set temperature\n")[2].endswith("for example /set temperature 0.7\n")

def test_start_says_what_takes_long(run, image, monkeypatch):
    """The gateware is only said to be compiled where it is."""
    compiling = "compiling the gateware (once; about a minute)"
    assert compiling not in run("--prompt", "Once", "--tokens", 1)[2]

    def start(*_, **options):
        verilate._announce(True)
        verilate._announce(False)
        return ExactDevice(image)
    monkeypatch.setattr(chat, "open_device", start)
    stream = io.StringIO()
    chat.connect(chat.arguments().parse_args([]), image, Progress(stream))
    assert stream.getvalue().splitlines() == [compiling, "starting the virtual board"]

# Turns --------------------------------------------------------------------------------------------


def test_end_of_text_starts_a_new_one(run, image):
    """After the model's own end the next line begins anew, at position 0."""
    device = ExactDevice(image, answer=[70, 71, 0])
    status, out, _ = run(stdin="Once\nOnce\n/stats\n", device=device)
    assert status == 0 and out.count("(The end. The next line starts a new text.)") == 2
    assert device.seen[0] == 0 and device.seen.count(0) == 1


def test_full_context(run, image):
    status, out, _ = run("--greedy", stdin="Once\n", device=ExactDevice(image, answer=[70]*100))
    assert status == 0 and "(The context of 64 tokens is full. The next line starts a new text.)" in out
    # A line that fits the context, but not what is left of it, starts a new text.
    status, out, _ = run("--tokens", 30, stdin=f"{'dog '*8}\n{'cat '*12}\n", device=ExactDevice(image, answer=[70]*100))
    assert status == 0 and out.count("cannot hold that, too: a new text.") == 1


def test_ctrl_c_stops_the_answer_not_the_program(run, image):
    """SIGINT while tokens come: the answer ends, the next line is served."""
    class Interrupted(ExactDevice):
        def generate(self, *arguments):
            for count, event in enumerate(super().generate(*arguments)):
                if event.kind == "token" and self.interrupts and count == 6:
                    self.interrupts -= 1
                    os.kill(os.getpid(), signal.SIGINT)
                yield event
    device = Interrupted(image, answer=[70]*100)
    device.interrupts = 1
    status, out, _ = run("--tokens", 20, stdin="Once\n\n", device=device)
    lines = [line for line in out.splitlines() if line.startswith("[") and "tok/s here" in line]
    assert status == 0 and int(lines[0][1:].split()[0]) < 10 and lines[1].startswith("[20 tokens")
    device.interrupts = 1
    status, _, err = run("--tokens", 20, "--prompt", "Once", device=device)
    assert status == console.INTERRUPTED and "Traceback" not in err


def test_words_wrap_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True
    stream = Terminal()
    words  = terminal.Words(stream)
    for piece in ("Once up", "on a", " time ", "there\nwas ", "x"*100, " end"):
        words.write(piece)
    words.end()
    assert stream.getvalue() == f"Once upon a time there\nwas\n{'x'*100}\nend\n"

def test_any_terminal(monkeypatch):
    """A terminal of any width, and one that knows no sequences."""
    class Terminal(io.StringIO):
        def isatty(self):
            return True
    for columns in ("1", "2", "3", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        assert "".join(terminal.wrap(chat.HELP, Terminal()).split()) == "".join(chat.HELP.split())
        words = terminal.Words(Terminal())
        words.write("Once upon a time")
        words.end()
        assert words.stream.getvalue().split() == "Once upon a time".split()
    for name, shown in (("xterm", "\x1b[2mx\x1b[0m"), ("dumb", "x")):
        monkeypatch.setenv("TERM", name)
        stream = Terminal()
        Progress(stream).show("packing")
        assert terminal.dim("x", stream) == shown and ("\x1b" in stream.getvalue()) == (name == "xterm")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.dim("x", Terminal()) == "x"


@pytest.mark.parametrize("line, text, shown", [("Once upon a ti", "me", "ti"), ("Once upon a ti", " me", ""), ("Once upon a time ", "there", ""), ("a.", "b", ""),
    ("", "x", ""), ("x", "", "")])
def test_a_word_that_goes_on_is_whole(line, text, shown):
    assert chat.beginning(None, line, text) == shown


@pytest.mark.parametrize("template, line", [("{% broken", "the chat template "), ("{{ messages[5].content.x }}", "the chat template cannot make a prompt")])
def test_templates_are_tried_before_a_board_is_started(run, image, tmp_path, monkeypatch, template, line):
    write_image(dataclasses.replace(read_image(image), metadata=json.dumps({"chat_template": template}).encode()), tmp_path/"m.tern")
    monkeypatch.setattr(chat, "connect", lambda *_: pytest.fail("started"))
    status, out, err = run("--model", tmp_path/"m.tern", "--prompt", "x")
    assert (status, out) == (1, "") and line in err.splitlines()[-1]

# Text of others -----------------------------------------------------------------------------------

OWNED = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"  # Sets a terminal's title, clears it, turns the direction of writing, makes text red.


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """An image whose name, special token and every other token are control sequences, as any byte-level vocabulary can hold them."""
    folder = write_checkpoint(tmp_path_factory.mktemp("hostile")/"tiny")
    spell  = lambda text: ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]
    data   = json.loads((folder/"tokenizer.json").read_text())
    data["model"]["merges"] = []
    data["model"]["vocab"]  = {piece if index < 10 else spell(f"{OWNED}{index}"): index
        for piece, index in data["model"]["vocab"].items()}
    data["added_tokens"][0]["content"] += OWNED
    (folder/"tokenizer.json").write_text(json.dumps(data))
    pack(folder, folder/"tiny.tern")
    content = bytearray((folder/"tiny.tern").read_bytes())
    header  = np.frombuffer(content, IMAGE_HEADER.dtype, 1)
    header["name"], header["header_crc"] = f"nice\n{OWNED}".encode(), 0
    end = IMAGE_HEADER.size + int(header["layers"][0])*LAYER_RECORD.size
    header["header_crc"] = zlib.crc32(content[:end])
    (folder/"tiny.tern").write_bytes(content)
    return folder/"tiny.tern"


def test_control_characters_are_shown(run, hostile, monkeypatch):
    """What a checkpoint's author wrote reaches a terminal as text: tokens, names, and tokens in errors."""
    printed = r"\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    assert printable(OWNED) == printed and printable("a\tb\n") == "a\tb\n"
    device = ExactDevice(hostile, answer=[70, 71, 72, 73])
    status, out, err = run("--model", hostile, "--prompt", "!", "--tokens", 4, device=device)
    assert status == 0 and out.startswith(f"!{printed}70{printed}71") and CONTROLS.sub("", out + err) == (out + err).replace("\n", "")
    assert read_image(hostile).name == rf"nice\n{printed}"
    lines      = run("--model", hostile, "--prompt", "!", "--tokens", 4, "--json", device=device)[1].splitlines()
    *tokens, _ = [json.loads(line) for line in lines]
    assert [token["text"] for token in tokens] == [f"{OWNED}{index}" for index in range(70, 74)]
    assert not CONTROLS.search(chat.json_line(tokens[0]))
    status, out, err = run("--model", hostile, "--prompt", f"<|endoftext|>{OWNED}")
    assert (status, out) == (1, "") and printed in err and CONTROLS.sub("", err) == err.strip()


def test_control_characters_of_a_board():
    """Identity and errors of a device that is not ours."""
    identity = np.zeros((), messages.IDENTITY.dtype)
    identity["firmware"] = b"0.1\x1b[2J\n"
    assert device._members(messages.VALUES["IDENTITY"], identity.tobytes())[0]["firmware"] == r"0.1\x1b[2J\n"
    assert console.one_line(ValueError(f"no tensor {OWNED}")) == rf"no tensor {printable(OWNED)}"

# Errors -------------------------------------------------------------------------------------------


def test_wrong_images(image, tmp_path):
    """Each in a line of its own, before any board is started."""
    data  = bytearray(image.read_bytes())
    cases = {
        "damaged.tern"   : (data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],                              "damaged"),
        "header.tern"    : (data[:24] + bytes([data[24] ^ 1]) + data[25:],                              "damaged header"),
        "short.tern"     : (data[:len(data)//2],                                                        "truncated or damaged"),
        "version.tern"   : (data[:4] + (99).to_bytes(4, "little") + data[8:],                           "image version 99, this program reads version"),
        "text.tern"      : (b"Once upon a time"*40,                                                     "not a LiteTern image"),
        "empty.tern"     : (b"",                                                                        "too few for an image"),
    }
    assert IMAGE_HEADER.dtype.fields["version"][1] == 4
    for name, (content, message) in cases.items():
        (tmp_path/name).write_bytes(content)
        line = one_line(command("--model", tmp_path/name, "--prompt", "Once"))
        assert line.startswith("chat.py: ") and message in line and name in line
    assert "no such image or checkpoint" in one_line(command("--model", tmp_path/"none.tern", "--prompt", "Once"))


def test_unknown_boards(image):
    for board, message in (("moon", "board 'moon': must be virtual, serial:"), ("serial:", "must be"), ("virtual:2", "must be virtual"), ("virtual:", "must be virtual"),
        ("udp:192.168.2.99", "boards on Ethernet come later")):
        assert message in one_line(command("--model", image, "--board", board, "--prompt", "Once"))


def test_prompts_that_cannot_be(image):
    for prompt, message in (("dog "*200, "tokens long: the context holds 64"), ("a<|endoftext|>b", "which only the model itself may say")):
        assert message in one_line(command("--model", image, "--prompt", prompt))


def test_bytes_that_are_no_text(run, image):
    """What does not decode as UTF-8 arrives as lone surrogates, from the command line and from stdin."""
    assert "the text is not UTF-8 (at its character 5)" in one_line(command("--model", image, "--prompt", "bad \udcff"))
    status, _, err = run("--tokens", 3, stdin="Once\n\udcfe\n")
    assert status == 1 and err.endswith("chat.py: the text is not UTF-8 (at its character 1)\n")


def test_longest_answer_is_the_context(run, image):
    status, out, _ = run("--prompt", "Once", "--greedy", "--tokens", 10**30, "--json", device=ExactDevice(image, answer=[70]*100))
    assert status == 0 and json.loads(out.splitlines()[-1])["end"] == "context"


def test_values_that_no_message_holds():
    values = dict.fromkeys(messages.GENERATE.dtype.names, 0)
    for name, value in (("max_tokens", 2**32), ("top_k", -1), ("count", 10**30), ("temperature", "hot")):
        with pytest.raises(ValueError, match=f"{name} = .*{value}.*: does not fit a "):
            device._message(messages.GENERATE, *(values | {name: value}).values())


def test_closed_streams(run, monkeypatch):
    """Who starts the chat may have closed stdin (no line comes), stdout or stderr."""
    assert run(stdin=None)[0] == 0
    for name in ("stdout", "stderr"):
        with monkeypatch.context() as closed:
            closed.setattr(sys, name, None)
            assert run("--prompt", "Once", "--tokens", 2, "--greedy")[0] == 0


def test_terminals_that_lack_characters(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), "utf-8"))
    console.streams()
    print("caf\u00e9")
    assert written.getvalue() == b"caf?\n" and sys.stdin.read() == "\udcff"


def test_missing_package(run, monkeypatch):
    """A Python that has what the chat needs, but not what the virtual board does."""
    def without(*_):
        raise ModuleNotFoundError("No module named 'unicorn'")
    monkeypatch.setattr(chat, "Vocabulary", without)
    assert one_line(run("--prompt", "Once")) == "chat.py: No module named 'unicorn': run `make setup`"


def test_wrong_arguments(image):
    for arguments, message in ((("--temperature", "hot"), "must be a number"), (("--top-p", "2"), "must lie in 0"),
        (("--json",), "--json needs --prompt"), (("--tokens", "0"), "at least 1")):
        assert message in one_line(command("--model", image, *arguments))
    assert command("--pl", "asic")[0] == 2
