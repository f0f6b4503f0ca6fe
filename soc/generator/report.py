#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What a design costs and what it brings: resources from Yosys, cycles from Verilator, bytes by counting.

Times are those of the fabric: from the first doorbell of a token to its last result, writes included. CPU work that does not hide behind
the streams comes on top. Where nothing was simulated the cycles are estimates, and are called so.
"""

from dataclasses import dataclass, field

import numpy as np

from litetern.cores.matmul.core import INT8_VECTORS_MAX
from litetern.model.formats.stream import BEAT_BYTES, FORMAT_INT8, FORMAT_TERNARY, row_beats, x_beats
from litetern.soc.accelerator import make_cores
from litetern.soc.tools.netlist import core_verilog
from litetern.soc.zynq.pl import elaborate

CONTEXTS = (64, 128, 256, 512, 1024, 2048)
FIGURES  = ("lut", "ff", "bram36", "dsp")

# What a step takes beside its beats: doorbells, first latency, last write. An estimate, from simulated steps.
STEP_CYCLES = 150

# Work ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """One step of all lanes: the lists that start together.

    core    : "matmul" or "attention".
    shapes  : per lane a tuple of shapes: matmul (rows, columns, format, vectors, topk), attention (positions, head_dim, queries).
    times   : how often a pass over all tokens of a batch has it.
    """
    name   : str
    core   : str
    shapes : tuple
    times  : int = 1

    def beats(self):
        """[(read, written)] of each lane."""
        return [tuple(map(sum, zip(*(_beats(self.core, shape) for shape in lane)))) if lane else (0, 0) for lane in self.shapes]


def _beats(core, shape):
    """(beats read, beats written) of a group or head."""
    if core == "matmul":
        rows, columns, format, vectors, topk = shape
        beats = row_beats(columns, format)
        return 1 + vectors*x_beats(beats, format) + rows*beats, topk or -(-rows*vectors//2)
    positions, head_dim, queries = shape
    beats = head_dim//BEAT_BYTES
    return 2 + queries*(1 + beats) + 2*positions*beats, queries*(head_dim + 2)//2


def _split(count, lanes):
    """`count` things over the lanes, the first ones take what is left over."""
    return [count//lanes + (lane < count % lanes) for lane in range(lanes)]


def matmul_work(design):
    """[Work] of the matmul groups of one pass."""
    c, a, head = design.model, design.accelerator, design.head
    tables     = [("head", c.vocab, c.hidden, FORMAT_INT8, 1)] if not head.planes else [
        ("head", c.vocab, head.planes*c.hidden, FORMAT_TERNARY, 1)]
    if head.shortlist:
        tables.append(("shortlist", head.shortlist, c.hidden, FORMAT_INT8, 1))
    works = []
    for name, rows, columns, format, times in (
        *((group, *shape, design.body, c.layers) for group, shape in c.groups.items()),
        *tables,
    ):
        vectors = a.vectors_max if format == FORMAT_TERNARY else min(a.vectors_max, INT8_VECTORS_MAX)
        # A shortlist leaves instead of all rows; with several vectors all rows are counted.
        topk    = head.shortlist if name == "head" and vectors == 1 else 0
        shapes  = tuple(((count, columns, format, vectors, min(topk, count)),)*(a.vectors_max//vectors) if count else ()
            for count in _split(rows, a.ports))
        works.append(Work(name, "matmul", shapes, times))
    return works


def attention_work(design, positions):
    """Work of the attention: the queries of a batch are consecutive tokens of one text, so passes over keys and values are shared, too."""
    c, a    = design.model, design.accelerator
    queries = c.group*a.vectors_max
    passes  = [min(a.queries_max, queries - first) for first in range(0, queries, a.queries_max)]
    shapes  = tuple(tuple((positions, c.head_dim, count) for _ in range(heads) for count in passes)
        for heads in _split(c.kv_heads, a.ports))
    return Work("attention", "attention", shapes, c.layers)

# Time ---------------------------------------------------------------------------------------------


def estimate(work, design):
    """Cycles of a step by formula: the busiest lane's beats, or all bytes at the wall, whichever is longer, and `STEP_CYCLES`."""
    beats = work.beats()
    bytes = BEAT_BYTES*sum(read + written for read, written in beats)
    return round(max(max(read for read, _ in beats), bytes*design.accelerator.clock_hz/design.board.ddr_bytes_per_second) + STEP_CYCLES)


