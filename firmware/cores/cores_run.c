/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Descriptor list, stream and results of the C cores. */

#include <string.h>

#include "cores_run.h"
#include "litetern/formats.h"

#define BLOCK_BYTES (BURST_BEATS*BEAT_BYTES)  /* Ranges consist of whole bursts. */

/* Reader ----------------------------------------------------------------------------------------*/

/* 1 if a range holds the blocks of `bytes` bytes at a bus address. */
static int holds(const struct cores_range *range, uint32_t address, uint64_t bytes)
{
    return address/BLOCK_BYTES >= range->first/BLOCK_BYTES && (address + bytes - 1)/BLOCK_BYTES <= range->last/BLOCK_BYTES;
}

/* Finds `bytes` bytes (at least 1) at a bus address, where the range or the one behind it allows them. Returns 0 or the error. */
static uint32_t find(const struct cores_memory *memory, uint32_t range, uint32_t address, uint64_t bytes, uintptr_t *at)
{
    uint32_t offset = address - memory->high_first;

    if (!holds(&memory->range[range], address, bytes) && !holds(&memory->range[range + 1], address, bytes))
        return range < ENGINE_RANGE_RESULTS ? CORES_ERROR_READER_RANGE : CORES_ERROR_WRITER_RANGE;
    if (address + bytes <= memory->bytes)
        *at = memory->base + address;
    else if (address >= memory->high_first && offset + bytes <= memory->high_bytes)
        *at = memory->high + offset;
    else
        return CORES_ERROR_READER_RESPONSE;
    return 0;
}

/* Fetches the next descriptor; 0 at the end of the list or of the run. */
static int next_piece(struct cores_run *run)
{
    uint64_t descriptor;
    uintptr_t at;
    uint32_t error;

    if (run->last || !run->busy)
        return 0;
    error = find(run->memory, ENGINE_RANGE_IMAGE, run->list, BEAT_BYTES, &at);
    if (!error) {
        memcpy(&descriptor, (const void *)at, sizeof(descriptor));
        run->list       += BEAT_BYTES;
        run->last        = DESCRIPTOR_LAST(descriptor);
        run->piece_bytes = DESCRIPTOR_LENGTH(descriptor)*BEAT_BYTES;
        error = CORES_ERROR_READER_DESCRIPTOR;
        if (run->piece_bytes)
            error = find(run->memory, ENGINE_RANGE_IMAGE, DESCRIPTOR_ADDRESS(descriptor)*BEAT_BYTES, run->piece_bytes, &run->piece);
    }
    if (error)
        cores_fail(run, error);
    return !error;
}

int cores_ended(struct cores_run *run)
{
    return run->piece_bytes == 0 && !next_piece(run);
}

const uint8_t *cores_take(struct cores_run *run, uint32_t bytes, uint8_t *scratch)
{
    const uint8_t *data = scratch;

    if (cores_ended(run))
        return NULL;
    run->beats += bytes/BEAT_BYTES;
    if (bytes <= run->piece_bytes) {
        data = (const uint8_t *)run->piece;
        run->piece       += bytes;
        run->piece_bytes -= bytes;
        return data;
    }
    while (bytes) {
        uint32_t part = bytes < run->piece_bytes ? bytes : run->piece_bytes;
        memcpy(scratch, (const void *)run->piece, part);
        run->piece       += part;
        run->piece_bytes -= part;
        scratch          += part;
        bytes            -= part;
        if (bytes && cores_ended(run)) {
            run->beats -= bytes/BEAT_BYTES;
            return NULL;
        }
    }
    return data;
}

/* Drops beats of a refused record, or of everything after a wrong magic number. */
static uint32_t skip(struct cores_run *run, uint32_t beats)
{
    uint32_t part;

    if (cores_ended(run)) {
        if (run->skip != UINT64_MAX)
            run->errors |= CORES_ERROR_TRUNCATED;
        run->skip = 0;
        return 0;
    }
    part = run->piece_bytes/BEAT_BYTES;
    part = part < beats ? part : beats;
    part = part < run->skip ? part : (uint32_t)run->skip;
    run->piece       += part*BEAT_BYTES;
    run->piece_bytes -= part*BEAT_BYTES;
    run->beats       += part;
    if (run->skip != UINT64_MAX)
        run->skip -= part;
    return part;
}

/* Run -------------------------------------------------------------------------------------------*/

void cores_fail(struct cores_run *run, uint32_t error)
{
    run->errors     |= error;
    run->busy        = 0;
    run->piece_bytes = 0;
    run->skip        = 0;
}

void cores_start(struct cores_run *run, const struct cores_memory *memory, const struct cores_softmax *softmax, uint32_t core,
                 uint32_t list, uint32_t destination, uint32_t limit)
{
    uint32_t error = 0;

    destination &= ~(uint32_t)(BEAT_BYTES - 1);
    run->written     = 0;
    run->beats       = 0;
    run->errors      = 0;
    run->busy        = 1;
    run->memory      = memory;
    run->softmax     = softmax;
    run->core        = core;
    run->list        = list & ~(uint32_t)(BEAT_BYTES - 1);
    run->limit       = limit & ~(uint32_t)(BEAT_BYTES - 1);
    run->piece_bytes = 0;
    run->last        = 0;
    run->half_full   = 0;
    run->rows        = 0;
    run->row         = 0;
    run->skip        = 0;
    if (core == ENGINE_CORE_ATTENTION) {
        run->u.attention.scores[0].filled = 0;
        run->u.attention.scores[1].filled = 0;
    }
    if (core > ENGINE_CORE_ATTENTION || (core == ENGINE_CORE_ATTENTION && (!softmax || softmax->score_limit == 0)))
        error = CORES_ERROR_NO_CORE;
    else if (run->limit)
        error = find(memory, ENGINE_RANGE_RESULTS, destination, run->limit, &run->results);
    if (error)
        cores_fail(run, error);
}

uint32_t cores_advance(struct cores_run *run, uint32_t beats)
{
    uint32_t taken = 0;

    while (run->busy && taken < beats) {
        if (run->skip)
            taken += skip(run, beats - taken);
        else if (run->row == run->rows && cores_ended(run))
            run->busy = 0;
        else if (run->core == ENGINE_CORE_MATMUL)
            taken += cores_matmul(run, beats - taken);
        else
            taken += cores_attention(run, beats - taken);
    }
    return run->busy;
}

uint32_t cores_run_list(struct cores_run *run, const struct cores_memory *memory, const struct cores_softmax *softmax, uint32_t core,
                        uint32_t list, uint32_t destination, uint32_t limit, uint32_t *written, uint32_t *beats)
{
    cores_start(run, memory, softmax, core, list, destination, limit);
    while (cores_advance(run, UINT32_MAX))
        ;
    if (written)
        *written = run->written;
    if (beats)
        *beats = run->beats;
    return run->errors;
}

size_t cores_run_bytes(void)
{
    return sizeof(struct cores_run);
}

size_t cores_softmax_bytes(void)
{
    return sizeof(struct cores_softmax);
}
