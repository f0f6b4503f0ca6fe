/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The softmax's resolution at run time: model.circuits.AttentionParameters, and the table that follows from it. */

#ifndef SOFTMAX_H
#define SOFTMAX_H

#include <stdint.h>

#include "litetern/engine.h"
#include "litetern/numerics.h"

/* 1 if there is such a resolution: all within their limits, and the table's last entry 0. */
int softmax_valid(const struct softmax *softmax);

/* Weight of a score that lies so many steps below the maximum. The resolution is within its limits. */
void softmax_exp_table(const struct softmax *softmax, uint16_t table[EXP_ENTRIES]);

#endif
