/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#include "cores_run.h"
#include "drivers/accelerator.h"
#include "drivers/console.h"
#include "litetern/formats.h"
#include "litetern/numerics.h"
#include "selftest.h"

#define RESULTS_MAX 2048           /* Bytes. */
#define TRIT_BYTES  243u           /* Values of a byte of five trits. */
#define TIMEOUT_US  2000000u

struct selftest_case {
    const char *name;
    uint32_t core, format, rows, columns, queries;  /* Attention: columns is head_dim. */
};

static const struct selftest_case cases[] = {
    {"matmul, ternary",    ENGINE_CORE_MATMUL,    FORMAT_TERNARY, 24, 200, 0},
    {"matmul, one row",    ENGINE_CORE_MATMUL,    FORMAT_TERNARY, 1,  40,  0},
    {"matmul, int8",       ENGINE_CORE_MATMUL,    FORMAT_INT8,    17, 96,  0},
    {"attention",          ENGINE_CORE_ATTENTION, 0,              19, 32,  1},
    {"attention, one row", ENGINE_CORE_ATTENTION, 0,              1,  8,   1},
};

/* What the cores read and write. Not cleared at the start: each case fills it. */
static struct {
    uint64_t list[16]                                __attribute__((aligned(ENGINE_ALIGNMENT)));
    uint8_t  stream[4096]                            __attribute__((aligned(ENGINE_ALIGNMENT)));
    uint8_t  results[RESULTS_MAX]                    __attribute__((aligned(ENGINE_ALIGNMENT)));
    uint8_t  expected[RESULTS_MAX]                   __attribute__((aligned(ENGINE_ALIGNMENT)));
    struct cores_run run;
} work __attribute__((section(".noinit")));

static struct cores_memory memory = {.bytes = UINT32_MAX};
static struct cores_softmax attention;

static uint32_t random_state = 1;

static uint8_t random_byte(void)
{
    random_state = random_state*1664525u + 1013904223u;
    return (uint8_t)(random_state >> 24);
}

static uint8_t *put_word(uint8_t *to, uint64_t word)
{
    memcpy(to, &word, sizeof(word));
    return to + sizeof(word);
}

static uint8_t *put_random(uint8_t *to, uint32_t bytes, uint32_t values)
{
    while (bytes--)
        *to++ = (uint8_t)(random_byte() % values);
    return to;
}

/* [header][x][rows]; returns its end. */
static uint8_t *put_matmul(uint8_t *to, const struct selftest_case *c)
{
    uint32_t ternary = c->format == FORMAT_TERNARY, per_beat = ternary ? TERNARY_PER_BEAT : INT8_PER_BEAT;
    uint32_t beats   = (c->columns + per_beat - 1)/per_beat;

    to = put_word(to, matmul_header_pack(c->rows, beats, c->format, 1, REDUCE_NONE, 0));
    to = put_random(to, beats*BEAT_BYTES*(ternary ? TRITS_PER_BYTE : 1), 256);
    return put_random(to, c->rows*beats*BEAT_BYTES, ternary ? TRIT_BYTES : 256);
}

/* [K header][query][K rows][V header][V rows]; returns its end. */
static uint8_t *put_attention(uint8_t *to, const struct selftest_case *c)
{
    uint32_t beats = c->columns/BEAT_BYTES;

    to = put_word(to, k_header_pack(c->rows, beats, c->queries, 0));
    for (uint32_t i = 0; i < c->queries; i++) {
        to = put_word(to, query_header_pack(20000 + 256u*random_byte(), random_byte() & EXPONENT_MAX, c->rows));
        to = put_random(to, c->columns, 256);
    }
    to = put_random(to, c->rows*c->columns, 256);
    to = put_word(to, v_header_pack(c->rows, beats, c->queries, 0));
    return put_random(to, c->rows*c->columns, 256);
}

