/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Descriptor lists, built once; per token only lengths and headers of attention change.
 *
 *     matmul     [header, x] [weights]                            of each layer, group and port
 *     shortlist  [header, x] [row] [row] ‥                        written when its rows are known
 *     attention  [K_HEADER, queries] [K rows] ‥ [V_HEADER] [V rows]   in the order K0 K1 V0 K2 V1 … with two score buffers
 */

#include <string.h>

#include "engine_private.h"

/* Matmul ----------------------------------------------------------------------------------------*/

static void build_group(struct engine *engine, uint32_t kind)
{
    struct engine_group *group = &engine->groups[kind];

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint64_t header = matmul_header_pack(group->count[port], group->row_bytes/BEAT_BYTES, group->format, ENGINE_BATCH,
                                             group->records[port] ? REDUCE_TOPK : REDUCE_NONE, group->records[port]);
        memcpy(group->piece[port], &header, sizeof(header));
        memset(group->piece[port] + BEAT_BYTES, 0, (size_t)group->x_bytes*ENGINE_BATCH);
    }
}

static void build_matmul_list(struct engine *engine, uint32_t layer, uint32_t kind, uint32_t weights)
{
    const struct engine_group *group = &engine->groups[kind];

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint64_t *list      = engine_group_list(engine, layer, kind, port);
        const uint8_t *rows = (const uint8_t *)engine->header + weights + (size_t)group->first[port]*group->row_bytes;
        list[0] = engine_descriptor(engine, group->piece[port], BEAT_BYTES + group->x_bytes*ENGINE_BATCH, 0);
        list[1] = engine_descriptor(engine, rows, group->count[port]*group->row_bytes, 1);
    }
}

/* The shortlist's headers; its descriptors are written when its rows are known. */
static void build_shortlist(struct engine *engine)
{
    const struct engine_shortlist *shortlist = &engine->shortlist;

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint64_t header = matmul_header_pack(shortlist->number[port], engine->header->hidden/BEAT_BYTES, FORMAT_INT8, ENGINE_BATCH,
                                             REDUCE_NONE, 0);
        memcpy(shortlist->piece[port], &header, sizeof(header));
    }
}

/* Attention -------------------------------------------------------------------------------------*/

/* Query heads of each KV head in passes; the KV heads split over the ports. */
static void build_units(struct engine *engine)
{
    const struct image_header *h = engine->header;
    uint32_t split = engine->pl.ports == 1 ? h->kv_heads : (h->kv_heads + 1)/2, unit = 0;

    for (uint32_t port = 0; port < engine->pl.ports; port++) {
        uint32_t first = port ? split : 0, end = port ? h->kv_heads : split, offset = 0;
        engine->unit_first[port] = unit;
        for (uint32_t kv_head = first; kv_head < end; kv_head++)
            for (uint32_t query = 0; query < engine->group; query += engine->pl.queries_max) {
                struct engine_unit *u = &engine->units[unit++];
                u->port    = port;
                u->kv_head = kv_head;
                u->query   = kv_head*engine->group + query;
                u->count   = engine->group - query < engine->pl.queries_max ? engine->group - query : engine->pl.queries_max;
                u->offset  = offset;
                offset    += u->count*(h->head_dim + 2)*(uint32_t)sizeof(int32_t);
            }
        engine->port_units[port] = unit - engine->unit_first[port];
    }
}

/* Place of a K record in the list of a port with `count` units. */
static uint32_t key_record(uint32_t index)
{
    return index ? 2*index - 1 : 0;
}

static uint32_t value_record(uint32_t index, uint32_t count)
{
    return index + 1 < count ? 2*index + 2 : 2*count - 1;
}

static void build_attention_lists(struct engine *engine, struct engine_session *session)
{
    const struct image_header *h = engine->header;

    for (uint32_t layer = 0; layer < h->layers; layer++)
        for (uint32_t i = 0; i < engine->unit_count; i++) {
            const struct engine_unit *unit = &engine->units[i];
            uint32_t first  = engine->unit_first[unit->port], count = engine->port_units[unit->port], index = i - first;
            uint64_t *list  = session->lists + ((size_t)layer*engine->unit_count + first)*4;
            uint64_t *key   = list + 2*key_record(index), *value = list + 2*value_record(index, count);
            uint32_t header = BEAT_BYTES + unit->count*(BEAT_BYTES + h->head_dim);
            key[0]   = engine_descriptor(engine, unit->piece, header, 0);
            key[1]   = engine_descriptor(engine, engine_kv(engine, session, layer, unit->kv_head, 0), h->head_dim, 0);
            value[0] = engine_descriptor(engine, unit->v_header, BEAT_BYTES, 0);
            value[1] = engine_descriptor(engine, engine_kv(engine, session, layer, unit->kv_head, 1), h->head_dim, index + 1 == count);
        }
}

/* Lengths of the session's lists and headers of all units for so many positions. */
void engine_patch_position(struct engine *engine, struct engine_session *session, uint32_t positions)
{
    const struct image_header *h = engine->header;
    size_t words    = (size_t)h->layers*engine->unit_count*4;
    uint64_t length = (uint64_t)(positions*h->head_dim/BEAT_BYTES) << DESCRIPTOR_LENGTH_LSB;

    for (size_t i = 1; i < words; i += 2)
        session->lists[i] = (session->lists[i] & ~(DESCRIPTOR_LENGTH_MASK << DESCRIPTOR_LENGTH_LSB)) | length;
    engine->pl.clean(session->lists, words*sizeof(uint64_t));
    for (uint32_t i = 0; i < engine->unit_count; i++) {
        struct engine_unit *unit = &engine->units[i];
        uint32_t beats  = h->head_dim/BEAT_BYTES, buffer = (i - engine->unit_first[unit->port]) & 1;
        uint64_t header = k_header_pack(positions, beats, unit->count, buffer);
        memcpy(unit->piece, &header, sizeof(header));  /* Cleaned with its queries. */
        *unit->v_header = v_header_pack(positions, beats, unit->count, buffer);
        engine->pl.clean(unit->v_header, sizeof(*unit->v_header));
    }
}

/* All -------------------------------------------------------------------------------------------*/

void engine_build_lists(struct engine *engine)
{
    const struct image_header *h = engine->header;

    for (uint32_t kind = 0; kind < GROUPS; kind++)
        build_group(engine, kind);
    for (uint32_t layer = 0; layer < h->layers; layer++) {
        build_matmul_list(engine, layer, GROUP_QKV,     engine->layers[layer].qkv);
        build_matmul_list(engine, layer, GROUP_O,       engine->layers[layer].o);
        build_matmul_list(engine, layer, GROUP_GATE_UP, engine->layers[layer].gate_up);
        build_matmul_list(engine, layer, GROUP_DOWN,    engine->layers[layer].down);
    }
    build_matmul_list(engine, h->layers, GROUP_HEAD, h->head_format == IMAGE_HEAD_INT8 ? h->head : h->ternary_head);
    if (engine->shortlist.count)
        build_shortlist(engine);
    engine->pl.clean(engine->lists, ((size_t)h->layers*GROUP_HEAD + 1)*ENGINE_PORTS_MAX*2*BEAT_BYTES);
    build_units(engine);
    for (uint32_t i = 0; i < engine->sessions; i++)
        build_attention_lists(engine, &engine->session[i]);
}
