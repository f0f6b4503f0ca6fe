/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The matmul core in C: [header][x × N][rows] in, int32 results out. */

#include <string.h>

#include "cores_dot.h"
#include "cores_run.h"
#include "litetern/formats.h"

/* Products --------------------------------------------------------------------------------------*/

#if CORES_NEON

/* Puts x of ternary rows in the order of cores_dot_digits(); *sum: Σ x. */
static void prepare_x(int8_t *x, uint32_t beats, int32_t *sum)
{
    int8_t beat[TERNARY_PER_BEAT];

    *sum = 0;
    for (; beats; beats--, x += TERNARY_PER_BEAT) {
        memcpy(beat, x, sizeof(beat));
        for (uint32_t i = 0; i < TERNARY_PER_BEAT; i++) {
            x[i % TRITS_PER_BYTE*BEAT_BYTES + i/TRITS_PER_BYTE] = beat[i];
            *sum += beat[i];
        }
    }
}

static inline void ternary_products(struct cores_run *run, int32_t *y, const uint8_t *row)
{
    for (uint32_t v = 0; v < run->u.matmul.vectors; v++)
        y[v] = cores_dot_digits(row, run->u.matmul.x + v*run->u.matmul.x_stride, run->row_beats) - run->u.matmul.x_sum[v];
}

#else

/* The 5 weights of each byte in one 8-byte word, little-endian. */
static const uint64_t trits[256] = TRITS_WORDS;

static void prepare_x(int8_t *x, uint32_t beats, int32_t *sum)
{
    (void)x;
    (void)beats;
    *sum = 0;
}

/* Unpacks a row; each word overwrites the three bytes too many of the one before. */
static inline void decode(int8_t *weights, const uint8_t *row, uint32_t bytes)
{
    uint32_t i;

    for (i = 0; i < bytes - 1; i++)
        __builtin_memcpy(weights + i*TRITS_PER_BYTE, &trits[row[i]], sizeof(trits[0]));
    memcpy(weights + i*TRITS_PER_BYTE, &trits[row[i]], TRITS_PER_BYTE);
}

static inline void ternary_products(struct cores_run *run, int32_t *y, const uint8_t *row)
{
    decode(run->u.matmul.decoded, row, run->row_beats*BEAT_BYTES);
    for (uint32_t v = 0; v < run->u.matmul.vectors; v++)
        y[v] = cores_dot(run->u.matmul.decoded, run->u.matmul.x + v*run->u.matmul.x_stride, run->u.matmul.x_stride);
}

#endif

static inline void int8_products(struct cores_run *run, int32_t *y, const uint8_t *row)
{
    for (uint32_t v = 0; v < run->u.matmul.vectors; v++)
        y[v] = cores_dot((const int8_t *)row, run->u.matmul.x + v*run->u.matmul.x_stride, run->u.matmul.x_stride);
}

/* Reductions ------------------------------------------------------------------------------------*/

/* Keeps the best records, best first; of equal values the lower row, which came first. */
static void keep(struct cores_run *run, uint32_t vector, int32_t value, uint32_t row)
{
    struct cores_record *best = run->u.matmul.best[vector];
    uint32_t i = run->u.matmul.kept;

    if (i == run->u.matmul.topk) {
        if (value <= best[i - 1].value)
            return;
        i--;
    }
    for (; i > 0 && best[i - 1].value < value; i--)
        best[i] = best[i - 1];
    best[i].value = value;
    best[i].row   = row;
}

static void put_records(struct cores_run *run)
{
    for (uint32_t v = 0; v < run->u.matmul.vectors; v++)
        for (uint32_t i = 0; i < run->u.matmul.kept; i++) {
            cores_put(run, (uint32_t)run->u.matmul.best[v][i].value);
            cores_put(run, run->u.matmul.best[v][i].row);
        }
}

/* Groups ----------------------------------------------------------------------------------------*/

static uint32_t header_errors(uint64_t header)
{
    uint32_t format = MATMUL_HEADER_FORMAT(header), beats = MATMUL_HEADER_BEATS(header), vectors = MATMUL_HEADER_VECTORS(header);
    uint32_t topk   = MATMUL_HEADER_TOPK(header), reduce = MATMUL_HEADER_REDUCE(header), errors = 0;

    if (MATMUL_HEADER_ROWS(header) == 0)
        errors |= CORES_ERROR_ROWS;
    if (format != FORMAT_TERNARY && format != FORMAT_INT8)
        errors |= CORES_ERROR_FORMAT;  /* The format bounds the other two. */
    else {
        if (beats == 0 || beats > (format == FORMAT_TERNARY ? CORES_TERNARY_BEATS : CORES_INT8_BEATS))
            errors |= CORES_ERROR_BEATS;
        if ((vectors != 1 && vectors != 2 && vectors != 4 && vectors != 8) || vectors > CORES_VECTORS_MAX)
            errors |= CORES_ERROR_VECTORS;
    }
    if (reduce > REDUCE_TOPK || (reduce == REDUCE_TOPK && (topk == 0 || topk > TOPK_MAX)))
        errors |= CORES_ERROR_REDUCE;
    return errors;
}

