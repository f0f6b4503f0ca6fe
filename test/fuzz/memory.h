/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The memory of a board that is fuzzed: one array that bus addresses reach, of which only what was given out may be touched. */

#ifndef MEMORY_H
#define MEMORY_H

#include <sanitizer/asan_interface.h>
#include <string.h>

#include "cores_pl.h"

#define MEMORY_BYTES (2u << 20)

static uint8_t memory[MEMORY_BYTES] __attribute__((aligned(4096)));
static uint32_t memory_used;

/* Takes everything back. What lies in the memory then must not matter. */
static inline void memory_clear(uint8_t fill)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(memory));
    memset(memory, fill, sizeof(memory));
    ASAN_POISON_MEMORY_REGION(memory, sizeof(memory));
    memory_used = ENGINE_ALIGNMENT;
}

/* `bytes` bytes at a place for buffers, with a hole behind them. */
static inline uint8_t *memory_take(uint32_t bytes)
{
    uint8_t *start = memory + memory_used;

    memory_used += (bytes + 2*ENGINE_ALIGNMENT - 1)/ENGINE_ALIGNMENT*ENGINE_ALIGNMENT;
    if (memory_used > MEMORY_BYTES)
        fuzz_fail("the memory is too small for this target");
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    return start;
}

/* The C cores, which reach all of it. */
static inline void memory_cores(struct cores_pl *cores, struct engine_pl *pl, uint32_t share, uint32_t (*microseconds)(void))
{
    cores_pl_init(cores, pl, (uintptr_t)memory, sizeof(memory), share, microseconds);
}

#endif
