/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Inside of the engine. Who writes a buffer is part of its name here: a cache line is written by the CPU or by the DMA, never by both. */

#ifndef ENGINE_PRIVATE_H
#define ENGINE_PRIVATE_H

#include "engine.h"
#include "litetern/formats.h"

/* Vectors that share a pass over the weights: buffers have room for so many; all headers say so. */
#define ENGINE_BATCH      1

/* Rows that land before it pays to look at them: four lines. */
#define ENGINE_CHUNK_ROWS 32

/* Rows of one cache line of int32 results. */
#define ENGINE_LINE_ROWS  (CACHE_LINE/4)

/* In the order of enum engine_part, which has the attention besides. */
enum engine_group_kind { GROUP_QKV, GROUP_O, GROUP_GATE_UP, GROUP_DOWN, GROUP_HEAD, GROUPS };

/* int32 of a port's records in y. */
#define ENGINE_RECORDS_ROOM (2*TOPK_MAX)

/* A matmul group: rows are split over the ports at a line of results. */
struct engine_group {
    uint32_t format, rows, row_bytes;
    uint32_t columns, planes;              /* Weights of a plane, and planes of a row: as many x stand one after another. */
    uint32_t records[ENGINE_PORTS_MAX];    /* Best rows that each port returns; 0: all rows. */
    uint32_t first[ENGINE_PORTS_MAX];      /* First row of each port, and their number. */
    uint32_t count[ENGINE_PORTS_MAX];
    uint32_t x_bytes;
    uint8_t *piece[ENGINE_PORTS_MAX];      /* CPU writes, DMA reads: [header][x]. */
    int32_t *y;                            /* DMA writes, CPU reads: [rows][batch], or records of the shortlist. Groups share it. */
};

/* Hybrid head: the rows that are scored exactly. */
struct engine_shortlist {
    uint32_t count;                        /* Rows of a shortlist; 0: another head. */
    uint32_t found, scoring;               /* Rows of the present one, and whether their scores are on their way. */
    uint32_t rows[TOPK_MAX];
    uint32_t first[ENGINE_PORTS_MAX];      /* Part of each port: its scores start a line. */
    uint32_t number[ENGINE_PORTS_MAX];
    uint64_t *lists[ENGINE_PORTS_MAX];     /* CPU writes, DMA reads: [1 + number]. */
    uint8_t  *piece[ENGINE_PORTS_MAX];     /* CPU writes, DMA reads: [header][x]. */
};

/* One attention pass: some query heads of a KV head. */
struct engine_unit {
    uint32_t port, kv_head, query, count;  /* Query heads query … query + count - 1. */
    uint32_t offset;                       /* Bytes of its results at the port's destination. */
    uint8_t *piece;                        /* CPU writes, DMA reads: [K_HEADER][[QUERY_HEADER][q]] × count]. */
    uint64_t *v_header;                    /* CPU writes, DMA reads. */
};

enum session_work { WORK_NONE, WORK_PROMPT, WORK_GENERATE };

struct engine_session {
    uint32_t work, position, stop, reset;
    uint32_t pending, has_pending;         /* Sampled last and not read yet. */
    uint32_t prompt_done, prompt_count, generated, max_tokens;
    uint32_t *prompt;                      /* [context]. */
    struct sampling_settings settings;
    struct sampling_state sampling;
    uint8_t  *kv;                          /* CPU writes, DMA reads: int8 [layer][kv_head][K|V][capacity][head_dim]. */
    uint64_t *lists;                       /* CPU writes, DMA reads: [layer][unit][4], the units of port 0 first. */
};

struct engine_lane {
    uint32_t active;                       /* A list of this part runs or ran on the port. */
    uint32_t done;
    uint32_t expected, landed;             /* Bytes of results. */
    uint32_t consumed;                     /* Rows, or units of attention, that were worked on. */
};

struct engine {
    struct engine_pl pl;
    const struct image_header *header;
    const struct image_layer  *layers;
    uintptr_t arena;
    uint64_t  read_bytes, written_bytes;   /* Of the arena: what the DMA reads, and behind it what it writes. */
    uint32_t sessions, context, capacity;  /* capacity: context in whole bursts. */
    uint32_t q_width, kv_width, group;     /* group: query heads per KV head. */
    struct engine_session session[SESSIONS_MAX];

    /* Built once. */
    struct engine_group groups[GROUPS];
    struct engine_shortlist shortlist;
    struct engine_unit *units;             /* [unit_count], those of port 0 first. */
    uint32_t unit_count, unit_first[ENGINE_PORTS_MAX], port_units[ENGINE_PORTS_MAX];
    uint64_t *lists;                       /* CPU writes, DMA reads: [layer][group][port][2], then the head's [port][2]. */
    float    *k_factors;                   /* [layer][kv_head]. */
    uint64_t  weight_bytes, head_bytes;    /* What the matmul lists of a token read. */

