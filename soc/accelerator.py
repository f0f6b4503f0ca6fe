#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The accelerator: lanes of reader → core → writer, one per memory port, and their registers. No board knowledge."""

import argparse

from dataclasses import dataclass, field, fields

from migen import *

from litex.gen import *

from litex.soc.interconnect import axi, stream
from litex.soc.interconnect.csr import CSRField, CSRStatus, CSRStorage
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourcePulse

from litetern.cores import probe
from litetern.cores.attention import core as attention
from litetern.cores.attention.core import Attention
from litetern.cores.dma import reader, writer
from litetern.cores.dma.ranges import BLOCK_BYTES, range_layout
from litetern.cores.dma.reader import DMAReader
from litetern.cores.dma.writer import DMAWriter
from litetern.cores.matmul import core as matmul
from litetern.cores.matmul.core import Matmul
from litetern.cores.probe import Probe
from litetern.model.formats.engine import CORE
from litetern.model.formats.stream import FORMAT_INT8, FORMAT_TERNARY, HEAD_DIM_MAX, ROW_WEIGHTS_MAX, TOPK_MAX, BEAT_BYTES
from litetern.model.numerics.circuits import ATTENTION, AttentionParameters
from litetern.soc.boards import Board

# Constants ----------------------------------------------------------------------------------------

IDENTITY      = 0x4C54524E            # "LTRN".
VERSION       = (3, 0)                # Registers and streams: (incompatible, compatible) changes.
CORES         = CORE.names
READS         = ("read0", "read1")    # Ranges of memory that lanes may read …
WRITES        = ("write0", "write1")  # … and write.
FORMATS       = {"ternary": FORMAT_TERNARY, "int8": FORMAT_INT8}
SETTLE_CYCLES = 3                     # Quiet cycles in a row that end a list: a beat between two blocks is seen by neither for one.

# Configuration ------------------------------------------------------------------------------------


def _option(default, text):
    return field(default=default, metadata={"text": text})


@dataclass(frozen=True)
class AcceleratorConfig:
    """What is built. Each field says what it is; `accelerator_args` makes command-line options of them."""
    ports           : int   = _option(2,                    "Lanes, each with its own 64-bit memory port (1 to 4).")
    vectors_max     : int   = _option(1,                    "Vectors that share one pass over ternary weights (1, 2, 4 or 8).")
    formats         : tuple = _option(("ternary", "int8"),  "Weight formats of the matmul core (ternary, int8).")
    row_weights_max : int   = _option(ROW_WEIGHTS_MAX,      "Longest row in weights.")
    topk_max        : int   = _option(0,                    "Longest shortlist (images with a hybrid head need 256; 0: no top-K).")
    head_dim_max    : int   = _option(HEAD_DIM_MAX,         "Largest head dimension, a multiple of 8 up to 128.")
    queries_max     : int   = _option(1,                    "Query vectors that share a pass over keys and values.")
    rows_max        : int   = _option(Board.rows_max,       "Longest context (512, 1024, 2048 or 4096).")
    attention       : AttentionParameters = _option(ATTENTION, "Resolution of the softmax: score bits, steps per nat, exp bits, mantissa bits; none: no attention core.")
    clock_hz        : float = _option(125e6,                "System clock.")
    timeout         : int   = _option(2**16,                "Cycles after which a silent memory is given up.")

    def __post_init__(self):
        def check(name, ok, rule):
            if not ok:
                raise ValueError(f"accelerator {name} = {getattr(self, name)!r}: must be {rule}")
        check("ports",           self.ports in (1, 2, 3, 4),                                  "1 to 4")
        check("vectors_max",     self.vectors_max in (1, 2, 4, 8),                            "1, 2, 4 or 8")
        check("formats",         self.formats and set(self.formats) <= set(FORMATS),          f"some of {', '.join(FORMATS)}")
        check("row_weights_max", 40 <= self.row_weights_max <= ROW_WEIGHTS_MAX,               f"40 to {ROW_WEIGHTS_MAX}")
        check("topk_max",        0 <= self.topk_max <= TOPK_MAX,                              f"0 to {TOPK_MAX}")
        check("head_dim_max",    8 <= self.head_dim_max <= HEAD_DIM_MAX and self.head_dim_max % 8 == 0,
                                                                                              f"a multiple of 8 up to {HEAD_DIM_MAX}")
        check("queries_max",     1 <= self.queries_max <= 31,                                 "1 to 31")
        check("rows_max",        self.rows_max in (512, 1024, 2048, 4096),                    "512, 1024, 2048 or 4096")
        check("clock_hz",        1e6 <= self.clock_hz <= 250e6,                               "1e6 to 250e6")
        check("timeout",         16 <= self.timeout <= 2**24,                                 f"16 to {2**24}")

