/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Memory of the engine: shapes from the image, buffers in the arena, the longest context that fits. */

#include <string.h>

#include "engine_private.h"
#include "ops.h"

#define CONTEXT_MIN 16             /* A smaller one is of no use; also the granule of `capacity`: whole bursts for any head_dim. */

/* Shapes ----------------------------------------------------------------------------------------*/

static uint32_t round_up(uint32_t value, uint32_t granule)
{
    return (value + granule - 1)/granule*granule;
}

static void shape_group(struct engine *engine, uint32_t kind, uint32_t format, uint32_t rows, uint32_t columns, uint32_t planes)
{
    struct engine_group *group = &engine->groups[kind];
    uint32_t per_beat = format == FORMAT_TERNARY ? TERNARY_PER_BEAT : INT8_PER_BEAT;
    uint32_t beats    = (columns*planes + per_beat - 1)/per_beat;
    uint32_t first    = engine->pl.ports == 1 ? rows : round_up(rows/2, ENGINE_LINE_ROWS);

    group->format    = format;
    group->rows      = rows;
    group->columns   = columns;
    group->planes    = planes;
    group->row_bytes = beats*BEAT_BYTES;
    group->x_bytes   = beats*BEAT_BYTES*(format == FORMAT_TERNARY ? TRITS_PER_BYTE : 1);
    group->first[0]  = 0;
    group->count[0]  = first < rows ? first : rows;
    group->first[1]  = group->count[0];
    group->count[1]  = rows - group->count[0];
    memset(group->records, 0, sizeof(group->records));
}

/* The head; a shortlist is found by all ports and scored in two halves. */
static void shape_head(struct engine *engine)
{
    const struct image_header *h       = engine->header;
    struct engine_group *group         = &engine->groups[GROUP_HEAD];
    struct engine_shortlist *shortlist = &engine->shortlist;
    uint32_t ternary = h->head_format != IMAGE_HEAD_INT8, half;

    shape_group(engine, GROUP_HEAD, ternary ? FORMAT_TERNARY : FORMAT_INT8, h->vocab, h->hidden, ternary ? h->head_planes : 1);
    shortlist->count = h->shortlist;
    for (uint32_t port = 0; port < engine->pl.ports; port++)
        group->records[port] = group->count[port] < shortlist->count ? group->count[port] : shortlist->count;
    half = engine->pl.ports == 1 ? shortlist->count : round_up(shortlist->count/2, ENGINE_LINE_ROWS);
    shortlist->first[0]  = 0;
    shortlist->number[0] = half < shortlist->count ? half : shortlist->count;
    shortlist->first[1]  = half;
    shortlist->number[1] = shortlist->count - shortlist->number[0];
}

/* What the exact scores of a token read. */
static uint32_t shortlist_bytes(const struct engine *engine)
{
    const struct engine_shortlist *shortlist = &engine->shortlist;

    if (!shortlist->count)
        return 0;
    return shortlist->count*engine->header->hidden + (shortlist->number[1] ? 2 : 1)*(BEAT_BYTES + engine->header->hidden);
}

static void shape(struct engine *engine)
{
    const struct image_header *h = engine->header;

    engine->q_width  = h->heads*h->head_dim;
    engine->kv_width = h->kv_heads*h->head_dim;
    engine->group    = h->heads/h->kv_heads;
    shape_group(engine, GROUP_QKV,     h->body_format, engine->q_width + 2*engine->kv_width, h->hidden, 1);
    shape_group(engine, GROUP_O,       h->body_format, h->hidden,                            engine->q_width, 1);
    shape_group(engine, GROUP_GATE_UP, h->body_format, 2*h->ffn,                             h->hidden, 1);
    shape_group(engine, GROUP_DOWN,    h->body_format, h->hidden,                            h->ffn, 1);
    shape_head(engine);
    engine->weight_bytes = engine->head_bytes = 0;
    for (uint32_t kind = 0; kind < GROUPS; kind++) {
        const struct engine_group *group = &engine->groups[kind];
        uint64_t bytes = (uint64_t)group->rows*group->row_bytes + (group->count[1] ? 2 : 1)*(BEAT_BYTES + group->x_bytes);
        if (kind == GROUP_HEAD)
            engine->head_bytes = bytes + shortlist_bytes(engine);
        else
            engine->weight_bytes += h->layers*bytes;
    }
}

/* Arena -----------------------------------------------------------------------------------------*/

