#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The table of formats: every row is done, not claimed."""

import json
import subprocess
import sys

import pytest

from firmware_builds import firmware_build
from firmware_engine import OK, TOKEN, Engine
from golden_checkpoints import FORMATS as GOLDENS
from litetern.host import formats
from litetern.model.paths import ROOT


def firmware_logits(image, tokens):
    """Logits after the tokens by the firmware's engine with its C cores."""
    engine = Engine(firmware_build("host C scalar"), image.read_bytes())
    assert engine.error == OK and engine.generate(tokens, 1, ignore_eos=True) == OK
    return next(event.logits for event in engine.events() if event.kind == TOKEN)


def test_every_golden_has_a_row():
    assert {format.golden for format in formats.FORMATS} == set(GOLDENS)


@pytest.mark.parametrize("format", formats.FORMATS, ids=lambda format: f"{format.golden}-{format.rounded}")
def test_row(format):
    row = formats.try_format(format, firmware_logits)
    assert row["imports"] and row["equals_oracle"]
    assert row["packs"] and row["generates"]


def test_estimates():
    """bitnet-large: 178 MiB of weights and head a token at 2.009 GB/s; all of its 2,048 positions fit, and those of its larger sister."""
    rows = {format.checkpoint: formats.estimate(format) for format in formats.FORMATS}
    context, speed, why = rows["1bitLLM/bitnet_b1_58-large"]
    assert context == 2048 and speed == pytest.approx(10.75, abs=0.02) and why is None
    assert rows["microsoft/bitnet-b1.58-2B-4T"][0] == 0 and "together 713 MiB" in rows["microsoft/bitnet-b1.58-2B-4T"][2]
    assert rows["1bitLLM/bitnet_b1_58-xl"][0] == 2048


def test_command():
    """The packer shows the table; the virtual board has generated from every format."""
    run   = lambda *arguments: subprocess.run([sys.executable, str(ROOT/"host"/"pack.py"), "--formats", *arguments], capture_output=True,
        text=True, timeout=600)
    rows  = json.loads(run("--json").stdout)
    assert [row["format"] for row in rows] == [format.name for format in formats.FORMATS]
    assert all(row["generates"] for row in rows)
    table = formats.lines(rows)
    assert len([line for line in table if " yes " in line]) == len(rows)
