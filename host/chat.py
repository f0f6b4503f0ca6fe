#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Talk to a ternary model on a board.

    python host/chat.py --board virtual
    python host/chat.py --board virtual --prompt "Once upon a time" --tokens 24 --greedy --json
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "safetensors", "serial", "tokenizers")

import argparse
import dataclasses
import json
import secrets
import sys

from litetern.host import terminal
from litetern.host.conversation import Conversation, Dialogue, Vocabulary, check_length, typed
from litetern.host.link.device import open_device
from litetern.host.link.transport import BOARDS
from litetern.host.pack import packed
from litetern.model.common import console
from litetern.model.common.printable import CONTROL, printable
from litetern.model.common.progress import Progress
from litetern.model.formats.image import read_image
from litetern.model.numerics.sampling import SamplingSettings
from litetern.model.paths import ROOT

DEFAULT_MODEL = ROOT/"model"/"zoo"/"stories"
SEEDS         = 10**6  # Seeds that we draw are short enough to be typed again.

# Settings -----------------------------------------------------------------------------------------


class Settings:
    """What `/set` changes: the sampler's settings and the length of an answer. A seed of None draws a new one per answer."""
    DEFAULTS = {"temperature": 0.8, "top_k": 0, "top_p": 0.95, "repetition_penalty": 1.0, "seed": None, "tokens": None}

    def __init__(self, **values):
        self.values = dict(self.DEFAULTS)
        for name, value in values.items():
            self.set(name, value)

    def set(self, name, value):
        """Checks and keeps a value, which may be text; returns the setting's name as it is listed. Raises ValueError."""
        name = name.replace("-", "_")
        if name not in self.values:
            raise ValueError(f"no setting {name}: there are {', '.join(self.values)}")
        kind = float if isinstance(self.DEFAULTS[name], float) else int
        try:
            value = None if self.DEFAULTS[name] is None and value in (None, "none", "auto") else kind(value)
        except ValueError:
            raise ValueError(f"{name} = {value}: must be a {'number' if kind is float else 'whole number'}") from None
        if name == "tokens" and value is not None and value < 1:
            raise ValueError(f"tokens = {value}: must be at least 1")
        values = {**self.values, name: value}
        self._sampling(values)
        self.values = values
        return name

    @staticmethod
    def _sampling(values):
        return SamplingSettings(**{key: value for key, value in values.items() if key != "tokens"} | {"seed": values["seed"] or 0})

    def draw(self):
        """SamplingSettings of the next answer."""
        settings = self._sampling(self.values)
        return settings if self.values["seed"] is not None else dataclasses.replace(settings, seed=secrets.randbelow(SEEDS))

    def text(self, name):
        """A value for people."""
        value = self.values[name]
        return str(value) if value is not None else "a new one for each answer" if name == "seed" else "as many as fit"

    def lines(self):
        return [f"  {name:20}{self.text(name)}" for name in self.values]

# Figures ------------------------------------------------------------------------------------------


def board_speed(conversation, summary, *remarks):
    """The board's own speed; the virtual board's clock is an estimate where the CPU works."""
    remarks = ["estimate"]*conversation.virtual + ["CPU alone"]*(not conversation.device.identity["pl"]) + list(remarks)
    return f"{'about '*conversation.virtual}{summary['board_tokens_per_s']:.0f} tok/s" + (f" ({', '.join(remarks)})" if remarks else "")


def describe(device, virtual):
    """What computes, for people."""
    identity = device.identity
    cores    = f"gateware {identity['pl_ports']} × 64 bit, {identity['pl_clock_hz']/1e6:.0f} MHz" if identity["pl"] else "its own C cores"
    return f"the {'virtual ' if virtual else ''}PYNQ-Z1, firmware {identity['firmware']}, {cores}"


def statistics_line(conversation, settings):
    """What an answer took, for people, in less than 80 columns. Sampling is work of the CPU: the speed says which it is for."""
    s     = conversation.summary(conversation.answer_figures)
    parts = [f"{s['tokens']} tokens"]
    if s["tokens_per_s"]:
        parts.append(f"{s['tokens_per_s']:.1f} tok/s here")
    if s["board_tokens_per_s"]:
        mode = ["sampling" if settings.temperature else "greedy"] if conversation.device.identity["pl"] else []
        parts.append(f"board: {board_speed(conversation, s, *mode)}")
    return " · ".join(parts)