/* What lanes and C core may touch from now on: list and stream, results; or nothing. */
static void allow(const struct engine_pl *pl, int on)
{
    uint32_t list = (uint32_t)(uintptr_t)work.list, results = (uint32_t)(uintptr_t)work.results;

    for (uint32_t range = 0; range < ENGINE_RANGES; range++)
        memory.range[range] = (struct cores_range){UINT32_MAX, 0};
    if (on) {
        memory.range[ENGINE_RANGE_ARENA]   = (struct cores_range){list,    list + sizeof(work.list) + sizeof(work.stream) - 1};
        memory.range[ENGINE_RANGE_RESULTS] = (struct cores_range){results, results + 2*RESULTS_MAX - 1};
    }
    for (uint32_t range = 0; range < ENGINE_RANGES; range++)
        pl->allow(pl->context, range, memory.range[range].first, memory.range[range].last);
}

static uint32_t wait(const struct engine_pl *pl, uint32_t lane)
{
    uint32_t start = pl->microseconds(), state;

    while ((state = pl->status(pl->context, lane)) == ENGINE_PL_BUSY && pl->microseconds() - start < TIMEOUT_US)
        ;
    if (state == ENGINE_PL_BUSY)
        pl->abort(pl->context, lane);
    return state;
}

/* 1 if the lane's results are those of the C core. */
static int passes(const struct engine_pl *pl, uint32_t lane, const struct selftest_case *c)
{
    uint8_t *end   = c->core == ENGINE_CORE_MATMUL ? put_matmul(work.stream, c) : put_attention(work.stream, c);
    uint32_t bytes = (uint32_t)(end - work.stream), written, state;
    uint32_t list  = (uint32_t)(uintptr_t)work.list, results = (uint32_t)(uintptr_t)work.results;

    work.list[0] = descriptor_pack(1, 0, (uint32_t)(uintptr_t)work.stream/BEAT_BYTES, bytes/BEAT_BYTES);
    memset(work.results, 0xA5, RESULTS_MAX);
    memset(work.expected, 0xA5, RESULTS_MAX);
    if (cores_run_list(&work.run, &memory, &attention, c->core, list, (uint32_t)(uintptr_t)work.expected, RESULTS_MAX, &written, NULL))
        return 0;
    pl->clean(&work, sizeof(work));
    pl->start(pl->context, lane, c->core, list, results, RESULTS_MAX);
    state = wait(pl, lane);
    pl->invalidate(work.results, RESULTS_MAX);
    return state == ENGINE_PL_DONE && pl->progress(pl->context, lane) == written && memcmp(work.results, work.expected, RESULTS_MAX) == 0;
}

/* 1 if the lane refuses a piece that ends behind what it may read. */
static int refuses(const struct engine_pl *pl, uint32_t lane)
{
    work.list[0] = descriptor_pack(1, 0, (uint32_t)(uintptr_t)work.stream/BEAT_BYTES, sizeof(work.stream)/BEAT_BYTES + 1);
    pl->clean(work.list, sizeof(work.list));
    pl->start(pl->context, lane, ENGINE_CORE_MATMUL, (uint32_t)(uintptr_t)work.list, (uint32_t)(uintptr_t)work.results, RESULTS_MAX);
    return wait(pl, lane) == ENGINE_PL_RANGE;
}

uint32_t selftest(const struct engine_pl *pl)
{
    struct softmax softmax = accelerator_softmax();
    uint32_t failed = 0;

    allow(pl, 1);
    if (!cores_resolve(&attention, &softmax))
        console_print("selftest: no attention core of a resolution that this firmware knows\n");
    for (uint32_t lane = 0; lane < pl->ports; lane++) {
        int refused = refuses(pl, lane);
        console_print("selftest: lane %u, address out of range: %s\n", lane, refused ? "refused" : "NOT REFUSED");
        failed += !refused;
        for (uint32_t i = 0; i < sizeof(cases)/sizeof(cases[0]); i++) {
            int ok = passes(pl, lane, &cases[i]);
            console_print("selftest: lane %u, %s, %u x %u: %s, %u cycles\n", lane, cases[i].name, cases[i].rows, cases[i].columns,
                          ok ? "equal" : "DIFFERS", pl->cycles(pl->context, lane));
            failed += !ok;
        }
    }
    allow(pl, 0);
    console_print("selftest: %s\n", failed ? "failed" : "passed");
    return failed;
}