# Arguments ----------------------------------------------------------------------------------------


def _formats(text):
    return tuple(text.split(","))


def _attention(text):
    if text == "none":
        return None
    try:
        return AttentionParameters(*(int(part) for part in text.split(",")))
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be none or score bits, steps per nat, exp bits, mantissa bits ({error})") from None


_TYPES  = {"formats": _formats, "attention": _attention}
OPTIONS = tuple(field for field in fields(AcceleratorConfig) if field.name not in ("clock_hz", "timeout"))  # The clock is the target's.


def accelerator_args(parser, **defaults):
    """Adds an option for each field of AcceleratorConfig but the clock: `--row-weights-max` and so on. defaults: of a target, by field;
    None: the target finds the value."""
    group = parser.add_argument_group("accelerator options")
    for option in OPTIONS:
        group.add_argument(f"--{option.name.replace('_', '-')}", type=_TYPES.get(option.name, option.type), default=defaults.get(option.name, option.default),
            metavar=option.name.split("_")[-1].upper(), help=option.metadata["text"])


def accelerator_argdict(args):
    """{field: value} of the parsed options that have one."""
    return {option.name: getattr(args, option.name) for option in OPTIONS if getattr(args, option.name) is not None}

# Lane ---------------------------------------------------------------------------------------------


