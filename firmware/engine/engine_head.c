/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * The hybrid head: each port's core keeps the best of its ternary rows, the best of all ports are the shortlist, and the int8 rows of the
 * shortlist, a descriptor each, give their logits. All other logits stay at the floor.
 */

#include <string.h>

#include "engine_private.h"
#include "ops.h"

_Static_assert(ENGINE_BATCH == 1, "a shortlist belongs to one vector");

/* Start -----------------------------------------------------------------------------------------*/

/* Every logit at the floor: those of the shortlist return there before the next one. */
void engine_clear_logits(struct engine *engine)
{
    struct engine_shortlist *shortlist = &engine->shortlist;

    for (uint32_t i = 0; i < engine->header->vocab; i++)
        engine->logits[i] = HEAD_FLOOR;
    shortlist->found = 0;
}

void engine_begin_shortlist(struct engine *engine)
{
    struct engine_shortlist *shortlist = &engine->shortlist;

    for (uint32_t i = 0; i < shortlist->found; i++)
        engine->logits[shortlist->rows[i]] = HEAD_FLOOR;
    shortlist->found = shortlist->scoring = 0;
}

/* Shortlist -------------------------------------------------------------------------------------*/

/* Merges the ports' records, which come best first; the rows of port 0 are the lower ones and win ties. 0: a row is not there. */
static int merge(struct engine *engine)
{
    const struct engine_group *group   = &engine->groups[GROUP_HEAD];
    struct engine_shortlist *shortlist = &engine->shortlist;
    const uint64_t *record[ENGINE_PORTS_MAX] = { 0 };
    uint32_t left[ENGINE_PORTS_MAX] = { 0 };

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        record[port] = (const uint64_t *)(const void *)(engine->y + port*ENGINE_RECORDS_ROOM);
        left[port]   = group->records[port];
        if (left[port])
            engine->pl.invalidate(record[port], left[port]*sizeof(uint64_t));
    }
    while (shortlist->found < shortlist->count) {
        uint32_t port = !left[0] || (left[1] && (int32_t)MATMUL_RECORD_VALUE(*record[1]) > (int32_t)MATMUL_RECORD_VALUE(*record[0]));
        uint32_t row  = MATMUL_RECORD_ROW(*record[port]++);
        if (row >= group->count[port])
            return 0;
        shortlist->rows[shortlist->found++] = group->first[port] + row;
        left[port]--;
    }
    return 1;
}

/* Both ports have delivered their records: half of the shortlist goes to each. */
int engine_start_scores(struct engine *engine)
{
    const struct image_header *h       = engine->header;
    struct engine_shortlist *shortlist = &engine->shortlist;
    const uint8_t *x8   = engine->groups[GROUP_HEAD].piece[0] + BEAT_BYTES;
    const uint8_t *head = (const uint8_t *)h + h->head;

    if (!merge(engine))
        return 0;
    shortlist->scoring = 1;
    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t first = shortlist->first[port], count = shortlist->number[port];
        uint64_t *list = shortlist->lists[port];
        if (count) {
            memcpy(shortlist->piece[port] + BEAT_BYTES, x8, h->hidden);
            engine->pl.clean(shortlist->piece[port], BEAT_BYTES + h->hidden);
            *list++ = engine_descriptor(engine, shortlist->piece[port], BEAT_BYTES + h->hidden, 0);
            for (uint32_t i = 0; i < count; i++)
                *list++ = engine_descriptor(engine, head + (size_t)shortlist->rows[first + i]*h->hidden, h->hidden, i + 1 == count);
            engine->pl.clean(shortlist->lists[port], (count + 1)*sizeof(uint64_t));
        }
        engine_ring(engine, port, ENGINE_CORE_MATMUL, shortlist->lists[port], engine->y + first, (count + 1)/2*BEAT_BYTES);
    }
    return 1;
}

/* All scores of a port have landed. */
void engine_take_scores(struct engine *engine, uint32_t port)
{
    const struct engine_shortlist *shortlist = &engine->shortlist;
    const float *steps = engine_floats(engine, engine->header->head_steps);
    uint32_t first     = shortlist->first[port];

    engine->pl.invalidate(engine->y + first, shortlist->number[port]*sizeof(int32_t));
    for (uint32_t i = first; i < first + shortlist->number[port]; i++) {
        uint32_t row = shortlist->rows[i];
        ops_dequantise_rows(engine->logits + row, engine->y + i, steps + row, engine->step, 1);
    }
}
