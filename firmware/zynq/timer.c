/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "drivers/timer.h"
#include "zynq.h"

#define GLOBAL_TIMER_LOW     REGISTER(MPCORE_BASE + 0x200)
#define GLOBAL_TIMER_HIGH    REGISTER(MPCORE_BASE + 0x204)
#define GLOBAL_TIMER_CONTROL REGISTER(MPCORE_BASE + 0x208)
#define CONTROL_ENABLE       1u
#define CONTROL_PRESCALER    8

static uint32_t last_ticks, last_us;

void timer_init(void)
{
    GLOBAL_TIMER_CONTROL = 0;
    GLOBAL_TIMER_LOW     = 0;
    GLOBAL_TIMER_HIGH    = 0;
    GLOBAL_TIMER_CONTROL = (TIMER_CLOCK_HZ/1000000/TIMER_TICKS_PER_US - 1) << CONTROL_PRESCALER | CONTROL_ENABLE;
}

uint32_t timer_ticks(void)
{
    return GLOBAL_TIMER_LOW;
}

/* The low word alone, continued by differences: one register read. */
uint32_t timer_us(void)
{
    uint32_t passed = (timer_ticks() - last_ticks)/TIMER_TICKS_PER_US;

    last_ticks += passed*TIMER_TICKS_PER_US;
    last_us    += passed;
    return last_us;
}
