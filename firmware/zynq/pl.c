/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#define CONFIG_CPU_NOP "nop"       /* The registers' header asks for it. */
#include <generated/csr.h>

#include "drivers/accelerator.h"
#include "drivers/cache.h"
#include "drivers/timer.h"
#include "litetern/memory.h"
#include "pl.h"
#include "zynq.h"

/* Clock, reset and level shifters of the PL. */
#define SLCR_UNLOCK          REGISTER(SLCR_BASE + 0x008)
#define SLCR_IO_PLL          REGISTER(SLCR_BASE + 0x108)
#define SLCR_FPGA0_CLOCK     REGISTER(SLCR_BASE + 0x170)
#define SLCR_FPGA_RESET      REGISTER(SLCR_BASE + 0x240)
#define SLCR_LEVEL_SHIFTERS  REGISTER(SLCR_BASE + 0x900)
#define DEVC_INT_STATUS      REGISTER(DEVC_BASE + 0x00C)

#define DEVC_DONE            (1u << 2)
#define LEVEL_SHIFTERS_ON    0xFu

#define RESET_US             10u
#define MEASURE_US           100u
#define CLOCK_TOLERANCE_HZ   2000000u

/* Start -----------------------------------------------------------------------------------------*/

static void wait_us(uint32_t us)
{
    uint32_t start = timer_ticks();

    while (timer_ticks() - start < us*TIMER_TICKS_PER_US)
        ;
}

/* Sets FPGA0_CLK; 0 if the PLL gives no such clock. */
static int set_clock(void)
{
    uint32_t pll = PS_CLOCK_HZ*(SLCR_IO_PLL >> 12 & 0x7F), divisor = pll/CONFIG_CLOCK_FREQUENCY;

    if (divisor == 0 || divisor > 63 || divisor*CONFIG_CLOCK_FREQUENCY != pll)
        return 0;
    SLCR_FPGA0_CLOCK = 1u << 20 | divisor << 8;
    return 1;
}

static uint32_t measure_clock(void)
{
    uint32_t cycles = REGISTER(CSR_ACCELERATOR_CLOCK_ADDR), ticks = timer_ticks();

    wait_us(MEASURE_US);
    cycles = REGISTER(CSR_ACCELERATOR_CLOCK_ADDR) - cycles;
    ticks  = timer_ticks() - ticks;
    return (uint32_t)((uint64_t)cycles*TIMER_TICKS_PER_US*1000000u/ticks);
}

static uint32_t bring_up(struct pl *pl)
{
    struct handover *handover = (struct handover *)HANDOVER_BASE;
    uint32_t ours = handover->magic == HANDOVER_MAGIC;

    memcpy(pl->build, handover->pl_build, sizeof(handover->pl_build));
    handover->magic = 0;
    cache_clean(handover, sizeof(*handover));
    if (!ours)
        return PL_NO_HANDOVER;
    if (!(DEVC_INT_STATUS & DEVC_DONE))
        return PL_NOT_PROGRAMMED;
    SLCR_UNLOCK     = SLCR_KEY;
    SLCR_FPGA_RESET = 0xF;
    if (!set_clock())
        return PL_NO_CLOCK;
    SLCR_LEVEL_SHIFTERS = LEVEL_SHIFTERS_ON;
    if ((SLCR_LEVEL_SHIFTERS & LEVEL_SHIFTERS_ON) != LEVEL_SHIFTERS_ON)
        return PL_NO_LEVEL_SHIFTERS;
    wait_us(RESET_US);
    SLCR_FPGA_RESET = 0;
    wait_us(RESET_US);
    barrier();
    if (!accelerator_identify(&pl->version))
        return PL_FOREIGN;
    pl->clock_hz = measure_clock();
    if (pl->clock_hz + CLOCK_TOLERANCE_HZ < CONFIG_CLOCK_FREQUENCY || pl->clock_hz > CONFIG_CLOCK_FREQUENCY + CLOCK_TOLERANCE_HZ)
        return PL_NO_CLOCK;
    return PL_READY;
}

uint32_t pl_init(struct pl *pl)
{
    memset(pl, 0, sizeof(*pl));
    pl->state = bring_up(pl);
    if (pl->state != PL_READY)
        memset(pl->build, 0, sizeof(pl->build));
    return pl->state;
}

const char *pl_state_text(uint32_t state)
{
    switch (state) {
    case PL_READY:             return "gateware ready";
    case PL_NO_HANDOVER:       return "no bitstream from the boot script, C cores run";
    case PL_NOT_PROGRAMMED:    return "PL not programmed, C cores run";
    case PL_NO_CLOCK:          return "no 125 MHz clock for the PL, C cores run";
    case PL_NO_LEVEL_SHIFTERS: return "level shifters of the PL stay off, C cores run";
    default:                   return "foreign gateware in the PL, C cores run";
    }
}

void pl_engine(struct pl *pl, struct engine_pl *engine_pl)
{
    accelerator_engine(engine_pl, &pl->errors);
}
