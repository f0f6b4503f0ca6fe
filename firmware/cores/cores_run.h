/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * The C cores: they run descriptor lists as a lane of the gateware does (reader → core → writer), with the same bits and errors.
 * model/formats/stream.py defines the streams, model/numerics/circuits.py the results. A run can advance in small shares.
 */

#ifndef CORES_RUN_H
#define CORES_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "softmax.h"

/* Capacity; `-D` overrides for small CPUs. */
#ifndef CORES_VECTORS_MAX
#define CORES_VECTORS_MAX    8
#endif
#ifndef CORES_QUERIES_MAX
#define CORES_QUERIES_MAX    16
#endif
#ifndef CORES_ROWS_MAX
#define CORES_ROWS_MAX       4096
#endif

#define CORES_TERNARY_BEATS  ((ROW_WEIGHTS_MAX + TERNARY_PER_BEAT - 1)/TERNARY_PER_BEAT)
#define CORES_INT8_BEATS     ((ROW_WEIGHTS_MAX + INT8_PER_BEAT - 1)/INT8_PER_BEAT)
#define CORES_ROW_BYTES      (CORES_TERNARY_BEATS*TERNARY_PER_BEAT)

/* Bus addresses of the first and the last byte, as in the accelerator's registers: whole bursts count; first > last: none. */
struct cores_range { uint32_t first, last; };

/* What bus addresses reach: 0 … bytes - 1 from base on, high_bytes bytes at high_first from high on; and what of that lists may name. */
struct cores_memory {
    uintptr_t base, high;
    uint64_t  bytes;
    uint32_t  high_first, high_bytes;
    struct cores_range range[ENGINE_RANGES];  /* enum engine_range. */
};

/* What the attention core knows of its resolution. */
struct cores_softmax {
    int32_t  score_limit;          /* Scores lie in -score_limit … score_limit - 1. 0: there is no attention core. */
    uint32_t mantissa_max;
    uint16_t exp_table[EXP_ENTRIES];
};

struct cores_record { int32_t value; uint32_t row; };

/* A shape of a K record, and whether its scores are there. */
struct cores_scores {
    uint32_t filled, rows, beats, queries;
    uint16_t length[CORES_QUERIES_MAX];
    int16_t  maximum[CORES_QUERIES_MAX];
    int16_t  score[CORES_QUERIES_MAX][CORES_ROWS_MAX];
};

struct cores_run {
    uint32_t written;              /* Bytes of results, whole beats. */
    uint32_t beats;                /* Beats of the stream that were taken. */
    uint32_t errors;               /* enum cores_error. */
    uint32_t busy;

    const struct cores_memory *memory;
    const struct cores_softmax *softmax;
    uint32_t core, list, limit;

    /* Reader: what is left of the current piece. */
    uintptr_t piece;
    uint32_t  piece_bytes, last;

    /* Writer: where the results go, and half a beat that waits for the other half. */
    uintptr_t results;
    uint32_t  half, half_full;

    /* Record in progress. */
    uint32_t rows, row, row_beats, refused;
    uint64_t skip;                 /* Beats of a refused record that are left. */
    union {
        struct {
            uint32_t format, vectors, reduce, topk, x_stride;
            uint32_t kept;
            int32_t  x_sum[CORES_VECTORS_MAX];
            struct cores_record best[CORES_VECTORS_MAX][TOPK_MAX];
            int8_t   x[CORES_VECTORS_MAX*CORES_ROW_BYTES] __attribute__((aligned(64)));
            int8_t   decoded[CORES_ROW_BYTES] __attribute__((aligned(64)));
        } matmul;
        struct {
            uint32_t is_value, queries, buffer;
            uint32_t mantissa[CORES_QUERIES_MAX], shift[CORES_QUERIES_MAX];
            int32_t  denominator[CORES_QUERIES_MAX];
            int32_t  numerator[CORES_QUERIES_MAX][HEAD_DIM_MAX];
            int8_t   q[CORES_QUERIES_MAX][HEAD_DIM_MAX] __attribute__((aligned(64)));
            struct cores_scores scores[2];
        } attention;
    } u;
    uint8_t scratch[CORES_ROW_BYTES] __attribute__((aligned(64)));  /* A row that two pieces share. */
};

/* Builds the attention core for a resolution; 0 if there is no such one, or its sums over CORES_ROWS_MAX rows leave int32. */
int cores_resolve(struct cores_softmax *core, const struct softmax *softmax);

/*
 * Rings the doorbell. Addresses and limit as in the lane's registers; *memory and *softmax last as long as the run. softmax: NULL where
 * there is no attention core.
 */
void cores_start(struct cores_run *run, const struct cores_memory *memory, const struct cores_softmax *softmax, uint32_t core,
                 uint32_t list, uint32_t destination, uint32_t limit);

/* Runs for about `beats` beats; returns 1 while there is more to do. */
uint32_t cores_advance(struct cores_run *run, uint32_t beats);

/* Runs a list to its end; returns errors. *written: bytes of results; *beats: beats of the stream (either may be NULL). */
uint32_t cores_run_list(struct cores_run *run, const struct cores_memory *memory, const struct cores_softmax *softmax, uint32_t core,
                        uint32_t list, uint32_t destination, uint32_t limit, uint32_t *written, uint32_t *beats);

size_t cores_run_bytes(void);      /* sizeof(struct cores_run), for hosts; likewise of struct cores_softmax. */
size_t cores_softmax_bytes(void);

/* Between cores_run.c and the cores. */

/* The next `bytes` bytes (whole beats) of the stream, in place or copied to `scratch`; NULL at its end. */
const uint8_t *cores_take(struct cores_run *run, uint32_t bytes, uint8_t *scratch);

/* 1 if the list holds no further beat. */
int cores_ended(struct cores_run *run);

/* Ends the run. */
void cores_fail(struct cores_run *run, uint32_t error);

/* A 32-bit result; cores_flush() fills the last beat with 0. */
static inline void cores_put(struct cores_run *run, uint32_t word)
{
    uint32_t *beat = (uint32_t *)(run->results + run->written);

    run->half_full = !run->half_full;
    if (run->half_full)
        run->half = word;
    else if (run->limit - run->written < BEAT_BYTES)
        cores_fail(run, CORES_ERROR_WRITER_OVERRUN);
    else if (run->busy) {
        beat[0] = run->half;
        beat[1] = word;
        run->written += BEAT_BYTES;
    }
}

static inline void cores_flush(struct cores_run *run)
{
    if (run->half_full)
        cores_put(run, 0);
}

/* One share of a core: a header, or rows for about `beats` beats; returns the beats it took. */
uint32_t cores_matmul(struct cores_run *run, uint32_t beats);
uint32_t cores_attention(struct cores_run *run, uint32_t beats);

#endif
