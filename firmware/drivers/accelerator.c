/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#define CONFIG_CPU_NOP "nop"       /* The registers' header asks for it. */
#include <generated/csr.h>

#include "accelerator.h"
#include "bus.h"
#include "cache.h"
#include "litetern/memory.h"
#include "timer.h"

#define TIMEOUT_US           250000u   /* Without a result for so long, a list has failed. */
#define ABORT_US             10000u    /* Memory that is silent for longer never answers. */

/* The lanes lie one after another. */
#ifdef CSR_ACCELERATOR_LANE1_CONTROL_ADDR
#define LANE_STRIDE          (CSR_ACCELERATOR_LANE1_CONTROL_ADDR - CSR_ACCELERATOR_LANE0_CONTROL_ADDR)
#else
#define LANE_STRIDE          0
#endif
#define LANE(lane, name)     REGISTER(CSR_ACCELERATOR_LANE0_##name##_ADDR + (lane)*LANE_STRIDE)
/* A field of a lane's word: all lanes have the same ones. */
#define STATUS(word, name)   accelerator_lane0_status_##name##_extract(word)

/* So do the ranges, each its first and its last byte. */
#define RANGE_STRIDE         (CSR_ACCELERATOR_READ1_FIRST_ADDR - CSR_ACCELERATOR_READ0_FIRST_ADDR)
#define RANGE(range, name)   REGISTER(CSR_ACCELERATOR_READ0_##name##_ADDR + (range)*RANGE_STRIDE)

int accelerator_identify(uint32_t *version)
{
    if (REGISTER(CSR_ACCELERATOR_IDENTITY_ADDR) != PL_IDENTITY)
        return 0;
    *version = REGISTER(CSR_ACCELERATOR_VERSION_ADDR);
    return accelerator_version_major_extract(*version) == PL_VERSION_MAJOR;
}

struct softmax accelerator_softmax(void)
{
    uint32_t word = REGISTER(CSR_ACCELERATOR_SOFTMAX_ADDR);

    return (struct softmax){
        .score_bits    = accelerator_softmax_score_bits_extract(word),
        .steps_per_nat = accelerator_softmax_steps_per_nat_extract(word),
        .exp_bits      = accelerator_softmax_exp_bits_extract(word),
        .mantissa_bits = accelerator_softmax_mantissa_bits_extract(word),
    };
}

/* Lanes -----------------------------------------------------------------------------------------*/

static void start(void *context, uint32_t lane, uint32_t core, uint32_t list, uint32_t destination, uint32_t limit)
{
    (void)context;
    LANE(lane, LIST_ADDRESS)      = list;
    LANE(lane, DESTINATION)       = destination;
    LANE(lane, DESTINATION_LIMIT) = limit;
    barrier();
    LANE(lane, CONTROL)           = accelerator_lane0_control_core_replace(accelerator_lane0_control_start_replace(0, 1), core);
}

static uint32_t progress(void *context, uint32_t lane)
{
    (void)context;
    return LANE(lane, RESULTS);
}

static uint32_t status(void *context, uint32_t lane)
{
    uint32_t word = LANE(lane, STATUS);

    if (STATUS(word, busy) || !STATUS(word, done))
        return ENGINE_PL_BUSY;
    if (!STATUS(word, error))
        return ENGINE_PL_DONE;
    (*(uint32_t *)context)++;
    return STATUS(word, reader_range) || STATUS(word, writer_range) ? ENGINE_PL_RANGE : ENGINE_PL_ERROR;
}

static uint32_t cycles(void *context, uint32_t lane)
{
    (void)context;
    return LANE(lane, CYCLES);
}

/* Waits until the lane is free: nothing may land in memory that its owner takes back. */
static void abort_lane(void *context, uint32_t lane)
{
    uint32_t begin = timer_us();

    (void)context;
    LANE(lane, CONTROL) = accelerator_lane0_control_abort_replace(0, 1);
    while (STATUS(LANE(lane, STATUS), busy) && timer_us() - begin < ABORT_US)
        ;
}

/* Between the two writes nothing more is allowed than before or after. */
static void allow(void *context, uint32_t range, uint32_t first, uint32_t last)
{
    (void)context;
    RANGE(range, LAST)  = 0;
    RANGE(range, FIRST) = first;
    RANGE(range, LAST)  = last;
}

/* The resolution is built in. */
static uint32_t resolve(void *context, const struct softmax *softmax)
{
    struct softmax built = accelerator_softmax();

    (void)context;
    return memcmp(&built, softmax, sizeof(built)) == 0;
}

void accelerator_engine(struct engine_pl *engine_pl, uint32_t *errors)
{
    uint32_t lanes     = REGISTER(CSR_ACCELERATOR_LANES_ADDR);
    uint32_t matmul    = REGISTER(CSR_ACCELERATOR_MATMUL_ADDR);
    uint32_t attention = REGISTER(CSR_ACCELERATOR_ATTENTION_ADDR);

    *engine_pl = (struct engine_pl){
        .context         = errors,
        .memory          = 0,
        .ports           = accelerator_lanes_ports_extract(lanes),
        .queries_max     = accelerator_attention_queries_max_extract(attention),
        .rows_max        = accelerator_attention_rows_max_extract(attention),
        .row_weights_max = accelerator_matmul_row_weights_max_extract(matmul),
        .topk_max        = accelerator_matmul_topk_max_extract(matmul),
        .timeout_us      = TIMEOUT_US,
        .start           = start,
        .progress        = progress,
        .status          = status,
        .cycles          = cycles,
        .abort           = abort_lane,
        .clean           = cache_clean,
        .invalidate      = cache_invalidate,
        .microseconds    = timer_us,
        .allow           = allow,
        .resolve         = resolve,
    };
    if (engine_pl->ports > ENGINE_PORTS_MAX)
        engine_pl->ports = ENGINE_PORTS_MAX;
}
