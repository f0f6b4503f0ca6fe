/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "cores_pl.h"

static void start(void *context, uint32_t port, uint32_t core, uint32_t list, uint32_t destination, uint32_t limit)
{
    struct cores_pl *cores = context;

    cores_start(&cores->run[port], &cores->memory, &cores->softmax, core, list, destination, limit);
}

static uint32_t progress(void *context, uint32_t port)
{
    return ((struct cores_pl *)context)->run[port].written;
}

/* Works on a share of the list, then tells its state. */
static uint32_t status(void *context, uint32_t port)
{
    struct cores_pl *cores = context;

    if (cores_advance(&cores->run[port], cores->share))
        return ENGINE_PL_BUSY;
    if (cores->run[port].errors & (CORES_ERROR_READER_RANGE | CORES_ERROR_WRITER_RANGE))
        return ENGINE_PL_RANGE;
    return cores->run[port].errors ? ENGINE_PL_ERROR : ENGINE_PL_DONE;
}

/* C cores have no clock of their own. */
static uint32_t cycles(void *context, uint32_t port)
{
    (void)context;
    (void)port;
    return 0;
}

static void give_up(void *context, uint32_t port)
{
    cores_fail(&((struct cores_pl *)context)->run[port], 0);
}

static void allow(void *context, uint32_t range, uint32_t first, uint32_t last)
{
    ((struct cores_pl *)context)->memory.range[range] = (struct cores_range){first, last};
}

/* C cores take any resolution that there is. */
static uint32_t resolve(void *context, const struct softmax *softmax)
{
    return (uint32_t)cores_resolve(&((struct cores_pl *)context)->softmax, softmax);
}

/* The same CPU writes and reads. */
static void no_cache(const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}

static uint32_t no_clock(void)
{
    return 0;
}

size_t cores_pl_bytes(void)
{
    return sizeof(struct cores_pl);
}

void cores_pl_init(struct cores_pl *cores, struct engine_pl *pl, uintptr_t memory, uint64_t bytes, uint32_t share,
                   uint32_t (*microseconds)(void))
{
    cores->memory = (struct cores_memory){.base = memory, .bytes = bytes};
    cores->share  = share;
    cores->softmax.score_limit = 0;
    for (uint32_t range = 0; range < ENGINE_RANGES; range++)
        allow(cores, range, UINT32_MAX, 0);
    *pl = (struct engine_pl){
        .context         = cores,
        .memory          = memory,
        .ports           = ENGINE_PORTS_MAX,
        .queries_max     = CORES_QUERIES_MAX,
        .rows_max        = CORES_ROWS_MAX,
        .row_weights_max = ROW_WEIGHTS_MAX,
        .topk_max        = TOPK_MAX,
        .timeout_us      = UINT32_MAX,
        .start           = start,
        .progress        = progress,
        .status          = status,
        .cycles          = cycles,
        .abort           = give_up,
        .clean           = no_cache,
        .invalidate      = no_cache,
        .microseconds    = microseconds ? microseconds : no_clock,
        .allow           = allow,
        .resolve         = resolve,
    };
}