    /* DMA writes, CPU reads. */
    int32_t *y;                            /* Of the group in progress. */
    int32_t *attention[ENGINE_PORTS_MAX];  /* [unit][query][head_dim numerators, denominator, maximum]. */

    /* CPU's own, [batch][width]. */
    float *x, *normed, *qkv, *mixed, *activated, *logits;

    /* Token in progress. */
    uint32_t running, current, next, token;    /* running: 1 while a token of session `current` is on its way. */
    uint32_t layer, part, with_head;
    float    step;                         /* Of the x that the PL works on. */
    float    scale[3];                     /* Section scale × step. */
    uint32_t activated_rows;
    uint32_t next_head[ENGINE_PORTS_MAX];  /* Of q, k, v: first one of each port that is not worked on. */
    uint32_t second_head;                  /* Where the second port began. */
    struct engine_lane lane[ENGINE_PORTS_MAX];
    uint32_t last_news, started;           /* microseconds(). */
    uint32_t failed;                       /* enum engine_error of the part in progress. */
    struct engine_event report;            /* Cycles and bytes of the token so far. */
};

/* engine_layout.c: places all buffers, builds lists and headers. */
uint32_t engine_layout(struct engine *engine, const void *image, void *arena, size_t arena_bytes, uint32_t sessions);

/* engine_token.c: a token through the model. */
void engine_token_begin(struct engine *engine, uint32_t token);

/* Works on what has landed, starts what can start; returns 1 when the token is through (or failed). */
int engine_token_poll(struct engine *engine);

/* Starts a list on a port; bytes: of its results, 0 leaves the port out of this part. */
void engine_ring(struct engine *engine, uint32_t port, uint32_t core, const void *list, const void *destination, uint32_t bytes);

/* engine_head.c: the shortlist of the hybrid head, from the ternary pass to the exact scores of a port. */
void engine_clear_logits(struct engine *engine);
void engine_begin_shortlist(struct engine *engine);
int engine_start_scores(struct engine *engine);  /* 0: the records name rows that are not there. */
void engine_take_scores(struct engine *engine, uint32_t port);

/* engine_results.c: takes what a port has delivered of a matmul group or of the attention. */
void engine_take_rows(struct engine *engine, uint32_t port);
void engine_take_units(struct engine *engine, uint32_t port);

/* Heads of q, k, v are worked on as they land: before the group starts, and after its last row. */
void engine_begin_heads(struct engine *engine);
void engine_finish_heads(struct engine *engine);

/* engine_lists.c: descriptors and headers. */
void engine_build_lists(struct engine *engine);
void engine_patch_position(struct engine *engine, struct engine_session *session, uint32_t positions);

static inline uint32_t engine_group_of_part(uint32_t part)
{
    return part - (part > ENGINE_PART_ATTENTION);
}

static inline const struct engine_group *engine_part_group(const struct engine *engine)
{
    return &engine->groups[engine_group_of_part(engine->part)];
}

static inline uint32_t engine_bus(const struct engine *engine, const void *pointer)
{
    return (uint32_t)((uintptr_t)pointer - engine->pl.memory);
}

static inline uint64_t engine_descriptor(const struct engine *engine, const void *data, uint32_t bytes, uint32_t last)
{
    return descriptor_pack(last, 0, engine_bus(engine, data)/BEAT_BYTES, bytes/BEAT_BYTES);
}

/* 1 while the best rows of the hybrid head's ternary pass are on their way. */
static inline int engine_is_listing(const struct engine *engine)
{
    return engine->part == ENGINE_PART_HEAD && engine->shortlist.count && !engine->shortlist.scoring;
}

static inline const float *engine_floats(const struct engine *engine, uint32_t offset)
{
    return (const float *)((const uint8_t *)engine->header + offset);
}

/* List of a group of a layer on a port; the head's stand behind the last layer's. */
static inline uint64_t *engine_group_list(const struct engine *engine, uint32_t layer, uint32_t group, uint32_t port)
{
    return engine->lists + ((layer*GROUP_HEAD + (group == GROUP_HEAD ? 0 : group))*ENGINE_PORTS_MAX + port)*2;
}

/* Attention passes that the query heads of a KV head take. */
static inline uint32_t engine_passes(const struct engine *engine)
{
    return (engine->group + engine->pl.queries_max - 1)/engine->pl.queries_max;
}

/* Index of the unit of a query head. */
static inline uint32_t engine_unit_of(const struct engine *engine, uint32_t head)
{
    return head/engine->group*engine_passes(engine) + head % engine->group/engine->pl.queries_max;
}

/* Keys (values: half = 1) of a KV head. */
static inline uint8_t *engine_kv(const struct engine *engine, const struct engine_session *session, uint32_t layer,
                                 uint32_t kv_head, uint32_t half)
{
    size_t rows = ((size_t)layer*engine->header->kv_heads + kv_head)*2 + half;

    return session->kv + rows*engine->capacity*engine->header->head_dim;
}

#endif
