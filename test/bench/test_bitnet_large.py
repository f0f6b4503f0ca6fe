#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Steps of the large model's bench: results beside the DDR, which hold as much as there is memory, and what they save."""

import numpy as np
import pytest

from litetern.bench.bitnet_large import HEAD_DIM, HEADS, HIDDEN, LAYER, VOCABULARY, matmul_steps
from litetern.soc.virtual.pl.driver import Driver
from litetern.soc.virtual.pl.verilated import OCM_BYTES, RtlPL
from litetern.soc.virtual.pl.workload import Arena
from litetern.soc.zynq.memory_map import RESULTS_BYTES

from accelerator_bench import CONFIG

SIZE = 8 << 20


@pytest.fixture(scope="module")
def pl():
    return RtlPL(np.zeros(SIZE, dtype=np.uint8), CONFIG, ocm=np.zeros(OCM_BYTES, dtype=np.uint8))


def steps(pl, rows, columns, on_chip):
    return matmul_steps(Driver(pl), Arena(pl.memory, pl.base), np.random.default_rng(1), rows, columns, on_chip=on_chip)


def test_the_firmware_has_room_for_all_results():
    """Beside the attention's of both ports even the head's fit: what the bench measures is what the firmware does."""
    attention = 2*4*HEADS*(HEAD_DIM + 2)
    assert attention + max(4*rows for rows, _ in (*LAYER, (VOCABULARY, HIDDEN))) + 2*128 <= RESULTS_BYTES


@pytest.mark.parametrize("rows, count", [(2000, 1), (OCM_BYTES//4, 1), (OCM_BYTES//4 + 2, 2), (140_002, 3)])
def test_steps_fit_beside_the_ddr(pl, rows, count):
    """As many doorbells as the results need; all rows are there, and equal numpy's (`Step.run` compares)."""
    made  = steps(pl, rows, 40, on_chip=True)
    bytes = sum(bytes for step in made for _, _, bytes in step.lists)
    assert len(made) == count and 4*rows <= bytes <= 4*rows + 2*count*4  # A group ends with a whole beat.
    for step in made:
        assert {outcome.results for outcome in step.run()} == {bytes for _, _, bytes in step.lists}
    assert pl.fault is None


def test_results_beside_the_ddr_leave_its_bandwidth_to_the_weights(pl):
    """Short rows: a beat of results for every two of weights, which the DDR has to carry or not."""
    (ddr,), (on_chip,) = (steps(pl, 20_000, 40, place) for place in (False, True))
    slow, fast = (max(outcome.cycles for outcome in step.run()) for step in (ddr, on_chip))
    assert 1.4 < slow/fast < 1.5
