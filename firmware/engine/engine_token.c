/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * A token through the model: model/numerics/exact.py, bit for bit, without ever waiting.
 *
 * A part is what the PL computes from one doorbell: the CPU works on rows as they land, and when all have, it prepares the next part.
 */

#include <string.h>

#include "engine_private.h"
#include "ops.h"

/* Start -----------------------------------------------------------------------------------------*/

void engine_ring(struct engine *engine, uint32_t port, uint32_t core, const void *list, const void *destination, uint32_t bytes)
{
    struct engine_lane *lane = &engine->lane[port];

    lane->active   = bytes != 0;
    lane->expected = bytes;
    lane->done     = bytes == 0;
    lane->landed   = 0;
    lane->consumed = 0;
    if (bytes)
        engine->pl.start(engine->pl.context, port, core, engine_bus(engine, list), engine_bus(engine, destination), bytes);
}

/* Bytes that a port returns of a group. */
static uint32_t result_bytes(const struct engine_group *group, uint32_t port)
{
    if (group->records[port])
        return group->records[port]*BEAT_BYTES;
    return (group->count[port]*ENGINE_BATCH*4 + BEAT_BYTES - 1) & ~(BEAT_BYTES - 1u);
}

/* Quantises x for a group and starts it. `gain`: norm before it, or NULL. */
static void start_group(struct engine *engine, uint32_t part, const float *x, const float *gain)
{
    const struct engine_group *group;
    int8_t *x8;

    engine->part = part;
    group        = engine_part_group(engine);
    engine->y    = group->y;
    x8           = (int8_t *)group->piece[0] + BEAT_BYTES;
    if (gain) {
        ops_rms_norm(engine->normed, x, gain, engine->header->norm_eps, group->columns);
        x = engine->normed;
    }
    engine->step = ops_quantise(x8, x, group->columns);
    ops_planes(x8, group->columns, group->planes);
    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t bytes = result_bytes(group, port);
        uint32_t first = group->records[port] ? port*ENGINE_RECORDS_ROOM : group->first[port]*ENGINE_BATCH;
        if (port && bytes)
            memcpy(group->piece[port] + BEAT_BYTES, x8, group->columns*group->planes);
        if (bytes)
            engine->pl.clean(group->piece[port], BEAT_BYTES + group->x_bytes);
        engine_ring(engine, port, ENGINE_CORE_MATMUL, engine_group_list(engine, engine->layer, engine_group_of_part(part), port),
                    engine->y + first, bytes);
    }
}

static void start_qkv(struct engine *engine)
{
    const struct image_layer *layer = &engine->layers[engine->layer];

    start_group(engine, ENGINE_PART_QKV, engine->x, engine_floats(engine, layer->attn_norm));
    engine->scale[0] = layer->q_scale*engine->step;
    engine->scale[1] = layer->k_scale*engine->step;
    engine->scale[2] = layer->v_scale*engine->step;
    engine_begin_heads(engine);
}

static void start_o(struct engine *engine)
{
    const struct image_layer *layer = &engine->layers[engine->layer];

    start_group(engine, ENGINE_PART_O, engine->mixed, engine->header->sub_norms ? engine_floats(engine, layer->o_norm) : NULL);
    engine->scale[0] = layer->o_scale*engine->step;
}

static void start_gate_up(struct engine *engine)
{
    const struct image_layer *layer = &engine->layers[engine->layer];

    start_group(engine, ENGINE_PART_GATE_UP, engine->x, engine_floats(engine, layer->ffn_norm));
    engine->scale[0]       = layer->gate_scale*engine->step;
    engine->scale[1]       = layer->up_scale*engine->step;
    engine->activated_rows = 0;
}

static void start_down(struct engine *engine)
{
    const struct image_layer *layer = &engine->layers[engine->layer];

    start_group(engine, ENGINE_PART_DOWN, engine->activated,
                engine->header->sub_norms ? engine_floats(engine, layer->down_norm) : NULL);
    engine->scale[0] = layer->down_scale*engine->step;
}

static void start_head(struct engine *engine)
{
    engine_begin_shortlist(engine);
    start_group(engine, ENGINE_PART_HEAD, engine->x, engine_floats(engine, engine->header->final_norm));
}

static void start_attention(struct engine *engine)
{
    const struct image_header *h         = engine->header;
    const struct engine_session *session = &engine->session[engine->current];

    engine_finish_heads(engine);
    engine->part = ENGINE_PART_ATTENTION;
    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t bytes = 0, first = engine->unit_first[port];
        for (uint32_t i = first; i < first + engine->port_units[port]; i++) {
            const struct engine_unit *unit = &engine->units[i];
            engine->pl.clean(unit->piece, BEAT_BYTES + unit->count*(BEAT_BYTES + h->head_dim));
            bytes += unit->count*(h->head_dim + 2)*(uint32_t)sizeof(int32_t);
        }
        engine_ring(engine, port, ENGINE_CORE_ATTENTION, session->lists + ((size_t)engine->layer*engine->unit_count + first)*4,
                    engine->attention[port], bytes);
    }
}

