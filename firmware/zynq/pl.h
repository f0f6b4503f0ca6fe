/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The gateware behind GP0: is it there, is it ours, and the lanes that run descriptor lists. */

#ifndef PL_H
#define PL_H

#include <stdint.h>

#include "engine.h"

enum pl_state {
    PL_READY = 0,
    PL_NO_HANDOVER,                /* The boot script has loaded no bitstream of ours. */
    PL_NOT_PROGRAMMED,             /* DONE is low. */
    PL_NO_CLOCK,                   /* 125 MHz cannot be had from the PLL, or were not measured. */
    PL_NO_LEVEL_SHIFTERS,
    PL_FOREIGN,                    /* Identity or version is not ours. */
};

struct pl {
    uint32_t state;                /* enum pl_state. */
    uint32_t version;              /* Version register. */
    uint32_t clock_hz;             /* Measured. */
    uint32_t errors;               /* Lists that failed. */
    char     build[25];            /* Of the bitstream. */
};

/*
 * Brings the PL up where the boot script vouches for it; touches nothing of it otherwise. Clears the hand-over word, so that a start
 * without the script does not take the word of an earlier one. Returns enum pl_state.
 */
uint32_t pl_init(struct pl *pl);

/* One line for people. */
const char *pl_state_text(uint32_t state);

/* Fills the engine's view of a PL that is ready. */
void pl_engine(struct pl *pl, struct engine_pl *engine_pl);

#endif
