/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The accelerator's cores beside the C cores, on random work. */

#ifndef SELFTEST_H
#define SELFTEST_H

#include <stdint.h>

#include "engine.h"

/* Runs every case on every lane and prints a line for each; returns the number of those that failed. Then lanes may touch nothing. */
uint32_t selftest(const struct engine_pl *pl);

#endif
