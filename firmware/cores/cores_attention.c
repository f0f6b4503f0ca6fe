/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The attention core in C: K records fill score buffers, V records turn them into numerators, denominator and maximum. */

#include <string.h>

#include "cores_dot.h"
#include "cores_run.h"
#include "litetern/formats.h"

/* Resolution ------------------------------------------------------------------------------------*/

int cores_resolve(struct cores_softmax *core, const struct softmax *softmax)
{
    uint64_t largest;

    core->score_limit = 0;
    if (!softmax_valid(softmax))
        return 0;
    largest = (uint64_t)CORES_ROWS_MAX*((1u << softmax->exp_bits) - 1)*128;
    if (largest > INT32_MAX)
        return 0;
    core->score_limit  = 1 << (softmax->score_bits - 1);
    core->mantissa_max = (1u << softmax->mantissa_bits) - 1;
    softmax_exp_table(softmax, core->exp_table);
    return 1;
}

/* Records ---------------------------------------------------------------------------------------*/

/* Refuses a record: what is left of it is dropped, and its buffer holds no scores. */
static void refuse(struct cores_run *run, uint32_t errors, uint64_t beats)
{
    run->errors |= errors;
    run->skip    = beats;
    run->rows    = 0;
}

/* Header and vector of query i of a K record; 0 where the stream ends in them. */
static int read_query(struct cores_run *run, struct cores_scores *scores, uint32_t i)
{
    const uint8_t *data = cores_take(run, BEAT_BYTES, run->scratch);
    uint32_t errors     = 0;
    uint64_t header;

    if (!data)
        return 0;
    memcpy(&header, data, sizeof(header));
    scores->length[i]            = (uint16_t)QUERY_HEADER_LENGTH(header);
    scores->maximum[i]           = (int16_t)-run->softmax->score_limit;
    run->u.attention.mantissa[i] = QUERY_HEADER_MANTISSA(header);
    run->u.attention.shift[i]    = SHIFT_MAX - SHIFT_STEP*QUERY_HEADER_EXPONENT(header);
    if (scores->length[i] == 0 || scores->length[i] > scores->rows)
        errors |= CORES_ERROR_LENGTH;
    if (run->u.attention.mantissa[i] > run->softmax->mantissa_max)
        errors |= CORES_ERROR_MULTIPLIER;
    if (errors) {
        refuse(run, errors, scores->beats + (uint64_t)(scores->queries - 1 - i)*(1 + scores->beats) +
               (uint64_t)scores->rows*scores->beats);
        return 1;
    }
    data = cores_take(run, scores->beats*BEAT_BYTES, run->scratch);
    if (data)
        memcpy(run->u.attention.q[i], data, scores->beats*BEAT_BYTES);
    return data != NULL;
}

static void open_record(struct cores_run *run)
{
    const uint8_t *data = cores_take(run, BEAT_BYTES, run->scratch);
    struct cores_scores *scores;
    uint64_t header;
    uint32_t errors = 0, is_value, rows, beats, queries;

    if (!data)
        return;
    memcpy(&header, data, sizeof(header));
    is_value = V_HEADER_MAGIC(header) == V_HEADER_MAGIC_VALUE;
    if (!is_value && K_HEADER_MAGIC(header) != K_HEADER_MAGIC_VALUE) {
        run->errors |= CORES_ERROR_MAGIC;
        run->skip    = UINT64_MAX;
        return;
    }
    rows    = K_HEADER_ROWS(header);
    beats   = K_HEADER_BEATS(header);
    queries = K_HEADER_QUERIES(header);
    scores  = &run->u.attention.scores[K_HEADER_BUFFER(header)];
    if (rows == 0 || rows > CORES_ROWS_MAX)
        errors |= CORES_ERROR_ROWS;
    if (beats == 0 || beats > HEAD_DIM_MAX/BEAT_BYTES)
        errors |= CORES_ERROR_BEATS;
    if (queries == 0 || queries > CORES_QUERIES_MAX)
        errors |= CORES_ERROR_QUERIES;
    if (is_value && !(scores->filled && scores->rows == rows && scores->beats == beats && scores->queries == queries))
        errors |= CORES_ERROR_BUFFER;
    run->row                  = 0;
    run->rows                 = rows;
    run->row_beats            = beats;
    run->u.attention.is_value = is_value;
    run->u.attention.buffer   = K_HEADER_BUFFER(header);
    run->u.attention.queries  = queries;
    if (!is_value)
        scores->filled = 0;
    if (errors) {
        refuse(run, errors, (uint64_t)rows*beats + (is_value ? 0 : (uint64_t)queries*(1 + beats)));
        return;
    }
    if (is_value) {
        memset(run->u.attention.denominator, 0, queries*sizeof(run->u.attention.denominator[0]));
        memset(run->u.attention.numerator, 0, queries*sizeof(run->u.attention.numerator[0]));
        return;
    }
    scores->rows    = rows;
    scores->beats   = beats;
    scores->queries = queries;
    for (uint32_t i = 0; i < queries && run->rows; i++)
        if (!read_query(run, scores, i)) {
            run->errors |= CORES_ERROR_TRUNCATED;
            run->rows    = 0;
        }
}

