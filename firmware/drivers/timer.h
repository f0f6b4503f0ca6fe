/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Time since the start, from the global timer. */

#ifndef TIMER_H
#define TIMER_H

#include <stdint.h>

#define TIMER_TICKS_PER_US 25u

void timer_init(void);

/* Ticks of 40 ns; wraps after 171 s. */
uint32_t timer_ticks(void);

/* Microseconds; wraps after 71 minutes. To be called at least every 171 s. */
uint32_t timer_us(void);

#endif
