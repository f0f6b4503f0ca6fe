/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * A token through the model: model/exact.py, bit for bit, without ever waiting.
 *
 * A part is what the PL computes from one doorbell: the CPU works on rows as they land, and when all have, it prepares the next part.
 */

#include <string.h>

#include "engine_private.h"
#include "ops.h"

static const uint8_t group_of_part[ENGINE_PARTS] = {
    [ENGINE_PART_QKV]     = GROUP_QKV,
    [ENGINE_PART_O]       = GROUP_O,
    [ENGINE_PART_GATE_UP] = GROUP_GATE_UP,
    [ENGINE_PART_DOWN]    = GROUP_DOWN,
    [ENGINE_PART_HEAD]    = GROUP_HEAD,
};

static const struct engine_group *part_group(const struct engine *engine)
{
    return &engine->groups[group_of_part[engine->part]];
}

/* Start -----------------------------------------------------------------------------------------*/

static void ring(struct engine *engine, uint32_t port, uint32_t core, const void *list, const void *destination, uint32_t bytes)
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

/* Quantises x for a group and starts it. `gain`: norm before it, or NULL. */
static void start_group(struct engine *engine, uint32_t part, const float *x, const float *gain)
{
    const struct engine_group *group;
    int8_t *x8;

    engine->part = part;
    group        = part_group(engine);
    x8           = (int8_t *)group->piece[0] + BEAT_BYTES;
    if (gain) {
        ops_rms_norm(engine->normed, x, gain, engine->header->norm_eps, group->columns);
        x = engine->normed;
    }
    engine->step = ops_quantise(x8, x, group->columns);
    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t bytes = group->count[port] ? (group->count[port]*ENGINE_BATCH*4 + BEAT_BYTES - 1) & ~(BEAT_BYTES - 1u) : 0;
        if (port && bytes)
            memcpy(group->piece[port] + BEAT_BYTES, x8, group->columns);
        if (bytes)
            engine->pl.clean(group->piece[port], BEAT_BYTES + group->x_bytes);
        ring(engine, port, ENGINE_CORE_MATMUL, engine_group_list(engine, engine->layer, group_of_part[part], port),
             engine->y + group->first[port]*ENGINE_BATCH, bytes);
    }
}

static void start_qkv(struct engine *engine)
{
    const struct image_layer *layer = &engine->layers[engine->layer];

    start_group(engine, ENGINE_PART_QKV, engine->x, engine_floats(engine, layer->attn_norm));
    engine->scale[0] = layer->q_scale*engine->step;
    engine->scale[1] = layer->k_scale*engine->step;
    engine->scale[2] = layer->v_scale*engine->step;
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
    start_group(engine, ENGINE_PART_HEAD, engine->x, engine_floats(engine, engine->header->final_norm));
}

/* Attention: what stands between its results and those of q, k, v -----------------------------------*/

/* Appends k and v of this position to the cache. */
static void append_kv(struct engine *engine, struct engine_session *session)
{
    const struct image_header *h    = engine->header;
    const struct image_layer *layer = &engine->layers[engine->layer];
    const float *k = engine->qkv + engine->q_width, *v = k + engine->kv_width;

    for (uint32_t head = 0; head < h->kv_heads; head++) {
        int8_t *key   = (int8_t *)engine_kv(engine, session, engine->layer, head, 0) + (size_t)session->position*h->head_dim;
        int8_t *value = (int8_t *)engine_kv(engine, session, engine->layer, head, 1) + (size_t)session->position*h->head_dim;
        ops_quantise_fixed(key,   k + head*h->head_dim, engine_floats(engine, layer->k_steps)[head], h->head_dim);
        ops_quantise_fixed(value, v + head*h->head_dim, engine_floats(engine, layer->v_steps)[head], h->head_dim);
        engine->pl.clean(key, h->head_dim);
        engine->pl.clean(value, h->head_dim);
    }
}

/* Quantises the query heads into the K records. */
static void place_queries(struct engine *engine, uint32_t positions)
{
    uint32_t head_dim = engine->header->head_dim, record = BEAT_BYTES + head_dim;

    for (uint32_t i = 0; i < engine->unit_count; i++) {
        const struct engine_unit *unit = &engine->units[i];
        float factor  = engine->k_factors[engine->layer*engine->header->kv_heads + unit->kv_head];
        uint8_t *next = unit->piece + BEAT_BYTES;
        for (uint32_t q = 0; q < unit->count; q++, next += record) {
            float step      = ops_quantise((int8_t *)next + BEAT_BYTES, engine->qkv + (unit->query + q)*head_dim, head_dim);
            uint64_t header = query_header_pack(ops_score_multiplier(step, factor), positions);
            memcpy(next, &header, sizeof(header));
        }
        engine->pl.clean(unit->piece, BEAT_BYTES + unit->count*record);
    }
}

static void start_attention(struct engine *engine)
{
    const struct image_header *h   = engine->header;
    struct engine_session *session = &engine->session[engine->current];
    const float *cosine = engine_floats(engine, h->cosine) + (size_t)session->position*(h->head_dim/2);
    const float *sine   = engine_floats(engine, h->sine)   + (size_t)session->position*(h->head_dim/2);

    ops_rope(engine->qkv, cosine, sine, h->head_dim, h->heads + h->kv_heads);
    append_kv(engine, session);
    place_queries(engine, session->position + 1);
    engine->part = ENGINE_PART_ATTENTION;
    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t bytes = 0, first = engine->unit_first[port];
        for (uint32_t i = first; i < first + engine->port_units[port]; i++)
            bytes += engine->units[i].count*(h->head_dim + 2)*(uint32_t)sizeof(int32_t);
        ring(engine, port, ENGINE_CORE_ATTENTION, session->lists + ((size_t)engine->layer*engine->unit_count + first)*4,
             engine->attention[port], bytes);
    }
}