def details_line(conversation, settings):
    """What else there is to know of an answer, or ""."""
    s     = conversation.summary(conversation.answer_figures)
    parts = []
    if s["pl_cycles_per_token"]:
        parts.append(f"{s['pl_cycles_per_token']:,.0f} PL cycles a token, {100*s['wall_fraction']:.0f} % of the memory wall")
    if settings.temperature:
        parts.append(f"seed {settings.seed}")
    return " · ".join(parts)


def figures(conversation, settings):
    """Both lines, as they stand below an answer."""
    return "\n".join(f"[{line}]" for line in (statistics_line(conversation, settings), details_line(conversation, settings)) if line)


def statistics(conversation, seed=None):
    """Lines of `/stats`; `seed` is that of the last answer, None where nothing was drawn."""
    total = conversation.total
    s     = conversation.summary(total)
    lines = [f"  {'board':24}{describe(conversation.device, conversation.virtual)}",
             f"  {'context':24}{conversation.position} of {conversation.device.context} positions used",
             f"  {'answers':24}{total.tokens} tokens in {total.seconds:.1f} s"]
    if s["pl_cycles_per_token"]:
        lines.append(f"  {'PL cycles a token':24}{s['pl_cycles_per_token']:,.0f}, {100*s['wall_fraction']:.1f} % of the memory wall")
        for part, cycles in total.pl_cycles.items():
            lines.append(f"    {part:22}{cycles/total.tokens:,.0f}")
    if s["board_tokens_per_s"]:
        lines.append(f"  {'speed of the board':24}{board_speed(conversation, s)}")
        if conversation.device.identity["pl"]:
            lines.append(f"  {'':24}sampling costs CPU time that greedy (temperature 0) does not")
    if seed is not None:
        lines.append(f"  {'seed, last answer':24}{seed}")
    return lines

# Scripted -----------------------------------------------------------------------------------------