/* Next free byte, as an integer: with a base of 0 the arena is only measured. */
struct carver { uint64_t next; };

static void *carve(struct carver *carver, uint64_t bytes)
{
    uint64_t start = carver->next;

    carver->next += (bytes + ENGINE_ALIGNMENT - 1)/ENGINE_ALIGNMENT*ENGINE_ALIGNMENT;
    return (void *)(uintptr_t)start;
}

static uint32_t widest(const struct engine *engine)
{
    uint32_t width = engine->header->hidden > engine->header->ffn ? engine->header->hidden : engine->header->ffn;

    return width > engine->q_width ? width : engine->q_width;
}

/* Bytes of a group's results; a shortlist's are records, then scores. */
static uint64_t y_bytes(const struct engine *engine, uint32_t kind)
{
    uint32_t rows = round_up(engine->groups[kind].rows, ENGINE_LINE_ROWS);

    if (kind == GROUP_HEAD && engine->shortlist.count)
        rows = ENGINE_PORTS_MAX*ENGINE_RECORDS_ROOM;
    return (uint64_t)rows*ENGINE_BATCH*sizeof(int32_t);
}

/* Places results: in the memory for them what fits there, first the attention's, then each group's by itself; in the arena the rest. */
static void place_results(struct engine *engine, struct carver *arena)
{
    const struct image_header *h = engine->header;
    uint64_t attention    = (uint64_t)h->heads*(h->head_dim + 2)*sizeof(int32_t), room = engine->pl.results_bytes, rest = 0;
    struct carver results = { engine->pl.results };
    int32_t *y, *others;

    for (uint32_t port = 0; port < ENGINE_PORTS_MAX; port++)
        engine->attention[port] = carve(ENGINE_PORTS_MAX*(attention + ENGINE_ALIGNMENT) <= room ? &results : arena, attention);
    room -= results.next - engine->pl.results;
    for (uint32_t kind = 0; kind < GROUPS; kind++)
        if (y_bytes(engine, kind) > room && y_bytes(engine, kind) > rest)
            rest = y_bytes(engine, kind);
    y      = carve(&results, 0);
    others = carve(arena, rest);
    for (uint32_t kind = 0; kind < GROUPS; kind++)
        engine->groups[kind].y = y_bytes(engine, kind) <= room ? y : others;
}

/* Places everything for a context; returns the bytes. */
static uint64_t place(struct engine *engine, uint64_t arena, uint32_t sessions, uint32_t context)
{
    const struct image_header *h = engine->header;
    struct carver carver = { arena };
    size_t record;

    engine->sessions = sessions;
    engine->context  = context;
    engine->capacity = round_up(context, CONTEXT_MIN);

    /* CPU and DMA reader. */
    for (uint32_t kind = 0; kind < GROUPS; kind++) {
        struct engine_group *group = &engine->groups[kind];
        for (uint32_t port = 0; port < ENGINE_PORTS_MAX; port++)
            group->piece[port] = carve(&carver, BEAT_BYTES + (uint64_t)group->x_bytes*ENGINE_BATCH);
    }
    if (engine->shortlist.count) {
        for (uint32_t port = 0; port < ENGINE_PORTS_MAX; port++) {
            engine->shortlist.piece[port] = carve(&carver, BEAT_BYTES + (uint64_t)h->hidden);
            engine->shortlist.lists[port] = carve(&carver, (engine->shortlist.number[port] + 1)*(uint64_t)BEAT_BYTES);
        }
    }
    engine->lists      = carve(&carver, ((uint64_t)h->layers*GROUP_HEAD + 1)*ENGINE_PORTS_MAX*2*BEAT_BYTES);
    engine->unit_count = h->kv_heads*engine_passes(engine);
    engine->units      = carve(&carver, (uint64_t)engine->unit_count*sizeof(struct engine_unit));
    record             = BEAT_BYTES + (size_t)engine->pl.queries_max*(BEAT_BYTES + h->head_dim);
    for (uint32_t i = 0; i < engine->unit_count; i++) {
        uint8_t  *piece    = carve(&carver, record);
        uint64_t *v_header = carve(&carver, BEAT_BYTES);
        if (arena) {
            engine->units[i].piece    = piece;
            engine->units[i].v_header = v_header;
        }
    }
    for (uint32_t i = 0; i < sessions; i++) {
        struct engine_session *session = &engine->session[i];
        session->kv     = carve(&carver, (uint64_t)h->layers*2*engine->kv_width*engine->capacity);
        session->lists  = carve(&carver, (uint64_t)h->layers*engine->unit_count*4*BEAT_BYTES);
    }

    engine->read_bytes = carver.next - arena;

    /* DMA writer. */
    place_results(engine, &carver);
    engine->written_bytes = carver.next - arena - engine->read_bytes;

    /* CPU alone. */
    engine->x         = carve(&carver, (uint64_t)h->hidden*ENGINE_BATCH*sizeof(float));
    engine->normed    = carve(&carver, (uint64_t)widest(engine)*ENGINE_BATCH*sizeof(float));
    engine->qkv       = carve(&carver, (uint64_t)engine->groups[GROUP_QKV].rows*ENGINE_BATCH*sizeof(float));
    engine->mixed     = carve(&carver, (uint64_t)engine->q_width*ENGINE_BATCH*sizeof(float));
    engine->activated = carve(&carver, (uint64_t)h->ffn*ENGINE_BATCH*sizeof(float));
    engine->logits    = carve(&carver, (uint64_t)h->vocab*ENGINE_BATCH*sizeof(float));
    engine->k_factors = carve(&carver, (uint64_t)h->layers*h->kv_heads*sizeof(float));
    for (uint32_t i = 0; i < sessions; i++)
        engine->session[i].prompt = carve(&carver, (uint64_t)context*sizeof(uint32_t));
    return carver.next - arena;
}

