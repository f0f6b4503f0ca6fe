#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""How close to the memory's wall do the lanes stream?

First the memory model must give what the reference measured with its bandwidth probe (slope over two sizes); then a layer of
bitnet_b1_58-large (synthetic weights) runs from one doorbell per lane, and every result is compared with numpy.
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "litex")

import sys

from dataclasses import replace

import numpy as np

from litetern.bench.bitnet_large import HEADS, HEAD_DIM, LAYER
from litetern.bench.table import Row, parser, show
from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import DDR_BYTES_PER_SECOND, RtlPL
from litetern.soc.virtual.pl.workload import Arena, Group, Head
from litetern.soc.virtual.steps import Step

PROBE_HZ = 1e9/7  # The reference's probe ran at 142.86 MHz.
SIZE     = 32 << 20

# Rows ---------------------------------------------------------------------------------------------


def probe_slope(pl, ports):
    """Bytes per second of the bandwidth probe: the slope over two sizes, so that what a start costs does not count."""
    driver, points = Driver(pl), []
    for bytes in (1 << 20, 4 << 20):
        arena    = Arena(pl.memory, pl.base)
        pieces   = [[(arena.take(bytes), bytes)] for _ in range(ports)]
        outcomes = Step(driver, arena, "probe", [(piece, 8) for piece in pieces]).run()
        points.append((ports*bytes, max(outcome.cycles for outcome in outcomes)/pl.config.clock_hz))
    (bytes0, time0), (bytes1, time1) = points
    return (bytes1 - bytes0)/(time1 - time0)


def matmul_layer(pl):
    """Outcomes of a layer's groups in one list per lane; each lane takes half of the rows of every matrix."""
    arena, driver = Arena(pl.memory, pl.base), Driver(pl)
    rng    = np.random.default_rng(1)
    groups = [[Group(arena, rng, rows//2, columns) for rows, columns in LAYER] for _ in range(2)]
    return Step.of_groups(driver, arena, groups).run()


def attention_layer(pl, rows):
    """Outcomes of a layer's heads, half of them per lane."""
    arena, driver = Arena(pl.memory, pl.base), Driver(pl)
    rng   = np.random.default_rng(2)
    heads = [[Head(arena, rng, rows, HEAD_DIM, buffer=i % 2) for i in range(HEADS//2)] for _ in range(2)]
    return Step.of_heads(driver, arena, heads).run()


def fractions(outcomes, pl):
    """(beats accepted of those that the ports could carry, bytes of the wall, GB/s) from the doorbell to the last acknowledged result."""
    beats  = sum(outcome.beats for outcome in outcomes)
    cycles = max(outcome.cycles for outcome in outcomes)
    speed  = 8*beats*pl.config.clock_hz/cycles
    return beats/(len(outcomes)*cycles), speed/DDR_BYTES_PER_SECOND, speed/1e9


def measure(progress=lambda text: None):
    """All rows."""
    memory = np.zeros(SIZE, dtype=np.uint8)
    rows   = []
    config = AcceleratorConfig()
    progress("bandwidth probe")
    pl = RtlPL(memory, replace(config, clock_hz=PROBE_HZ))
    rows.append(Row("probe.one_port_gbps",  "GB/s", 1.143, probe_slope(pl, 1)/1e9))
    rows.append(Row("probe.two_ports_gbps", "GB/s", 2.009, probe_slope(pl, 2)/1e9))
    pl.close()
    pl = RtlPL(memory, config)
    rows.append(Row("probe.two_ports_125mhz_gbps", "GB/s", 2.000, probe_slope(pl, 2)/1e9))
    progress("matmul")
    beats, wall, speed = fractions(matmul_layer(pl), pl)
    rows.append(Row("matmul.layer_beats", "of the ports' beats", None,  beats))
    rows.append(Row("matmul.layer_wall",  "of the wall",         0.959, wall))
    rows.append(Row("matmul.layer_gbps",  "GB/s",                None,  speed))
    for context, reference, reference_speed in ((64, None, None), (512, 0.932, 1.872)):
        progress(f"attention at context {context}")
        beats, wall, speed = fractions(attention_layer(pl, context), pl)
        rows.append(Row(f"attention.layer_{context}_beats", "of the ports' beats", None,            beats))
        rows.append(Row(f"attention.layer_{context}_wall",  "of the wall",         reference,       wall))
        rows.append(Row(f"attention.layer_{context}_gbps",  "GB/s",                reference_speed, speed))
    if pl.fault:
        raise RuntimeError(f"AXI rule broken: {pl.fault}")
    return rows


def main():
    args = parser(__doc__).parse_args()
    show(measure(lambda text: args.json or print(f"{text} …", file=sys.stderr)), args.json)


if __name__ == "__main__":
    main()
