#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The whole accelerator: doorbell → lists → cores → results in memory, compared with numpy word for word."""

import numpy as np
import pytest

from dataclasses import asdict, replace

from litetern.model.formats.engine import CORE, CORE_ERROR, LIST_ERROR, status_names
from litetern.model.formats.stream import FORMAT_TERNARY
from litetern.soc.accelerator import CORES, IDENTITY, VERSION, AcceleratorConfig
from litetern.soc.virtual.pl.workload import interleave

from accelerator_bench import BASE, CONFIG, SIZE, Bench, Words, noise

@pytest.fixture(scope="module")
def shared():
    return Bench()


@pytest.fixture
def bench(shared):
    shared.clear(1)
    yield shared
    assert shared.pl.fault is None
    shared.pl.stall(ar=0, r=0, aw=0, w=0, b=0)

# Registers ----------------------------------------------------------------------------------------


def test_identity_and_capabilities(bench):
    def fields(register):
        value = bench.driver.read(register)
        return {name: value >> bit & (1 << size) - 1 for name, (bit, size) in bench.pl.fields[f"accelerator_{register}"].items()}
    assert fields("identity") == {"magic": IDENTITY}
    assert fields("version") == {"major": VERSION[0], "minor": VERSION[1]}
    assert fields("lanes") == {"ports": 2, "matmul": 1, "attention": 1, "probe": 1}
    assert fields("matmul") == {"vectors_max": 1, "ternary": 1, "int8": 1, "topk_max": 0, "row_weights_max": 16384}
    assert fields("attention") == {"head_dim_max": 128, "queries_max": 3, "rows_max": 2048}
    a = CONFIG.attention
    assert fields("softmax") == asdict(a)


def test_errors_have_the_names_of_the_c_cores(bench):
    """Each bit of a lane's status that says why a list failed is one that C cores know, but for a memory that waits or answers a write badly."""
    flags = set(bench.pl.fields["accelerator_lane0_status"]) - {"busy", "done", "draining", "error", "aborted"}
    known = {name for core in CORE.names for name in status_names(core, sum(value for _, value, _ in LIST_ERROR.items))}
    assert flags - known == {"reader_timeout", "writer_timeout", "writer_response"}
    assert {name for name, _ in CORE_ERROR} == {flag.split("_", 1)[1].upper() for flag in flags if flag.split("_")[0] in CORE.names}


def test_clock_counts_skipped_time(bench):
    before = bench.driver.read("clock")
    assert bench.pl.run(10**6, until_idle=False) == 10**6
    after  = bench.driver.read("clock")
    assert 10**6 <= after - before < 10**6 + 20
    assert bench.pl.clocked < bench.pl.cycles


def test_registers_keep_what_is_written(bench):
    for lane in range(2):
        for name in ("list_address", "destination", "destination_limit"):
            bench.driver.write(f"lane{lane}_{name}", 0x1234_5678 + lane)
    for lane in range(2):
        for name in ("list_address", "destination", "destination_limit"):
            assert bench.driver.read(f"lane{lane}_{name}") == 0x1234_5678 + lane


@pytest.mark.parametrize("changes", [
    dict(ports=0), dict(ports=5), dict(vectors_max=3), dict(formats=()), dict(formats=("int4",)), dict(row_weights_max=20000),
    dict(topk_max=257), dict(head_dim_max=100), dict(head_dim_max=136), dict(queries_max=0), dict(rows_max=1000), dict(clock_hz=1e3),
    dict(timeout=1),
])
def test_configuration_is_checked(changes):
    name = next(iter(changes))
    with pytest.raises(ValueError, match=f"accelerator {name} = .*must be"):
        replace(AcceleratorConfig(), **changes)

# Cores --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_matmul(bench, seed):
    bench.clear(seed)
    for _ in range(4):
        bench.run(seed % 2, "matmul", [bench.group() for _ in range(int(bench.rng.integers(1, 6)))])


@pytest.mark.parametrize("seed", range(6))
def test_attention(bench, seed):
    bench.clear(seed)
    for _ in range(3):
        heads = bench.heads(int(bench.rng.integers(1, 5)))
        bench.run(seed % 2, "attention", heads, interleave(heads))


@pytest.mark.parametrize("seed", range(4))
def test_both_lanes_and_stalls(bench, seed):
    """Both lanes at once with different cores, the memory stalling at random; then the cores change places."""
    bench.clear(seed)
    for round in range(4):
        if round:
            p = float(bench.rng.uniform(0.1, 0.6))
            bench.pl.stall(ar=p, r=p, aw=p, w=p, b=p)
        heads   = bench.heads(4)
        groups  = [bench.group() for _ in range(6)]
        started = [
            bench.start(round % 2, "attention", heads, interleave(heads)),
            bench.start(1 - round % 2, "matmul", groups),
        ]
        outcomes = [bench.driver.wait(round % 2), bench.driver.wait(1 - round % 2)]
        assert [outcome.flags for outcome in outcomes] == [{"done"}, {"done"}]
        for target, expected in started:
            bench.check(target, expected)