def json_line(values):
    """JSON whose text is itself, but for control characters that JSON leaves as they are."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(values, ensure_ascii=False))


def run_prompt(conversation, prompt, settings, as_json):
    """One answer to stdout: text, or a JSON object per token and one with the totals. Returns the exit status."""
    words  = terminal.Words(sys.stdout)
    tokens = conversation.encode(prompt)
    note_unknown(conversation, prompt)
    if not as_json and not isinstance(conversation, Dialogue):
        words.write(typed(prompt))
    drawn = settings.draw()
    try:
        with terminal.Interrupt() as interrupt:
            for event, text in conversation.answer(tokens, drawn, settings.values["tokens"], lambda: interrupt.requested):
                if not as_json:
                    words.write(text)
                elif event.kind == "token":
                    cycles = sum(event.pl_cycles.values()) if event.pl_cycles else None
                    print(json_line({"token": event.token, "text": text, "pl_cycles": cycles}), flush=True)
    finally:  # Errors, too, have a line of their own.
        words.end()
    if as_json:
        print(json.dumps({**conversation.summary(conversation.answer_figures), "end": conversation.ended,
            "choice": "sampled" if drawn.temperature else "greedy", "seed": drawn.seed if drawn.temperature else None}))
    else:
        print(terminal.dim(figures(conversation, drawn), sys.stderr), file=sys.stderr)
    return console.INTERRUPTED if interrupt.requested else 0


def note_unknown(conversation, text):
    unknown = conversation.vocabulary.unknown(text)
    if unknown:
        print(f"(the model's vocabulary lacks {printable(' '.join(unknown), '')}: left out)", file=sys.stderr)

# Interactive --------------------------------------------------------------------------------------


HELP = """  /help              these lines
  /reset             forgets what was said and starts anew
  /stats             what the answers took
  /set               shows the settings
  /set NAME VALUE    changes one: /set temperature 0.7, /set seed 42 (after /reset, the same start: the same story)
  /quit              ends (Ctrl-D, too)
  {usage} Ctrl-C stops an answer."""

CONTINUES = "The model continues text: type a beginning; Enter alone goes on."
ANSWERS   = "The model answers."

COMMANDS = ("/help", "/quit", "/reset", "/set", "/stats")


def beginning(conversation, line, text):
    """The last word of a typed line, where the text of an answer goes on within it: it is shown again, so that the word is whole."""
    inside = line[-1:].isalnum() and text[:1].isalnum() and not isinstance(conversation, Dialogue)
    return line.split()[-1] if inside else ""


class Chat:
    """The interactive loop."""
    def __init__(self, conversation, settings):
        self.conversation, self.settings = conversation, settings
        self.seed        = None  # Of the last answer.
        self.interactive = sys.stdin.isatty()
        self.usage       = ANSWERS if isinstance(conversation, Dialogue) else CONTINUES

    def note(self, text):
        print(terminal.dim(terminal.wrap(text, sys.stdout), sys.stdout), flush=True)

    def loop(self):
        with terminal.history(COMMANDS):
            while True:
                try:
                    line = input("\n> " if self.interactive else "")
                except EOFError:
                    if self.interactive:
                        print()
                    return
                except KeyboardInterrupt:
                    print()
                    self.note("(Ctrl-D or /quit ends.)")
                    continue
                try:
                    if line.strip().startswith("/"):
                        if not self.command(*line.split()):
                            return
                    else:
                        self.answer(line)
                except ValueError as error:
                    # A script that pipes lines in wants to know; a person types another line.
                    if not self.interactive:
                        raise
                    self.note(f"({console.one_line(error)})")

    def command(self, name, *values):
        """Runs a command; False ends the chat."""
        if name in ("/quit", "/exit", "/q"):
            return False
        if name == "/help":
            self.note(HELP.format(usage=self.usage))
        elif name == "/reset":
            self.conversation.reset()
            self.note("(Forgotten.)")
        elif name == "/stats":
            self.note("\n".join(statistics(self.conversation, self.seed)))
        elif name == "/set" and not values:
            self.note("\n".join(self.settings.lines()))
        elif name == "/set" and len(values) == 2:
            name = self.settings.set(*values)
            self.note(f"{name} = {self.settings.text(name)}")
        elif name == "/set":
            raise ValueError("/set takes a name and a value, for example /set temperature 0.7")
        else:
            raise ValueError(f"no command {name}: there are {', '.join(COMMANDS)}")
        return True

    def answer(self, line):
        """Continues the text with `line` and streams what the model adds."""
        conversation = self.conversation
        settings, words, progress = self.settings.draw(), terminal.Words(sys.stdout), Progress()
        self.seed = settings.seed if settings.temperature else None
        try:
            with terminal.Interrupt() as interrupt:
                tokens = self.tokens(line)
                for event, text in conversation.answer(tokens, settings, self.settings.values["tokens"], lambda: interrupt.requested):
                    if event.kind == "prompt" and progress.live:
                        progress.show("reading", event.prompt_done, event.prompt_tokens)
                    elif text:
                        progress.end()
                        if begun := beginning(conversation, line, text):
                            words.write(begun)
                        line = ""
                        words.write(text)
        finally:  # Errors, too, have a line of their own.
            progress.end()
            words.end()
        self.note(figures(conversation, settings))
        if conversation.over and conversation.ended == "eos":
            self.note("(The end. The next line starts a new text.)")
        elif conversation.over:
            self.note(f"(The context of {conversation.device.context} tokens is full. The next line starts a new text.)")

    def tokens(self, line):
        """What `line` adds to the text; starts a new one where the last has ended or has no room for it."""
        conversation = self.conversation
        if conversation.over:
            conversation.reset()
        tokens = conversation.encode(line)
        if conversation.started and len(tokens) >= conversation.room:
            self.note(f"(The context of {conversation.device.context} tokens cannot hold that, too: a new text.)")
            conversation.reset()
            tokens = conversation.encode(line)
        note_unknown(conversation, line)
        return tokens

# Command line -------------------------------------------------------------------------------------


def arguments():
    p = argparse.ArgumentParser(description="Talk to a ternary model on a board.")
    add = p.add_argument
    add("--board", default="virtual",                 help=f"Where the model runs: {BOARDS}.")
    add("--pl",    default="rtl", choices=("rtl", "c", "none"), help="Virtual board: the gateware (rtl, the default), its C model with the same "
                                                                    "bits (c, fast), or an empty PL, so that the firmware's own C cores run.")
    add("--model", default=str(DEFAULT_MODEL),        help="Image, or checkpoint (path, or name on the hub) that is packed first. Default: the story model.")
    add("--prompt",                                   help="Answer this and end.")
    add("--system", default="",                       help="Instruction before all turns, for models that answer.")
    add("--json",  action="store_true",               help="With --prompt: one JSON object a token and one with the totals.")
    add("--tokens", type=int,                         help="Longest answer. Default: as many as the context holds.")
    add("--greedy", action="store_true",              help="Always the most likely token (temperature 0).")
    for name, text in (("temperature", "0 is greedy"), ("top_k", "0 looks at the best 256"), ("top_p", "1 looks at all"),
        ("repetition_penalty", "1 is none"), ("seed", "the same seed, the same story")):
        default = Settings.DEFAULTS[name]
        add(f"--{name.replace('_', '-')}", default=default, help=f"Sampling; {text}."
            + (f" Default: {default}." if default is not None else " Default: a new one for each answer."))
    return p


def chat_template(vocabulary, model, system):
    """The model's ChatTemplate, tried; None: it only continues text. ValueError for one that makes no prompt, for a `system` instruction that
    the model does not know: before a board is started for it."""
    text = json.loads(model.metadata).get("chat_template")
    if not text:
        if system:
            raise ValueError(f"--system: {model.name} only continues text")
        return None
    from litetern.host.templates import ChatTemplate  # Jinja is needed for no other model.
    template = ChatTemplate(text, vocabulary.tokenizer, model.bos, model.eos, add_bos=False)
    template.render([{"role": "user", "content": "x"}])
    return template


def converse(device, vocabulary, model, template, system, virtual):
    """The Dialogue or Conversation that fits the model."""
    if template:
        return Dialogue(device, vocabulary, None, template, system, virtual)  # The template alone says what begins a prompt.
    return Conversation(device, vocabulary, model.bos if model.add_bos else None, virtual)


def connect(args, image, progress):
    """The device at `--board`; the virtual one holds the image."""
    checking = lambda done, total: progress.show("the board checks the model", done, total)
    if args.board != "virtual":
        with progress.waiting(f"connecting to {args.board}"):
            return open_device(args.board, args.pl, None, checking=checking)
    starting  = "starting the virtual board"
    compiling = "compiling the gateware (once; about a minute)"
    with progress.waiting(starting):
        from litetern.soc.tools.verilate import announced  # Migen is needed for no other board.
        with announced(lambda compiles: progress.show(compiling if compiles else starting)):
            return open_device(args.board, args.pl, image, checking=checking)


def main():
    args     = arguments().parse_args()
    settings = Settings(**{name: getattr(args, name) for name in Settings.DEFAULTS})
    if args.greedy:
        settings.set("temperature", 0)
    if args.json and args.prompt is None:
        raise ValueError("--json needs --prompt")
    if args.board.startswith("udp:"):
        raise ValueError(f"board {args.board!r}: boards on Ethernet come later; there are {BOARDS}")
    progress = Progress()
    try:
        image      = packed(args.model, progress)
        model      = read_image(image)
        vocabulary = Vocabulary(model.tokenizer, image)
        template   = chat_template(vocabulary, model, args.system)
        if args.prompt is not None:  # Refused before a board is started for it.
            check_length([*model.before, *vocabulary.encode(args.prompt)], model.config.context)
        virtual = args.board == "virtual"
        with connect(args, image, progress) as device:
            device.upload(image, lambda done, total: progress.show("loading the model", done, total))
            progress.end()
            conversation = converse(device, vocabulary, model, template, args.system, virtual)
            if args.prompt is not None:
                return run_prompt(conversation, args.prompt, settings, args.json)
            chat = Chat(conversation, settings)
            if chat.interactive:
                print(terminal.wrap(f"{model.name} on {describe(device, virtual)}; context {device.context} tokens", sys.stdout))
                chat.note(f"{chat.usage} Ctrl-C stops an answer, /help lists the commands.")
            chat.loop()
    finally:
        progress.end()
    return 0


if __name__ == "__main__":
    console.run(main)