def simulate_outcomes(works, design):
    """Steps {name: Work} in Verilator on random data: {name: (cycles, Outcome of each lane)}.

    Cycles count from the first register access until nothing moves. Every result is compared with numpy; RuntimeError where one differs.
    """
    from litetern.soc.virtual.pl.driver import Driver
    from litetern.soc.virtual.pl.verilated import MemoryParameters, RtlPL
    from litetern.soc.virtual.steps import Step
    from litetern.soc.virtual.pl.workload import Arena, Group, Head

    a      = design.accelerator
    room   = max(BEAT_BYTES*sum(read + written for read, written in work.beats()) + 1024*sum(map(len, work.shapes))
        for work in works.values())
    pl     = RtlPL(np.zeros(room + (1 << 20), np.uint8), a, parameters=MemoryParameters(bytes_per_second=design.board.ddr_bytes_per_second))
    found  = {}
    for name, work in works.items():
        random, driver, arena = np.random.default_rng(1), Driver(pl), Arena(pl.memory, pl.base)
        if work.core == "matmul":
            step = Step.of_groups(driver, arena, [[Group(arena, random, *shape) for shape in lane] for lane in work.shapes if lane])
        else:
            step = Step.of_heads(driver, arena, [[Head(arena, random, *shape, buffer=i % 2, parameters=a.attention)
                for i, shape in enumerate(lane)] for lane in work.shapes if lane])
        lanes = step.run()
        found[name] = step.elapsed, lanes
    if pl.fault:
        raise RuntimeError(f"AXI rule broken: {pl.fault}")
    pl.close()
    return found


def simulate(works, design):
    """{name: cycles} of `simulate_outcomes`."""
    return {name: cycles for name, (cycles, _) in simulate_outcomes(works, design).items()}

# Report -------------------------------------------------------------------------------------------