def test_probe(bench):
    data = bench.rng.integers(0, 256, 80000, dtype=np.uint8)
    piece = bench.arena.put(data)
    target, _ = bench.start(0, "probe", [], [piece])  # Without room for the sum.
    assert bench.driver.wait(0).flags == {"done", "error", "writer_overrun"}
    bench.driver.start(0, "probe", bench.arena.next - 8, target, 8)
    assert bench.driver.wait(0).flags == {"done"}
    assert bench.arena.view((target, 8)).view("<u8")[0] == data.view("<u8").sum(dtype=np.uint64)


def test_interrupt_per_lane(bench):
    for lane in range(2):
        bench.driver.write(f"lane{lane}_ev_pending", 3)
        bench.driver.write(f"lane{lane}_ev_enable", 1)
    started = [bench.start(lane, "matmul", [bench.group(rows=20 + 100*lane, columns=400)]) for lane in range(2)]
    for lane in range(2):
        bench.pl.run(10**6, until_irq=True)
        assert bench.pl.irq == 1 << lane
        bench.driver.write(f"lane{lane}_ev_pending", 1)
        bench.driver.write(f"lane{lane}_ev_enable", 0)
        bench.check(*started[lane])

# Bad lists ----------------------------------------------------------------------------------------


def test_list_out_of_step(bench):
    jobs = [bench.group(), Words(bench.arena, noise(bench, 300))]
    bench.run(1, "matmul", jobs, flags=("done", "error", "matmul_magic"))
    bench.run(1, "matmul", [bench.group()])


def test_truncated_group(bench):
    whole = bench.group(rows=30, columns=400, format=FORMAT_TERNARY)
    (head, weights) = whole.pieces
    target, _ = bench.start(0, "matmul", [whole], [head, (weights[0], weights[1] - 80)])
    outcome = bench.driver.wait(0)
    assert outcome.flags == {"done", "error", "matmul_truncated"}
    bench.run(0, "matmul", [bench.group()])


def test_abort_within_a_group(bench):
    for cycles in (150, 333, 700):
        for core in ("matmul", "attention"):
            heads = bench.heads(4, rows=150, head_dim=96, queries=1)
            jobs  = heads if core == "attention" else [bench.group(rows=100, columns=700)]
            bench.start(0, core, jobs, interleave(heads) if core == "attention" else None)
            bench.pl.run(cycles)
            bench.driver.abort(0)
            assert bench.driver.wait(0, max_cycles=5000).flags == {"done", "error", "aborted"}
            heads = bench.heads(2)
            bench.run(0, "attention", heads, interleave(heads))
            bench.run(0, "matmul", [bench.group(), bench.group()])


def test_core_that_is_not_there(bench):
    """The list is read and dropped."""
    group = bench.group()
    where = bench.arena.take(16, 32)
    bench.driver.put_list(where, group.pieces)
    bench.driver.write("lane0_list_address", where)
    bench.driver.write("lane0_control", 1 | len(CORES) << 4)
    outcome = bench.driver.wait(0)
    assert outcome.flags == {"done"} and outcome.results == 0 and outcome.beats == group.beats

# Memory model -------------------------------------------------------------------------------------


def probe_cycles(bench, lanes, bytes):
    piece = (BASE, bytes)
    for lane in range(lanes):
        bench.driver.put_list(BASE + SIZE - 64 + 32*lane, [piece])
        bench.driver.start(lane, "probe", BASE + SIZE - 64 + 32*lane, BASE + SIZE - 128 + 32*lane, 8)
    return max(bench.driver.wait(lane).cycles for lane in range(lanes))


def test_ports_share_the_memory(bench):
    """Two ports at 125 MHz take 16 of the 16.07 bytes a cycle: both run at full pace; CPU misses come out of the same bytes."""
    assert probe_cycles(bench, 1, 80000) < 10000*1.02
    alone = probe_cycles(bench, 2, 80000)
    assert alone < 10000*1.02
    bench.driver.put_list(BASE + SIZE - 64, [(BASE, 80000)])
    for lane in range(2):
        bench.driver.start(lane, "probe", BASE + SIZE - 64, BASE + SIZE - 128 + 32*lane, 8)
    bench.pl.run(200)
    bench.pl.cpu_traffic(16000)
    cycles = max(bench.driver.wait(lane).cycles for lane in range(2))
    assert alone + 900 < cycles < alone + 1100


def test_hook_sees_every_burst(bench):
    seen = {0: 0, 1: 0}

    def hook(write, address, bytes):
        assert BASE <= address < BASE + SIZE and 8 <= bytes <= 128
        seen[write] += bytes
    before = bench.pl.read_beats[0], bench.pl.write_beats[0]
    bench.pl.set_hook(hook)
    group   = bench.group(rows=33, columns=333)
    outcome = bench.run(0, "matmul", [group])
    bench.pl.set_hook(None)
    assert seen[1] == outcome.results == 8*(bench.pl.write_beats[0] - before[1])
    assert seen[0] == 8*(bench.pl.read_beats[0] - before[0]) >= 8*group.beats