/* Longest context that a number of bytes holds; 0 if none does. */
static uint32_t fit(struct engine *engine, size_t bytes, uint32_t sessions)
{
    uint32_t low = 0, high = engine->header->context;

    high = high < engine->pl.rows_max ? high : engine->pl.rows_max;
    while (low < high) {
        uint32_t middle = low + (high - low + 1)/2;
        if (place(engine, 0, sessions, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Layout ----------------------------------------------------------------------------------------*/

/* Before anything counts ports or passes. */
static int usable(const struct engine_pl *pl)
{
    return (pl->ports == 1 || pl->ports == 2) && pl->queries_max > 0;
}

static int supported(const struct engine *engine)
{
    uint32_t longest = engine->pl.row_weights_max;

    return widest(engine) <= longest && engine->header->hidden*engine->groups[GROUP_HEAD].planes <= longest;
}

uint32_t engine_layout(struct engine *engine, const void *image, void *arena, size_t arena_bytes, uint32_t sessions)
{
    const struct image_header *h = image;
    struct softmax softmax;
    uint32_t context, least;

    engine->header = h;
    engine->layers = (const struct image_layer *)(h + 1);
    if (!usable(&engine->pl))
        return ENGINE_ERROR_PL;
    shape(engine);
    if (!supported(engine))
        return ENGINE_ERROR_PL;
    if (engine->shortlist.count > engine->pl.topk_max)
        return ENGINE_ERROR_SHORTLIST;
    softmax = image_softmax(h);
    if (!engine->pl.resolve(engine->pl.context, &softmax))
        return ENGINE_ERROR_SOFTMAX;
    context = fit(engine, arena_bytes, sessions);
    least   = h->context < CONTEXT_MIN ? h->context : CONTEXT_MIN;
    if (context < least)
        return engine->pl.rows_max < least ? ENGINE_ERROR_PL : ENGINE_ERROR_MEMORY;
    place(engine, (uintptr_t)arena, sessions, context);
    engine->arena = (uintptr_t)arena;
    if (engine->shortlist.count)
        engine_clear_logits(engine);
    for (uint32_t i = 0; i < h->layers*h->kv_heads; i++) {
        const struct image_layer *layer = &engine->layers[i/h->kv_heads];
        engine->k_factors[i] = ops_k_factor(engine_floats(engine, layer->k_steps)[i % h->kv_heads], h->head_dim, h->steps_per_nat);
    }
    return ENGINE_ERROR_NONE;
}

size_t engine_arena_bytes(const void *image, uint32_t sessions, uint32_t context, const struct engine_pl *pl)
{
    struct engine engine;
    uint64_t bytes;

    if (!usable(pl) || sessions == 0 || sessions > SESSIONS_MAX || context > IMAGE_CONTEXT_MAX)
        return 0;
    engine.pl     = *pl;
    engine.header = image;
    shape(&engine);
    bytes = place(&engine, 0, sessions, context);
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}