/* Work on results as they land ----------------------------------------------------------------------*/

/* Rows first … end - 1 of q, k, v: three sections with their own scales. */
static void take_qkv(struct engine *engine, uint32_t first, uint32_t end)
{
    uint32_t ends[3] = { engine->q_width, engine->q_width + engine->kv_width, engine->q_width + 2*engine->kv_width };

    for (uint32_t section = 0; section < 3 && first < end; section++) {
        uint32_t stop = end < ends[section] ? end : ends[section];
        if (first < stop) {
            ops_dequantise(engine->qkv + first, engine->y + first, engine->scale[section], stop - first);
            first = stop;
        }
    }
}

/* Gate and up rows that have both landed. */
static void take_gate_up(struct engine *engine)
{
    const struct engine_group *group = part_group(engine);
    uint32_t ffn = engine->header->ffn, gate = 0, up = 0, ready;

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t first = group->first[port], end = first + engine->lane[port].consumed;
        if (first <= gate && end > gate)
            gate = end < ffn ? end : ffn;
        if (end > ffn && first <= ffn + up)
            up = end - ffn;
    }
    ready = gate < up ? gate : up;
    if (ready > engine->activated_rows) {
        uint32_t row = engine->activated_rows;
        ops_activate(engine->header->activation, engine->activated + row, engine->y + row, engine->scale[0],
                     engine->y + ffn + row, engine->scale[1], ready - row);
        engine->activated_rows = ready;
    }
}

static void take_rows(struct engine *engine, uint32_t port)
{
    const struct engine_group *group = part_group(engine);
    struct engine_lane *lane = &engine->lane[port];
    uint32_t landed = lane->done ? group->count[port] : lane->landed/(4*ENGINE_BATCH) & ~(ENGINE_LINE_ROWS - 1u);
    uint32_t first  = group->first[port] + lane->consumed, end = group->first[port] + landed, count = landed - lane->consumed;

    if (landed <= lane->consumed || (!lane->done && count < ENGINE_CHUNK_ROWS))
        return;
    engine->pl.invalidate(engine->y + first, count*sizeof(int32_t));
    lane->consumed = landed;
    switch (engine->part) {
    case ENGINE_PART_QKV:
        take_qkv(engine, first, end);
        break;
    case ENGINE_PART_GATE_UP:
        take_gate_up(engine);
        break;
    case ENGINE_PART_HEAD:
        ops_dequantise_rows(engine->logits + first, engine->y + first, engine_floats(engine, engine->header->head_steps) + first,
                            engine->step, count);
        break;
    default:
        ops_residual(engine->x + first, engine->y + first, engine->scale[0], count);
    }
}

static void take_units(struct engine *engine, uint32_t port)
{
    const struct image_header *h = engine->header;
    const float *v_steps = engine_floats(engine, engine->layers[engine->layer].v_steps);
    struct engine_lane *lane = &engine->lane[port];

    while (lane->consumed < engine->port_units[port]) {
        const struct engine_unit *unit = &engine->units[engine->unit_first[port] + lane->consumed];
        const int32_t *result = engine->attention[port] + unit->offset/sizeof(int32_t);
        uint32_t bytes        = unit->count*(h->head_dim + 2)*(uint32_t)sizeof(int32_t);
        if (lane->landed < unit->offset + bytes)
            break;
        engine->pl.invalidate(result, bytes);
        for (uint32_t q = 0; q < unit->count; q++, result += h->head_dim + 2)
            ops_attention_output(engine->mixed + (unit->query + q)*h->head_dim, result, result[h->head_dim],
                                 v_steps[unit->kv_head], h->head_dim);
        lane->consumed++;
    }
}

/* Looks at one port; returns 1 if something new has landed. */
static int look(struct engine *engine, uint32_t port)
{
    struct engine_lane *lane = &engine->lane[port];
    uint32_t status, landed;

    if (!lane->active || lane->done)
        return 0;
    status = engine->pl.status(engine->pl.context, port);  /* First: with DONE, progress is final. */
    landed = engine->pl.progress(engine->pl.context, port);
    if (status == ENGINE_PL_ERROR || (status == ENGINE_PL_DONE && landed != lane->expected)) {
        engine->failed = ENGINE_ERROR_LIST;
        lane->done     = 1;
        return 0;
    }
    if (status == ENGINE_PL_BUSY && landed == lane->landed)
        return 0;
    lane->landed = landed;
    lane->done   = status == ENGINE_PL_DONE;
    if (engine->part == ENGINE_PART_ATTENTION)
        take_units(engine, port);
    else
        take_rows(engine, port);
    return 1;
}

/* Sequence --------------------------------------------------------------------------------------*/

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
    uint32_t records = 0;

    for (uint32_t i = 0; i < engine->unit_count; i++)
        records += 2*BEAT_BYTES + engine->units[i].count*(BEAT_BYTES + h->head_dim) + 2*positions*h->head_dim;
    return engine->weight_bytes + (engine->with_head ? engine->head_bytes : 0) + h->layers*records;
}

void engine_token_begin(struct engine *engine, uint32_t token)
{
    const struct image_header *h   = engine->header;
    struct engine_session *session = &engine->session[engine->current];
    const int8_t *row = (const int8_t *)h + h->embedding + (size_t)token*h->hidden;

    memset(&engine->report, 0, sizeof(engine->report));
    engine->running   = 1;
    engine->token     = token;
    engine->failed    = ENGINE_OK;
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