class Lane(LiteXModule):
    """One memory port: descriptor list → reader → core → writer → destination, from one doorbell.

    Parameters
    ----------
    port   : AXIInterface (axi3, 64-bit).
    cores  : {name: (module, errors)} in the order of `CORES`; a module has `sink`, `source`, `idle`, `error`, and errors names its bits.
    reads  : Records of `range_layout()`: what may be read.
    writes : likewise, written.
    """
    def __init__(self, port, cores, reads, writes, timeout=2**16):
        self.idle = Signal()  # Nothing runs and nothing is on its way.

        # Registers --------------------------------------------------------------------------------

        self._control = CSRStorage(description="Doorbell. Ignored while the lane is busy, but for abort.", fields=[
            CSRField("start", size=1, offset=0, pulse=True, description="Run the list at list_address."),
            CSRField("abort", size=1, offset=1, pulse=True, description="Stop the list; the lane is free when busy falls."),
            CSRField("core",  size=2, offset=4, description="Core that eats the stream.", values=[
                (f"``{CORES.index(name)}``", name) for name in cores]),
        ])
        self._list_address      = CSRStorage(32, description="Byte address of the descriptor list, a multiple of 8.")
        self._destination       = CSRStorage(32, description="Byte address of the results, a multiple of 8.")
        self._destination_limit = CSRStorage(32, description="Room at the destination in bytes, a multiple of 8.")
        flags = [
            ("reader", reader.ERRORS),
            ("writer", writer.ERRORS),
            *((name, errors) for name, (_, errors) in cores.items()),
        ]
        errors = [(f"{part}_{name}", text) for part, names in flags for name, text in _described(names)]
        if len(errors) > 24:
            raise ValueError(f"{len(errors)} error bits ({', '.join(name for name, _ in errors)}): the status register has room for 24")
        self._status = CSRStatus(description="State of the lane. Error bits are cleared by the doorbell.", fields=[
            CSRField("busy",     size=1, offset=0, description="A list runs."),
            CSRField("done",     size=1, offset=1, description="The last list has ended and its results are acknowledged, or an error bit "
                                                               "tells why not."),
            CSRField("draining", size=1, offset=2, description="Bursts of an aborted list are still on their way; the next doorbell waits "
                                                               "for them."),
            CSRField("error",    size=1, offset=3, description="Some error bit is set."),
            CSRField("aborted",  size=1, offset=4, description="The list was stopped by abort."),
            *(CSRField(name, size=1, offset=8 + i, description=text) for i, (name, text) in enumerate(errors)),
        ])
        self._results = CSRStatus(32, description="Bytes of results that the memory has acknowledged, readable while the list runs.")
        self._beats   = CSRStatus(32, description="Beats that the core has accepted.")
        self._cycles  = CSRStatus(32, description="Clock cycles from the doorbell to the last acknowledged write.")
        self._stalls  = CSRStatus(32, description="Clock cycles in which a beat waited for the core.")

        # Interrupt --------------------------------------------------------------------------------

        self.ev            = EventManager()
        self.ev.done       = EventSourcePulse(description="The list has ended, well or not.")
        self.ev.descriptor = EventSourcePulse(description="A descriptor with its irq flag has been read.")
        self.ev.finalize()

        # # #

        control, status = self._control.fields, self._status.fields

        # Path -------------------------------------------------------------------------------------

        self.reader = DMAReader(port, reads,  timeout=timeout, line_beats=Board.cache_line//BEAT_BYTES)
        self.writer = DMAWriter(port, writes, timeout=timeout)
        select      = Signal(2)
        flush       = Signal(reset=1)  # Nothing runs: cores in reset, what still comes is dropped.
        idle        = Signal()
        cases       = {}
        failures    = []
        for name, (core, core_errors) in cores.items():
            self.add_module(name, ResetInserter()(core))
            cases[CORES.index(name)] = [
                self.reader.source.connect(core.sink),
                core.source.connect(self.writer.sink),
                idle.eq(core.idle),
            ]
            self.comb += core.reset.eq(flush)
            if core_errors:
                failures.append(core.error[:len(core_errors)])
        cases["default"] = [self.reader.source.ready.eq(1), idle.eq(1)]
        self.comb += Case(select, cases)

        # Events, a register away from where they happen -------------------------------------------

        pulses  = Signal(len(errors))
        fatal   = Signal()
        silent  = Signal()
        drained = Signal()
        quiet   = Signal()
        self.sync += [
            pulses.eq(Cat(self.reader.error, self.writer.error, *failures)),
            drained.eq(self.reader.drained & self.writer.drained),
            quiet.eq(~self.reader.busy & idle & self.writer.idle),
        ]
        names = [name for name, _ in errors]
        self.comb += [
            fatal.eq(pulses[:len(reader.ERRORS) + len(writer.ERRORS)] != 0),
            silent.eq(pulses[names.index("reader_timeout")] | pulses[names.index("writer_timeout")]),
        ]

        # Sequence ---------------------------------------------------------------------------------

        doorbell, finish = Signal(), Signal()
        enter  = Signal()
        begin  = Signal()
        settle = Signal(max=SETTLE_CYCLES + 1)
        self.fsm = fsm = FSM(reset_state="IDLE")
        fsm.act("IDLE",
            If(control.start,
                doorbell.eq(1),
                NextState("DRAIN"),
            ),
        )
        # What an earlier list has left on its way arrives first.
        fsm.act("DRAIN",
            If(silent | control.abort,
                finish.eq(1),
                NextState("IDLE"),
            ).Elif(drained,
                enter.eq(1),
                NextValue(begin, 1),
                NextValue(flush, 0),
                NextState("RUN"),
            ),
        )
        fsm.act("RUN",
            NextValue(begin, 0),
            If(fatal | control.abort,
                NextValue(flush, 1),
                NextState("STOP"),
            ).Elif(settle == SETTLE_CYCLES,
                finish.eq(1),
                NextValue(flush, 1),
                NextState("IDLE"),
            ),
        )
        # The last burst may just have been asked for: `drained` tells it two cycles later.
        fsm.act("STOP",
            NextState("STOPPED"),
        )
        fsm.act("STOPPED",
            NextState("FLUSH"),
        )
        fsm.act("FLUSH",
            If(drained | silent,
                finish.eq(1),
                NextState("IDLE"),
            ),
        )
        self.comb += [
            self.reader.load.eq(fsm.ongoing("IDLE")),  # Registers that are written before the doorbell have settled by then.
            self.reader.start.eq(enter),
            self.reader.flush.eq(flush),
            self.reader.address.eq(self._list_address.storage[3:]),
            self.writer.clear.eq(doorbell),
            self.writer.start.eq(begin),
            self.writer.flush.eq(flush),
            self.writer.address.eq(self._destination.storage[3:]),
            self.writer.limit.eq(self._destination_limit.storage[3:]),
            self.ev.done.trigger.eq(finish),
            self.ev.descriptor.trigger.eq(self.reader.irq),
            self.idle.eq(fsm.ongoing("IDLE") & drained & ~control.start),
        ]
        self.sync += [
            If(fsm.ongoing("RUN") & ~begin & quiet,
                settle.eq(settle + 1),
            ).Else(
                settle.eq(0),
            ),
            If(doorbell, select.eq(control.core)),
        ]

        # State and counters -----------------------------------------------------------------------

        source  = self.reader.source
        busy    = ~fsm.ongoing("IDLE")
        held    = Signal(len(errors))
        aborted = Signal()
        done    = Signal()
        self.comb += [
            status.busy.eq(busy),
            status.done.eq(done),
            status.draining.eq(~busy & ~drained),
            status.error.eq((held != 0) | aborted),
            status.aborted.eq(aborted),
            *(getattr(status, name).eq(held[i]) for i, name in enumerate(names)),
            self._results.status.eq(self.writer.results << 3),
        ]
        self.sync += [
            If(busy,
                held.eq(held | pulses),
                self._cycles.status.eq(self._cycles.status + 1),
                If(control.abort, aborted.eq(1)),
            ),
            If(source.valid & ~flush,
                If(source.ready,
                    self._beats.status.eq(self._beats.status + 1),
                ).Else(
                    self._stalls.status.eq(self._stalls.status + 1),
                ),
            ),
            If(finish, done.eq(1)),
            If(doorbell,
                held.eq(0),
                aborted.eq(0),
                done.eq(0),
                self._cycles.status.eq(0),
                self._beats.status.eq(0),
                self._stalls.status.eq(0),
            ),
        ]


def _described(errors):
    """ERRORS of a core as (name, description) pairs; a bare name describes itself."""
    return [(error, f"The core refused its stream: {error}.") if isinstance(error, str) else error for error in errors]

# Accelerator --------------------------------------------------------------------------------------


class Accelerator(LiteXModule):
    """All lanes, one identity.

    ``ports[i]`` is the AXI3 master of lane i, ``irqs[i]`` its interrupt, ``idle`` high when nothing runs. Another set of cores can
    be given as `cores`: a function of the configuration that returns {name: (module, errors)} for one lane.
    """
    def __init__(self, config, cores=None):
        self.config = config
        self.ports  = [axi.AXIInterface(data_width=64, address_width=32, id_width=6, version="axi3", name=f"hp{i}")
            for i in range(config.ports)]
        self.irqs   = Signal(config.ports)
        self.idle   = Signal()

        # Registers --------------------------------------------------------------------------------

        self.constants = {}  # {register: value} of those that tell what was built.

        def constant(name, description, fields):
            self.constants[name] = sum(int(value) << offset for _, _, offset, value, _ in fields)
            status = CSRStatus(name=name, description=description, fields=[
                CSRField(name, size=size, offset=offset, reset=int(value), description=text) for name, size, offset, value, text in fields])
            return status

        c = config
        a = c.attention
        self._identity = constant("identity", "Tells LiteTern's gateware from any other.", [
            ("magic", 32, 0, IDENTITY, "0x4C54524E."),
        ])
        self._version = constant("version", "Version of registers and streams.", [
            ("minor", 16,  0, VERSION[1], "Grows with compatible changes."),
            ("major", 16, 16, VERSION[0], "Grows with incompatible changes."),
        ])
        self._lanes = constant("lanes", "What there is of everything.", [
            ("ports",     4, 0, c.ports,                "Lanes."),
            ("matmul",    1, 4, 1,                      "Lanes have a matmul core."),
            ("attention", 1, 5, a is not None,          "Lanes have an attention core."),
            ("probe",     1, 6, 1,                      "Lanes have a bandwidth probe."),
        ])
        self._matmul = constant("matmul", "Limits of the matmul core.", [
            ("vectors_max",      4,  0, c.vectors_max,         "Vectors of a pass over ternary weights."),
            ("ternary",          1,  4, "ternary" in c.formats, "Ternary weights."),
            ("int8",             1,  5, "int8" in c.formats,    "int8 weights."),
            ("topk_max",         9,  6, c.topk_max,            "Records of a shortlist, 0 without."),
            ("row_weights_max", 16, 16, c.row_weights_max,     "Weights of a row."),
        ])
        self._attention = constant("attention", "Limits of the attention core.", [
            ("head_dim_max",  8,  0, c.head_dim_max, "Head dimension."),
            ("queries_max",   5,  8, c.queries_max,  "Query vectors of a pass."),
            ("rows_max",     16, 16, c.rows_max,     "Positions."),
        ])
        self._softmax = constant("softmax", "Resolution of the attention core; all 0 without.", [
            ("score_bits",    5,  0, a.score_bits if a else 0,    "Bits of a score."),
            ("exp_bits",      5,  5, a.exp_bits if a else 0,      "Bits of an exp table entry."),
            ("mantissa_bits", 5, 10, a.mantissa_bits if a else 0, "Bits of a multiplier's mantissa."),
            ("steps_per_nat", 16, 16, a.steps_per_nat if a else 0, "Score steps per natural unit."),
        ])
        self._clock = CSRStatus(32, description="Free-running clock cycles: software measures the clock with it.")

        def memory(name, what):
            """A range that software sets, in whole bursts."""
            low    = log2_int(BLOCK_BYTES)
            blocks = Record(range_layout())
            first  = CSRStorage(32, name=f"{name}_first", reset=2**32 - 1,
                description=f"First byte of memory that lanes may {what}; its low {low} bits count as 0. Behind the last byte: none.")
            last   = CSRStorage(32, name=f"{name}_last", reset=0,
                description=f"Last byte of that memory; its low {low} bits count as 1. After the reset nothing is allowed.")
            self.comb += [
                blocks.first.eq(first.storage[low:]),
                blocks.last.eq(last.storage[low:]),
            ]
            setattr(self, f"_{name}_first", first)
            setattr(self, f"_{name}_last",  last)
            return blocks

        reads  = [memory(name, "read")  for name in READS]
        writes = [memory(name, "write") for name in WRITES]

        # # #

        self.sync += self._clock.status.eq(self._clock.status + 1)

        # Lanes ------------------------------------------------------------------------------------

        lanes = []
        for i, port in enumerate(self.ports):
            lane = Lane(port, (cores or make_cores)(config), reads, writes, timeout=config.timeout)
            self.add_module(f"lane{i}", lane)
            self.comb += self.irqs[i].eq(lane.ev.irq)
            lanes.append(lane)
        self.comb += self.idle.eq(Reduce("AND", [lane.idle for lane in lanes]))

    def get_memories(self):
        """None: LiteX would map the cores' buffers onto the register bus."""
        return []

    @property
    def lanes(self):
        return [getattr(self, f"lane{i}") for i in range(self.config.ports)]


def make_cores(config):
    """The cores of one lane: {name: (module, errors)}."""
    cores = {"matmul": (Matmul(
        vectors_max     = config.vectors_max,
        formats         = config.formats,
        row_weights_max = config.row_weights_max,
        topk_max        = config.topk_max,
    ), matmul.ERRORS)}
    if config.attention is not None:
        cores["attention"] = (Attention(
            head_dim_max = config.head_dim_max,
            queries_max  = config.queries_max,
            rows_max     = config.rows_max,
            parameters   = config.attention,
        ), attention.ERRORS)
    cores["probe"] = (Probe(), probe.ERRORS)
    return cores
