/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Work on results while the rest of them is still to come. */

#include <string.h>

#include "engine_private.h"
#include "ops.h"

/* Heads of q, k and v ---------------------------------------------------------------------------*/

/* Quantises a query head into its K record. */
static void place_query(struct engine *engine, uint32_t head, const float *q)
{
    const struct image_header *h   = engine->header;
    const struct engine_unit *unit = &engine->units[engine_unit_of(engine, head)];
    uint8_t *query  = unit->piece + BEAT_BYTES + (head - unit->query)*(BEAT_BYTES + h->head_dim);
    float factor    = engine->k_factors[engine->layer*h->kv_heads + unit->kv_head];
    float step      = ops_quantise((int8_t *)query + BEAT_BYTES, q, h->head_dim);
    uint32_t exponent, mantissa = ops_score_multiplier(step, factor, h->mantissa_bits, &exponent);
    uint64_t header = query_header_pack(mantissa, exponent, engine->session[engine->current].position + 1);

    memcpy(query, &header, sizeof(header));
}

/* Appends a head of k (half = 0) or v to the cache. */
static void append_kv(struct engine *engine, uint32_t kv_head, uint32_t half, const float *x)
{
    const struct image_layer *layer      = &engine->layers[engine->layer];
    const struct engine_session *session = &engine->session[engine->current];
    uint32_t head_dim  = engine->header->head_dim;
    const float *steps = engine_floats(engine, half ? layer->v_steps : layer->k_steps);
    int8_t *row = (int8_t *)engine_kv(engine, session, engine->layer, kv_head, half) + (size_t)session->position*head_dim;

    ops_quantise_fixed(row, x, steps[kv_head], head_dim);
    engine->pl.clean(row, head_dim);
}

/* A whole head of the group q, k, v: rotated, quantised, put where the attention reads it. */
static void take_head(struct engine *engine, uint32_t head)
{
    const struct image_header *h = engine->header;
    size_t angle = (size_t)engine->session[engine->current].position*(h->head_dim/2);
    float *x     = engine->qkv + head*h->head_dim;

    if (head < h->heads + h->kv_heads)
        ops_rope(x, engine_floats(engine, h->cosine) + angle, engine_floats(engine, h->sine) + angle, h->head_dim, 1);
    if (head < h->heads)
        place_query(engine, head, x);
    else
        append_kv(engine, (head - h->heads) % h->kv_heads, head >= h->heads + h->kv_heads, x);
}

/* Heads whose rows a port has delivered; one that both ports share waits for finish_heads(). */
static void take_heads(struct engine *engine, uint32_t port)
{
    uint32_t landed = engine_part_group(engine)->first[port] + engine->lane[port].consumed;

    while ((engine->next_head[port] + 1)*engine->header->head_dim <= landed)
        take_head(engine, engine->next_head[port]++);
}

/* The first whole head of each port. */
void engine_begin_heads(struct engine *engine)
{
    const struct engine_group *group = &engine->groups[GROUP_QKV];

    for (uint32_t port = 0; port < engine->pl.ports; port++)
        engine->next_head[port] = (group->first[port] + engine->header->head_dim - 1)/engine->header->head_dim;
    engine->second_head = engine->next_head[engine->pl.ports - 1];
}

/* All rows have landed: the head that both ports share. */
void engine_finish_heads(struct engine *engine)
{
    if (engine->pl.ports > 1 && engine->next_head[0] < engine->second_head)
        take_head(engine, engine->next_head[0]);
}

/* Rows and units --------------------------------------------------------------------------------*/

/* Rows first … end - 1 of q, k, v: three sections with their own scales. */
static void take_qkv(struct engine *engine, uint32_t first, uint32_t end, const float *steps)
{
    uint32_t ends[3] = { engine->q_width, engine->q_width + engine->kv_width, engine->q_width + 2*engine->kv_width };

    if (steps) {
        ops_dequantise_rows(engine->qkv + first, engine->y + first, steps + first, engine->step, end - first);
        return;
    }
    for (uint32_t section = 0; section < 3 && first < end; section++) {
        uint32_t stop = end < ends[section] ? end : ends[section];
        if (first < stop) {
            ops_dequantise(engine->qkv + first, engine->y + first, engine->scale[section], stop - first);
            first = stop;
        }
    }
}

/* Gate and up rows that have both landed. */
static void take_gate_up(struct engine *engine, const float *steps)
{
    const struct engine_group *group = engine_part_group(engine);
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
        uint32_t row = engine->activated_rows, activation = engine->header->activation;
        const int32_t *y = engine->y + row;
        if (steps)
            ops_activate_rows(activation, engine->activated + row, y, steps + row, y + ffn, steps + ffn + row, engine->step, ready - row);
        else
            ops_activate(activation, engine->activated + row, y, engine->scale[0], y + ffn, engine->scale[1], ready - row);
        engine->activated_rows = ready;
    }
}

/* Steps of the rows of the part in progress; NULL where a matrix has one scale. */
static const float *part_steps(const struct engine *engine)
{
    const struct image_header *h     = engine->header;
    const struct image_layer  *layer = &engine->layers[engine->layer];

    if (engine->part == ENGINE_PART_HEAD)
        return engine_floats(engine, h->head_format == IMAGE_HEAD_INT8 ? h->head_steps : h->ternary_steps);
    if (!image_row_steps(h))
        return NULL;
    switch (engine->part) {
    case ENGINE_PART_QKV:
        return engine_floats(engine, layer->qkv_steps);
    case ENGINE_PART_O:
        return engine_floats(engine, layer->o_steps);
    case ENGINE_PART_GATE_UP:
        return engine_floats(engine, layer->gate_up_steps);
    default:
        return engine_floats(engine, layer->down_steps);
    }
}

void engine_take_rows(struct engine *engine, uint32_t port)
{
    const struct engine_group *group = engine_part_group(engine);
    struct engine_lane *lane = &engine->lane[port];
    uint32_t landed = lane->done ? group->count[port] : lane->landed/(4*ENGINE_BATCH) & ~(ENGINE_LINE_ROWS - 1u);
    const float *steps = part_steps(engine);
    uint32_t first  = group->first[port] + lane->consumed, end = group->first[port] + landed, count = landed - lane->consumed;

    if (landed <= lane->consumed || (!lane->done && count < ENGINE_CHUNK_ROWS))
        return;
    engine->pl.invalidate(engine->y + first, count*sizeof(int32_t));
    lane->consumed = landed;
    switch (engine->part) {
    case ENGINE_PART_QKV:
        take_qkv(engine, first, end, steps);
        take_heads(engine, port);
        break;
    case ENGINE_PART_GATE_UP:
        take_gate_up(engine, steps);
        break;
    case ENGINE_PART_HEAD:
        ops_dequantise_rows(engine->logits + first, engine->y + first, steps + first, engine->step, count);
        break;
    default:
        if (steps)
            ops_residual_rows(engine->x + first, engine->y + first, steps + first, engine->step, count);
        else
            ops_residual(engine->x + first, engine->y + first, engine->scale[0], count);
    }
}

void engine_take_units(struct engine *engine, uint32_t port)
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
