#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What every bench prints: rows of a figure of the reference systems beside ours, as a table or as JSON."""

import argparse
import json

from dataclasses import asdict, dataclass

# Row ----------------------------------------------------------------------------------------------


@dataclass
class Row:
    """row: its name; unit; reference: their figure, or None; ours; ratio: ours/reference, or None."""
    row       : str
    unit      : str
    reference : float
    ours      : float
    ratio     : float = None

    def __post_init__(self):
        if self.reference and self.ratio is None:
            self.ratio = self.ours/self.reference


def show(rows, as_json):
    """Prints rows: one JSON array, or a table."""
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    def text(value):
        return "–" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    table = [("row", "unit", "reference", "ours", "ratio")]
    table += [(row.row, row.unit, text(row.reference), text(row.ours), text(row.ratio)) for row in rows]
    width = [max(len(line[i]) for line in table) for i in range(5)]
    for line in table:
        print("  ".join([line[0].ljust(width[0]), line[1].ljust(width[1]), *(line[i].rjust(width[i]) for i in (2, 3, 4))]))


def parser(description):
    """Argument parser of a bench, with ``--json``."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="Print one JSON array of objects (row, unit, reference, ours, ratio).")
    return p
