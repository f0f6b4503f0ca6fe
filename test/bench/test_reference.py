#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The bench of the reference's table: its arithmetic, its plot, its command line. What it measures, others test."""

import sys

import pytest

from litetern.bench import reference
from litetern.model.formats.shapes import SHAPES


def test_cpu_time_is_linear_in_layers_and_vocabulary(monkeypatch):
    """Three small models tell the large one's time, where time is what the docstring says."""
    exposed = lambda layers, vocab: 1e-3 + 2e-4*layers + 3e-8*vocab
    monkeypatch.setattr(reference, "board_seconds", lambda layers, vocab, slower: (slower*exposed(layers, vocab) + 0.01*layers, 0.01*layers))
    large = SHAPES[reference.LARGE]
    assert reference.cpu_milliseconds() == pytest.approx(1e3*exposed(large.layers, large.vocab))
    assert reference.cpu_milliseconds(3) == pytest.approx(3e3*exposed(large.layers, large.vocab))


def test_tokens_stand_beside_the_reference(monkeypatch):
    monkeypatch.setattr(reference, "cpu_milliseconds", lambda slower=1: 5.0*slower)
    rows, figures = reference.tokens(lambda text: None, simulate_cycles=False)
    by_name = {row.row: row for row in rows}
    for context, (matmul, attention, cpu, whole, speed) in reference.REFERENCE_TOKENS.items():
        row = by_name[f"token.{context}.ms"]
        assert row.reference == whole and row.ours == pytest.approx(by_name[f"token.{context}.fabric_ms"].ours + 5.0)
        assert by_name[f"token.{context}.per_second"].ours == pytest.approx(1e3/row.ours)
        assert whole == pytest.approx(matmul + attention + cpu, abs=0.15) and speed == pytest.approx(1e3/whole, rel=0.002)
    assert by_name["token.2048.ms"].reference is None
    assert [context for context, *_ in figures] == list(reference.CONTEXTS)
    assert all(at_wall < fabric < whole for _, fabric, whole, at_wall in figures)


def test_unknown_section(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reference.py", "speed"])
    with pytest.raises(SystemExit):
        reference.main()
    assert "unknown section 'speed': must be one of wall, circuits, fabric, token, chip" in capsys.readouterr().err


@pytest.mark.full  # Matplotlib comes with the extra bench.
def test_plot(tmp_path):
    reference.plot([(64, 77.0, 82.0, 76.0), (512, 94.0, 99.0, 92.5)], tmp_path/"new"/"t.png")
    assert (tmp_path/"new"/"t.png").read_bytes().startswith(b"\x89PNG")
