/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The C cores in the place of the PL: for a board without our bitstream, and for hosts. */

#ifndef CORES_PL_H
#define CORES_PL_H

#include "cores_run.h"
#include "engine.h"

struct cores_pl {
    struct cores_memory memory;
    struct cores_softmax softmax;
    uint32_t share;                /* Beats that one status() call works on, so that the caller's loop stays alive. */
    struct cores_run run[ENGINE_PORTS_MAX];
};

size_t cores_pl_bytes(void);

/*
 * Fills *pl. `memory`: pointer of bus address 0, `bytes`: that bus addresses reach. `microseconds`: a clock, or NULL for one that stands
 * still (C cores need no time-out).
 */
void cores_pl_init(struct cores_pl *cores, struct engine_pl *pl, uintptr_t memory, uint64_t bytes, uint32_t share,
                   uint32_t (*microseconds)(void));

#endif
