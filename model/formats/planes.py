#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Rows of few levels: so many planes of balanced trits, ±1, ±4 or ±13 steps. The embedding and head of models that lie on chip."""

import numpy as np

PLANES_MAX = 3
PLANE_STEP = {1: 1.0, 2: 2/3, 3: 1/4}  # Step of a row in its mean absolute value.
SCALE_MIN  = 1e-5                      # Floor of that mean.


def levels(planes):
    """Largest integer of a weight of so many planes."""
    return (3**planes - 1)//2


def rows_by_planes(weights, planes):
    """(int8 [rows, columns], float32 [rows] steps) of float32 [rows, columns]."""
    mean  = np.maximum(np.abs(weights).mean(axis=1, dtype=np.float64), SCALE_MIN)
    steps = (PLANE_STEP[planes]*mean).astype(np.float32)
    return np.clip(np.rint(weights/steps[:, None]), -levels(planes), levels(planes)).astype(np.int8), steps