/* Reads header and x of a group. */
static void open_group(struct cores_run *run)
{
    const uint8_t *data = cores_take(run, BEAT_BYTES, run->scratch);
    uint64_t header;
    uint32_t errors, x_beats;

    if (!data)
        return;
    memcpy(&header, data, sizeof(header));
    if (MATMUL_HEADER_MAGIC(header) != MATMUL_HEADER_MAGIC_VALUE) {
        run->errors |= CORES_ERROR_MAGIC;
        run->skip    = UINT64_MAX;
        return;
    }
    run->row               = 0;
    run->rows              = MATMUL_HEADER_ROWS(header);
    run->row_beats         = MATMUL_HEADER_BEATS(header);
    run->u.matmul.format   = MATMUL_HEADER_FORMAT(header);
    run->u.matmul.vectors  = MATMUL_HEADER_VECTORS(header);
    run->u.matmul.reduce   = MATMUL_HEADER_REDUCE(header);
    run->u.matmul.topk     = run->u.matmul.reduce == REDUCE_ARGMAX ? 1 : MATMUL_HEADER_TOPK(header);
    run->u.matmul.kept     = 0;
    x_beats                = run->row_beats*(run->u.matmul.format == FORMAT_TERNARY ? TRITS_PER_BYTE : 1);
    run->u.matmul.x_stride = x_beats*BEAT_BYTES;
    errors = header_errors(header);
    if (errors) {
        run->errors |= errors;
        run->skip    = (uint64_t)x_beats*run->u.matmul.vectors + (uint64_t)run->rows*run->row_beats;
        run->rows    = 0;
        return;
    }
    for (uint32_t v = 0; v < run->u.matmul.vectors; v++) {
        int8_t *x = run->u.matmul.x + v*run->u.matmul.x_stride;
        data = cores_take(run, run->u.matmul.x_stride, (uint8_t *)x);
        if (!data) {
            run->errors |= CORES_ERROR_TRUNCATED;
            run->rows    = 0;
            return;
        }
        if (data != (const uint8_t *)x)
            memcpy(x, data, run->u.matmul.x_stride);
        if (run->u.matmul.format == FORMAT_TERNARY)
            prepare_x(x, run->row_beats, &run->u.matmul.x_sum[v]);
    }
}

/* Rows that lie one after another in memory, and their results. */
CORES_CLONES
static void run_rows(struct cores_run *run, const uint8_t *row, uint32_t count)
{
    int32_t y[CORES_VECTORS_MAX];

    for (; count && run->busy; count--, row += run->row_beats*BEAT_BYTES) {
        if (run->u.matmul.format == FORMAT_TERNARY)
            ternary_products(run, y, row);
        else
            int8_products(run, y, row);
        for (uint32_t v = 0; v < run->u.matmul.vectors; v++)
            if (run->u.matmul.reduce == REDUCE_NONE)
                cores_put(run, (uint32_t)y[v]);
            else
                keep(run, v, y[v], run->row);
        if (run->u.matmul.kept < run->u.matmul.topk)
            run->u.matmul.kept++;
        run->row++;
    }
}

uint32_t cores_matmul(struct cores_run *run, uint32_t beats)
{
    uint32_t start = run->beats;

    if (run->row == run->rows)
        open_group(run);
    while (run->row < run->rows && run->busy && run->beats - start < beats) {
        uint32_t bytes = run->row_beats*BEAT_BYTES, count = run->piece_bytes/bytes, most = (beats - (run->beats - start))/run->row_beats + 1;
        const uint8_t *rows;
        count = count < run->rows - run->row ? count : run->rows - run->row;
        count = count < most ? count : most;
        count = count ? count : 1;
        rows  = cores_take(run, count*bytes, run->scratch);
        if (!rows) {
            run->errors |= CORES_ERROR_TRUNCATED;
            run->rows    = run->row = 0;
            break;
        }
        run_rows(run, rows, count);
        if (run->row == run->rows) {
            if (run->u.matmul.reduce != REDUCE_NONE)
                put_records(run);
            cores_flush(run);
        }
    }
    return run->beats - start;
}
