/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* LiteX's timer as a clock: it counts down for ever. */

#define CONFIG_CPU_NOP "nop"       /* The registers' header asks for it. */
#include <generated/csr.h>

#include "drivers/bus.h"
#include "drivers/timer.h"

#define TICKS_PER_US (CONFIG_CLOCK_FREQUENCY/1000000)

_Static_assert(TICKS_PER_US > 0, "the clock is slower than 1 MHz");

static uint32_t last_ticks, last_us;

static uint32_t ticks(void)
{
    REGISTER(CSR_TIMER0_UPDATE_VALUE_ADDR) = 1;
    return ~REGISTER(CSR_TIMER0_VALUE_ADDR);
}

void timer_init(void)
{
    REGISTER(CSR_TIMER0_EN_ADDR)     = 0;
    REGISTER(CSR_TIMER0_LOAD_ADDR)   = UINT32_MAX;
    REGISTER(CSR_TIMER0_RELOAD_ADDR) = UINT32_MAX;
    REGISTER(CSR_TIMER0_EN_ADDR)     = 1;
    last_ticks = ticks();
}

uint32_t timer_us(void)
{
    uint32_t passed = (ticks() - last_ticks)/TICKS_PER_US;

    last_ticks += passed*TICKS_PER_US;
    last_us    += passed;
    return last_us;
}