/* Rows ------------------------------------------------------------------------------------------*/

CORES_CLONES
static void key_row(struct cores_run *run, struct cores_scores *scores, const int8_t *key)
{
    const int32_t limit = run->softmax->score_limit;

    for (uint32_t i = 0; i < scores->queries; i++) {
        int64_t score;
        if (run->row >= scores->length[i])
            continue;
        score = ((int64_t)cores_dot(key, run->u.attention.q[i], scores->beats*BEAT_BYTES)*run->u.attention.mantissa[i])
                >> run->u.attention.shift[i];
        score = score < -limit ? -limit : score > limit - 1 ? limit - 1 : score;
        scores->score[i][run->row] = (int16_t)score;
        if (score > scores->maximum[i])
            scores->maximum[i] = (int16_t)score;
    }
}

CORES_CLONES
static void value_row(struct cores_run *run, const struct cores_scores *scores, const int8_t *value)
{
    for (uint32_t i = 0; i < scores->queries; i++) {
        int32_t below, weight;
        if (run->row >= scores->length[i])
            continue;
        below  = scores->maximum[i] - scores->score[i][run->row];
        weight = run->softmax->exp_table[below < EXP_ENTRIES ? below : EXP_ENTRIES - 1];
        if (weight == 0)
            continue;
        run->u.attention.denominator[i] += weight;
        cores_accumulate(run->u.attention.numerator[i], value, weight, scores->beats*BEAT_BYTES);
    }
}

static void close_record(struct cores_run *run, struct cores_scores *scores)
{
    if (!run->u.attention.is_value) {
        scores->filled = 1;
        return;
    }
    for (uint32_t i = 0; i < scores->queries; i++) {
        for (uint32_t d = 0; d < scores->beats*BEAT_BYTES; d++)
            cores_put(run, (uint32_t)run->u.attention.numerator[i][d]);
        cores_put(run, (uint32_t)run->u.attention.denominator[i]);
        cores_put(run, (uint32_t)scores->maximum[i]);
    }
}

uint32_t cores_attention(struct cores_run *run, uint32_t beats)
{
    uint32_t start = run->beats;

    if (run->row == run->rows)
        open_record(run);
    while (run->row < run->rows && run->busy && run->beats - start < beats) {
        struct cores_scores *scores = &run->u.attention.scores[run->u.attention.buffer];
        const uint8_t *row          = cores_take(run, run->row_beats*BEAT_BYTES, run->scratch);
        if (!row) {
            run->errors |= CORES_ERROR_TRUNCATED;
            run->rows    = run->row = 0;
            break;
        }
        if (run->u.attention.is_value)
            value_row(run, scores, (const int8_t *)row);
        else
            key_row(run, scores, (const int8_t *)row);
        if (++run->row == run->rows)
            close_record(run, scores);
    }
    return run->beats - start;
}
