#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The table of equal bits: the project's model on every row, and what a single wrong bit does."""

import numpy as np
import pytest

import equal_bits

SHORT = ["--tokens", "8"]


def test_every_row_is_equal(capsys):
    equal_bits.main(SHORT)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(equal_bits.BUILDS) + len(equal_bits.BOARDS)
    assert all(line.endswith("8  yes") for line in lines[2:])


def test_hybrid_head(capsys):
    equal_bits.main(["--tokens", "4", "--head", "hybrid", "--rows", "ARMv7 NEON", "firmware, gateware"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(line.endswith("4  yes") for line in lines[2:])


def test_one_wrong_bit_ends_it(capsys, monkeypatch):
    right = equal_bits.row_logits

    def wrong(*arguments):
        logits = right(*arguments)
        logits.view(np.uint32)[5, 300] ^= 1
        return logits

    monkeypatch.setattr(equal_bits, "row_logits", wrong)
    with pytest.raises(SystemExit) as end:
        equal_bits.main([*SHORT, "--rows", "host C scalar", "checker"])
    lines = capsys.readouterr().out.splitlines()
    assert end.value.code == 1 and len(lines) == 3 and "token 5, logit 300" in lines[-1]


def test_missing_tokens_are_a_difference():
    assert "3 tokens instead of 4" in equal_bits.first_difference(np.zeros((4, 8), np.float32), np.zeros((3, 8), np.float32))


def test_missing_model():
    with pytest.raises(SystemExit, match="equal_bits: "):
        equal_bits.main(["--model", "no/such/model"])
