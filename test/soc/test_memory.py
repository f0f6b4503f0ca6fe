#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The virtual board's memory model is the ruler of every figure: it must see each rule of AXI3 that a master breaks, and keep time.

    PL ─ port 0 ─► [fault chosen by the low bits of write1_first] ─► memory model
"""

import numpy as np
import pytest

from migen import *

from litetern.soc.accelerator import AcceleratorConfig
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import OCM_BASE, OCM_BYTES, MemoryParameters, RtlPL
from litetern.soc.zynq.pl import PL
from dma_bench import copy_cores

BASE, SIZE = 0x0010_0000, 1 << 20
LIST, SOURCE, TARGET = BASE, BASE + 0x1_0000, BASE + 0x2_0000
CONFIG = AcceleratorConfig(ports=1)

# Faults -------------------------------------------------------------------------------------------

# (what is broken, channel, signal, its wrong value from the right one and a counter, what the model must say).
FAULTS = [
    ("nothing",       "ar", "addr",  lambda s, n: s,                     None),
    ("crossing",      "ar", "addr",  lambda s, n: s | 0xFF8,             "AR: burst crosses 4 KB"),
    ("read size",     "ar", "size",  lambda s, n: 2,                     "AR: size is not 8 bytes"),
    ("read wrap",     "ar", "burst", lambda s, n: 2,                     "AR: burst is not INCR"),
    ("read lock",     "ar", "lock",  lambda s, n: 1,                     "AR: locked access"),
    ("read place",    "ar", "addr",  lambda s, n: s | 4,                 "AR: address is not a multiple of 8"),
    ("read moves",    "ar", "addr",  lambda s, n: s ^ (n[0] << 7),       "AR: valid or payload changed before ready"),
    ("read drops",    "ar", "valid", lambda s, n: s & (n != 0),          "AR: valid or payload changed before ready"),
    ("write cross",   "aw", "addr",  lambda s, n: s | 0xFF8,             "AW: burst crosses 4 KB"),
    ("write moves",   "aw", "len",   lambda s, n: s ^ n[0],              "AW: valid or payload changed before ready"),
    ("write size",    "aw", "size",  lambda s, n: 4,                     "AW: size is not 8 bytes"),
    ("write id",      "w",  "id",    lambda s, n: 1,                     "W: WID differs from AWID"),
    ("last missing",  "w",  "last",  lambda s, n: 0,                     "W: last is not on the burst's last beat"),
    ("last early",    "w",  "last",  lambda s, n: 1,                     "W: last is not on the burst's last beat"),
    ("data moves",    "w",  "data",  lambda s, n: s ^ n[0],              "W: valid or payload changed before ready"),
    ("data drops",    "w",  "valid", lambda s, n: s & n[0],              "W: valid or payload changed before ready"),
]


class FaultyPL(PL):
    """A PL whose port 0 breaks the rule that the low bits of write1_first choose: no address depends on them."""
    def ports(self):
        ports  = PL.ports(self)
        count  = Signal(2)
        select = self.accelerator._write1_first.storage[:4]
        self.sync += count.eq(count + 1)
        for channel, field in sorted({fault[1:3] for fault in FAULTS}):
            name   = f"hp0_{channel}_{field}"
            inner  = ports[name]
            inner.name_override = f"good_{name}"
            outer  = Signal(len(inner), name_override=name)
            cases  = {number: outer.eq(wrong(inner, count)) for number, (_, *at, wrong, _) in enumerate(FAULTS) if at == [channel, field]}
            self.comb  += Case(select, cases | {"default": outer.eq(inner)})
            ports[name] = outer
        return ports


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[fault[0] for fault in FAULTS])
def test_broken_rules_are_seen(number):
    memory = np.zeros(SIZE, dtype=np.uint8)
    stalls = MemoryParameters(stall_ar=0.7, stall_aw=0.7, stall_w=0.7)
    pl     = RtlPL(memory, CONFIG, BASE, stalls, FaultyPL(CONFIG, cores=copy_cores), "faulty")
    driver = Driver(pl)
    driver.put_list(LIST, [(SOURCE, 8*200)])
    driver.allow_bytes("write1", 2**32 - 128 + number, 0)
    driver.start(0, "matmul", LIST, TARGET, 8*200)
    pl.run(5000)
    expected = FAULTS[number][-1]
    if expected is None:
        assert pl.fault is None and driver.flags(0) == {"done"}
    else:
        assert f", port 0, {expected} (address 0x" in pl.fault
    with pytest.raises(RuntimeError, match="AXI rule broken") if expected else pytest.raises(TimeoutError):
        driver.start(0, "matmul", LIST, TARGET, 8*200)
        driver.wait(0, max_cycles=10)

# Time ---------------------------------------------------------------------------------------------


def cycles_of(beats, **parameters):
    """Cycles of a probe over so many beats."""
    pl     = RtlPL(np.zeros(SIZE, dtype=np.uint8), CONFIG, BASE, MemoryParameters(**parameters), PL(CONFIG, cores=copy_cores), "dma")
    driver = Driver(pl)
    driver.put_list(LIST, [(SOURCE, 8*beats)])
    driver.start(0, "probe", LIST, TARGET, 8)
    return driver.wait(0).cycles


def test_latency_counts_for_list_and_data():
    """One more cycle of latency is one for the list and one for the data behind it."""
    assert cycles_of(10, read_latency=90) - cycles_of(10, read_latency=40) == 100


def test_bandwidth_sets_the_pace():
    for bytes_per_cycle in (2.5, 4, 7):
        rate  = dict(bytes_per_second=bytes_per_cycle*CONFIG.clock_hz)
        slope = (cycles_of(8000, **rate) - cycles_of(4000, **rate))/4000
        assert abs(slope - 8/bytes_per_cycle) < 0.01


def test_outstanding_bursts_set_the_pace():
    slope = (cycles_of(8000, outstanding=2) - cycles_of(4000, outstanding=2))/4000
    assert abs(slope - (40 + 16)/32) < 0.01


def test_on_chip_memory_takes_nothing_from_the_ddr():
    """A copy to the DDR pays for reads and writes, one to the on-chip memory for reads only."""
    cycles = {}
    ocm    = np.zeros(OCM_BYTES, dtype=np.uint8)
    memory = np.random.default_rng(1).integers(0, 256, SIZE, dtype=np.uint8)
    pl     = RtlPL(memory, CONFIG, BASE, MemoryParameters(bytes_per_second=8*CONFIG.clock_hz), PL(CONFIG, cores=copy_cores), "dma", ocm)
    driver = Driver(pl)
    driver.put_list(LIST, [(SOURCE, 8*4000)])
    data = memory[SOURCE - BASE:][:8*4000]
    for target in (TARGET, OCM_BASE + 4096):
        driver.start(0, "matmul", LIST, target, 8*4000)
        outcome = driver.wait(0)
        assert outcome.flags == {"done"}
        cycles[target] = outcome.cycles
    assert (memory[TARGET - BASE:][:8*4000] == data).all() and (ocm[4096:][:8*4000] == data).all()
    assert cycles[TARGET] > 7900 and cycles[OCM_BASE + 4096] < 4200
    # And it can be read.
    driver.put_list(LIST, [(OCM_BASE + 4096, 8*100)])
    memory[TARGET - BASE:][:800] = 0
    driver.start(0, "matmul", LIST, TARGET, 8*100)
    assert driver.wait(0).flags == {"done"} and (memory[TARGET - BASE:][:800] == data[:800]).all()


@pytest.mark.parametrize("changes, text", [
    (dict(fifo_beats=0), "fifo_beats = 0: must be 1 to 256"), (dict(read_latency=0), "read_latency = 0: must be at least 1"),
    (dict(stall_r=1.0), "stall_r = 1.0: must lie in"),
])
def test_parameters_are_checked(changes, text):
    with pytest.raises(ValueError, match=text):
        MemoryParameters(**changes)


def test_memory_is_checked():
    with pytest.raises(ValueError, match="contiguous uint8"):
        RtlPL(np.zeros(16, dtype=np.int32), CONFIG)
    with pytest.raises(ValueError, match="must end within 4 GB"):
        RtlPL(np.zeros(SIZE, dtype=np.uint8), CONFIG, 0xFFFF_0000)