@dataclass
class Report:
    """Figures of a design; `data()` for JSON, `str()` for people.

    source    : where cycles come from, "Verilator" or "estimate".
    resources : [(part, count, {figure: value})], empty where nothing was synthesised; the last one is the whole PL.
    parts     : [(name, cycles of a token, bytes of a token)] of the matmul.
    contexts  : [(positions, attention cycles of a token, its bytes)].
    """
    design    : object
    source    : str
    resources : list = field(default_factory=list)
    parts     : list = field(default_factory=list)
    contexts  : list = field(default_factory=list)

    def _timed(self, cycles, bytes):
        seconds = cycles/self.design.accelerator.clock_hz
        return {"cycles": round(cycles), "ms": 1e3*seconds, "bytes": round(bytes),
            "wall_fraction": bytes/(seconds*self.design.board.ddr_bytes_per_second)}

    def data(self):
        """All figures as plain Python, for JSON."""
        d, a = self.design, self.design.accelerator
        capacity = {figure: getattr(d.board, figure) for figure in FIGURES}
        matmul   = tuple(map(sum, zip(*(part[1:] for part in self.parts))))
        tokens   = []
        for positions, cycles, bytes in self.contexts:
            token = self._timed(matmul[0] + cycles, matmul[1] + bytes)
            tokens.append({"context": positions, **token, "tokens_per_second": 1e3/token["ms"], "attention": self._timed(cycles, bytes)})
        return {
            "model"       : {"name": d.name, **{name: getattr(d.model, name) for name in (
                "hidden", "ffn", "layers", "heads", "kv_heads", "head_dim", "vocab")}, "context": d.context},
            "board"       : {"name": d.board.name, "chip": d.board.chip, "ports": list(d.board.ports), "clock_hz": d.board.clock_hz,
                "ddr_bytes_per_second": d.board.ddr_bytes_per_second},
            "accelerator" : {**{name: getattr(a, name) for name in ("ports", "vectors_max", "row_weights_max", "topk_max", "head_dim_max",
                "queries_max", "rows_max")}, "formats": list(a.formats), "head": d.head.kind},
            "resources"   : [{"part": part, "count": count, **figures, "percent": {figure: 100*count*figures[figure]/capacity[figure]
                for figure in FIGURES}} for part, count, figures in self.resources],
            "capacity"    : capacity,
            "source"      : self.source,
            "matmul"      : {**self._timed(*matmul), "parts": [{"part": name, **self._timed(cycles, bytes)}
                for name, cycles, bytes in self.parts]},
            "tokens"      : tokens,
        }

    def __str__(self):
        data, d = self.data(), self.design
        m, a    = data["model"], data["accelerator"]
        lines   = [
            f"{m['name']} on {d.board.title} ({d.board.chip}), {d.board.clock_hz/1e6:g} MHz, lanes at {' and '.join(d.board.ports)}; "
            f"{a['head']} head",
            f"  model        {m['layers']} layers of {m['hidden']}, FFN {m['ffn']}, {m['heads']} heads ({m['kv_heads']} KV) of "
            f"{m['head_dim']}, vocabulary {m['vocab']:,}",
            f"  accelerator  {' and '.join(a['formats'])}, {a['vectors_max']} vector(s) a pass, rows to {a['row_weights_max']:,} weights, "
            f"{a['queries_max']} quer{'y' if a['queries_max'] == 1 else 'ies'} a pass, {a['rows_max']:,} positions",
            "",
        ]
        if data["resources"]:
            lines.append(f"  {'resources (Yosys)':22}" + "".join(f"{figure.upper():>10}{'':7}" for figure in FIGURES).rstrip())
            for part in data["resources"]:
                name = part["part"] + (f" × {part['count']}" if part["count"] > 1 else "")
                lines.append(f"  {name:22}" + "".join(f"{part['count']*part[figure]:>10,g} {part['percent'][figure]:>4.0f} %"
                    for figure in FIGURES))
            lines += [f"  {'of the chip':22}" + "".join(f"{data['capacity'][figure]:>10,}{'':7}" for figure in FIGURES).rstrip(), ""]
        source = "estimate" if self.source == "estimate" else f"cycles: {self.source}"
        lines.append(f"  {f'a token ({source})':30}{'cycles':>12}{'ms':>9}{'bytes':>14}{'of the wall':>13}{'tokens/s':>10}")
        row = lambda name, t, speed="": (f"  {name:30}{t['cycles']:>12,}{t['ms']:>9.2f}{t['bytes']:>14,}{100*t['wall_fraction']:>11.1f} %"
            f"{speed:>10}").rstrip()
        lines += [row(f"  {part['part']}", part) for part in data["matmul"]["parts"]]
        lines.append(row("matmul", data["matmul"]))
        lines += [row(f"attention at {t['context']:,}", t["attention"]) for t in data["tokens"]]
        lines += [row(f"token at {t['context']:,}", t, f"{t['tokens_per_second']:.2f}") for t in data["tokens"]]
        lines += ["", f"  The fabric alone, {a['head']} head: CPU work that does not hide behind the streams comes on top."]
        if a["vectors_max"] > 1:
            lines.append(f"  {a['vectors_max']} tokens of one text share each pass over weights, keys and values (a prompt); figures are per token.")
        return "\n".join(lines)


def resources(design):
    """[(part, count, {figure: value})]: the cores alone, what is left of the PL, the PL."""
    from litetern.soc.tools.yosys import synthesize

    a     = design.accelerator
    parts = []
    for name, (core, _) in make_cores(a).items():
        if name != "probe":
            top = f"core_{name}"
            parts.append((name, a.ports, synthesize(top, core_verilog(lambda: core, top)).resources()))
    whole = synthesize("pl", elaborate(a)[1]).resources()
    rest  = {figure: whole[figure] - sum(count*figures[figure] for _, count, figures in parts) for figure in FIGURES}
    return [*parts, ("DMA, registers, rest", 1, rest), ("PL", 1, whole)]


def report(design, synthesise=True, simulate_cycles=True, contexts=CONTEXTS):
    """The `Report` of a design, at those of the contexts that the model has; at its own where that is shorter than all of them."""
    batch    = design.accelerator.vectors_max
    parts    = {work.name: work for work in matmul_work(design)}
    held     = [positions for positions in contexts if positions <= design.context] or [design.context]
    contexts = {positions: attention_work(design, positions) for positions in held}
    works    = parts | contexts
    cycles   = simulate(works, design) if simulate_cycles else {name: estimate(work, design) for name, work in works.items()}

    def per_token(name):
        work = works[name]
        return work.times*cycles[name]/batch, work.times*BEAT_BYTES*sum(read for read, _ in work.beats())/batch
    return Report(
        design    = design,
        source    = "Verilator" if simulate_cycles else "estimate",
        resources = resources(design) if synthesise else [],
        parts     = [(name, *per_token(name)) for name in parts],
        contexts  = [(positions, *per_token(positions)) for positions in contexts],
    )