/* Sequence --------------------------------------------------------------------------------------*/

/* Looks at one port; returns 1 if something new has landed. */
static int look(struct engine *engine, uint32_t port)
{
    struct engine_lane *lane = &engine->lane[port];
    uint32_t status, landed;

    if (!lane->active || lane->done)
        return 0;
    status = engine->pl.status(engine->pl.context, port);  /* First: with DONE, progress is final. */
    landed = engine->pl.progress(engine->pl.context, port);
    if (status == ENGINE_PL_ERROR || status == ENGINE_PL_RANGE || landed > lane->expected ||
        (status == ENGINE_PL_DONE && landed != lane->expected)) {
        engine->failed = status == ENGINE_PL_RANGE ? ENGINE_ERROR_RANGE : ENGINE_ERROR_LIST;
        lane->done     = 1;
        return 0;
    }
    if (status == ENGINE_PL_BUSY && landed == lane->landed)
        return 0;
    lane->landed = landed;
    lane->done   = status == ENGINE_PL_DONE;
    if (engine->part == ENGINE_PART_ATTENTION) {
        engine_take_units(engine, port);
    } else if (engine->part != ENGINE_PART_HEAD || !engine->shortlist.count) {
        engine_take_rows(engine, port);
    } else if (engine->shortlist.scoring && lane->done) {
        engine_take_scores(engine, port);
    }
    return 1;
}

/* All results of a part are there: what they cost, and the next part. Returns 1 when the token is through. */
static int next_part(struct engine *engine)
{
    uint32_t longest = 0;

    for (uint32_t port = 0; port < engine->pl.ports; port++)
        if (engine->lane[port].active) {
            uint32_t cycles = engine->pl.cycles(engine->pl.context, port);
            longest = cycles > longest ? cycles : longest;
        }
    engine->report.pl_cycles[engine->part] += longest;
    switch (engine->part) {
    case ENGINE_PART_QKV:
        start_attention(engine);
        return 0;
    case ENGINE_PART_ATTENTION:
        start_o(engine);
        return 0;
    case ENGINE_PART_O:
        start_gate_up(engine);
        return 0;
    case ENGINE_PART_GATE_UP:
        start_down(engine);
        return 0;
    case ENGINE_PART_DOWN:
        if (++engine->layer < engine->header->layers)
            start_qkv(engine);
        else if (engine->with_head)
            start_head(engine);
        else
            return 1;
        return 0;
    default:
        if (!engine_is_listing(engine))
            return 1;
        if (engine_start_scores(engine))
            return 0;
        engine->failed = ENGINE_ERROR_LIST;
        return 1;
    }
}

static void give_up(struct engine *engine)
{
    for (uint32_t port = 0; port < engine->pl.ports; port++)
        if (engine->lane[port].active)
            engine->pl.abort(engine->pl.context, port);
}

/* Bytes that the lists of the token read. */
static uint32_t bytes_read(const struct engine *engine, uint32_t positions)
{
    const struct image_header *h = engine->header;
    uint64_t records = 0, bytes;

    for (uint32_t i = 0; i < engine->unit_count; i++)
        records += 2*BEAT_BYTES + engine->units[i].count*(BEAT_BYTES + h->head_dim) + 2*positions*h->head_dim;
    bytes = engine->weight_bytes + (engine->with_head ? engine->head_bytes : 0) + h->layers*records;
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

void engine_token_begin(struct engine *engine, uint32_t token)
{
    const struct image_header *h   = engine->header;
    struct engine_session *session = &engine->session[engine->current];
    const int8_t *row = (const int8_t *)h + h->embedding + (size_t)token*h->hidden;

    memset(&engine->report, 0, sizeof(engine->report));
    engine->running   = 1;
    engine->token     = token;
    engine->failed    = ENGINE_ERROR_NONE;
    engine->layer     = 0;
    engine->started   = engine->last_news = engine->pl.microseconds();
    engine->report.pl_bytes = bytes_read(engine, session->position + 1);
    ops_embed(engine->x, row, engine_floats(engine, h->embedding_steps)[token], h->hidden);
    engine_patch_position(engine, session, session->position + 1);
    start_qkv(engine);
}

int engine_token_poll(struct engine *engine)
{
    uint32_t now, done = 1;
    int news = 0;

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        news |= look(engine, port);
        done &= engine->lane[port].done;
    }
    if (engine->failed) {
        give_up(engine);
        return 1;
    }
    if (done) {
        engine->last_news = engine->pl.microseconds();
        return next_part(engine);
    }
    now = engine->pl.microseconds();
    if (news)
        engine->last_news = now;
    else if (now - engine->last_news > engine->pl.timeout_us) {
        engine->failed = ENGINE_ERROR_TIMEOUT;
        give_up(engine);
        return 1;
    }
    return 0;
}
