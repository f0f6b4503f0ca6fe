/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Inner loops of soc/virtual/ps/cache.py, which explains the model. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINE      32u
#define POISON    0xA5u
#define RANGES    64u              /* Ranges that evictions choose from. */

#define STALE     1u               /* The PL has written it, the CPU has not invalidated it: `cpu` holds poison. */
#define ARMED     2u               /* A running list may write it; `shadow` holds what `cpu` held when that began. */
#define L1_CLEAN  4u               /* Line by line: its data has left L1 for L2. */
#define L2_GONE   8u               /* Line by line: L2 has forgotten it. */

struct cache {
    uint8_t *cpu, *dma, *shadow, *state;
    uint64_t size, ddr, random;    /* Bytes: of the arrays; of those, what lies from address 0 on. The rest is the memory at `high`. */
    uint64_t high;
    uint64_t cleaned, invalidated, read, written, evicted;  /* Lines. */
    uint32_t ranges[RANGES][2], range;
    char     fault[160];
};

/* The model that the PL's hook belongs to: the hook has no argument for it. */
static struct cache *selected;

static uint8_t poison[LINE];

#define EXPORT __attribute__((visibility("default")))

static void fail(struct cache *c, const char *what, uint64_t line)
{
    if (!c->fault[0])
        snprintf(c->fault, sizeof(c->fault), "%s (line at 0x%08llx)", what,
            (unsigned long long)(line*LINE < c->ddr ? line*LINE : line*LINE - c->ddr + c->high));
}

/* Where an address lies in the arrays; their end where there is no such memory. */
static uint64_t place(const struct cache *c, uint32_t address, uint32_t bytes)
{
    uint64_t end = (uint64_t)address + bytes;

    if (end <= c->ddr)
        return address;
    return address >= c->high && end - c->high <= c->size - c->ddr ? address - c->high + c->ddr : c->size;
}

static int dirty(const struct cache *c, uint64_t line)
{
    return memcmp(c->cpu + line*LINE, c->dma + line*LINE, LINE) != 0;
}

/* A stale line holds poison as long as the CPU leaves it alone. */
static void check_stale(struct cache *c, uint64_t line)
{
    if (memcmp(c->cpu + line*LINE, poison, LINE))
        fail(c, "the CPU has written a line that the PL had written and nobody had invalidated", line);
}

static void note_range(struct cache *c, uint64_t start, uint32_t bytes)
{
    c->ranges[c->range % RANGES][0] = (uint32_t)start;
    c->ranges[c->range % RANGES][1] = bytes;
    c->range++;
}

static uint32_t random_below(struct cache *c, uint32_t limit)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)((c->random >> 32)*limit >> 32);
}

#define LINES(address, bytes) \
    uint64_t start = place(c, address, bytes), first = start/LINE, end = (start + (bytes) + LINE - 1)/LINE; \
    if ((bytes) == 0 || end*LINE > c->size) \
        return

/* One line ---------------------------------------------------------------------------------------*/

static void clean_line(struct cache *c, uint64_t line)
{
    c->cleaned++;
    if (c->state[line] & STALE) {
        check_stale(c, line);
    } else if (dirty(c, line)) {
        if (c->state[line] & ARMED)
            fail(c, "the CPU has written a line that a running list may write", line);
        memcpy(c->dma + line*LINE, c->cpu + line*LINE, LINE);
    }
}

static void invalidate_line(struct cache *c, uint64_t line)
{
    c->invalidated++;
    if (c->state[line] & STALE)
        check_stale(c, line);
    else if (dirty(c, line) && random_below(c, 2)) {  /* It may have been evicted before. */
        c->evicted++;
        memcpy(c->dma + line*LINE, c->cpu + line*LINE, LINE);
    }
    memcpy(c->cpu + line*LINE, c->dma + line*LINE, LINE);
    if (c->state[line] & ARMED)
        memcpy(c->shadow + line*LINE, c->dma + line*LINE, LINE);
    c->state[line] &= ARMED;
}

/* Whole routines ---------------------------------------------------------------------------------*/

EXPORT void cache_clean_range(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    note_range(c, start, bytes);
    for (uint64_t line = first; line < end; line++)
        clean_line(c, line);
}

EXPORT void cache_flush_range(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    for (uint64_t line = first; line < end; line++) {
        clean_line(c, line);
        invalidate_line(c, line);
    }
}

/* What stands beside the data in its first and last line is written back before. */
EXPORT void cache_invalidate_range(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    if (address % LINE)
        clean_line(c, first);
    if ((address + bytes) % LINE)
        clean_line(c, end - 1);
    for (uint64_t line = first; line < end; line++)
        invalidate_line(c, line);
}

/* Line by line -----------------------------------------------------------------------------------*/

EXPORT void cache_l1(struct cache *c, uint32_t address, int clean, int invalidate)
{
    uint64_t start = place(c, address, 1), line = start/LINE;

    if (start >= c->size)
        return;
    if (clean)
        c->state[line] |= L1_CLEAN;
    if (invalidate && (c->state[line] & L2_GONE)) {
        c->state[line] &= (uint8_t)~(L1_CLEAN | L2_GONE);
        invalidate_line(c, line);
    }
}

EXPORT void cache_l2(struct cache *c, uint32_t address, int clean, int invalidate)
{
    uint64_t start = place(c, address, 1), line = start/LINE;

    if (start >= c->size)
        return;
    if (clean && (c->state[line] & L1_CLEAN)) {
        c->state[line] &= (uint8_t)~L1_CLEAN;
        clean_line(c, line);
    }
    if (invalidate)
        c->state[line] |= L2_GONE;
}

/* The PL's side ----------------------------------------------------------------------------------*/

EXPORT void cache_dma_read(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    c->read += end - first;
    if (memcmp(c->cpu + first*LINE, c->dma + first*LINE, (end - first)*LINE) == 0)
        return;
    for (uint64_t line = first; line < end; line++) {
        if (c->state[line] & STALE)
            check_stale(c, line);
        else if (dirty(c, line))
            fail(c, "the PL reads a line that the CPU has written and nobody has cleaned", line);
    }
}

/* A list that may write [address, address + bytes) starts. */
EXPORT void cache_arm(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    note_range(c, start, bytes);
    for (uint64_t line = first; line < end; line++) {
        if (c->state[line] & STALE)
            check_stale(c, line);
        else if (dirty(c, line))
            fail(c, "a list may write a line that the CPU has written and nobody has cleaned", line);
        memcpy(c->shadow + line*LINE, c->cpu + line*LINE, LINE);
        c->state[line] |= ARMED;
    }
}

/* The list has ended. */
EXPORT void cache_disarm(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    for (uint64_t line = first; line < end; line++)
        c->state[line] &= (uint8_t)~ARMED;
}

EXPORT void cache_dma_written(struct cache *c, uint32_t address, uint32_t bytes)
{
    LINES(address, bytes);
    c->written += end - first;
    for (uint64_t line = first; line < end; line++) {
        if (c->state[line] & STALE)
            check_stale(c, line);
        else if ((c->state[line] & ARMED) && memcmp(c->cpu + line*LINE, c->shadow + line*LINE, LINE))
            fail(c, "the PL writes a line that the CPU has written", line);
        c->state[line] |= STALE;
        memcpy(c->cpu + line*LINE, poison, LINE);
    }
}

/* 1 if a load of the CPU from [address, address + bytes) meets a stale line. */
EXPORT int cache_cpu_read(struct cache *c, uint32_t address, uint32_t bytes)
{
    uint64_t start = place(c, address, bytes);

    if (start + bytes > c->size || bytes == 0)
        return 0;
    for (uint64_t line = start/LINE; line <= (start + bytes - 1)/LINE; line++)
        if (c->state[line] & STALE) {
            fail(c, "the CPU reads a line that the PL has written and nobody has invalidated", line);
            return 1;
        }
    return 0;
}

/* Writes back up to `count` random lines of those that lists and maintenance have touched lately. */
EXPORT void cache_evict(struct cache *c, uint32_t count)
{
    for (uint32_t i = 0; i < count && c->range; i++) {
        const uint32_t *range = c->ranges[random_below(c, c->range < RANGES ? c->range : RANGES)];
        uint64_t line = (range[0] + random_below(c, range[1]))/LINE;
        if (!(c->state[line] & (STALE | ARMED)) && dirty(c, line)) {
            memcpy(c->dma + line*LINE, c->cpu + line*LINE, LINE);
            c->evicted++;
        }
    }
}

EXPORT void cache_select(struct cache *c)
{
    selected = c;
    memset(poison, POISON, sizeof(poison));
}

/* For the Verilated PL: before a burst is read, after one is written. */
EXPORT void cache_hook(int write, uint32_t address, uint32_t bytes)
{
    if (write)
        cache_dma_written(selected, address, bytes);
    else
        cache_dma_read(selected, address, bytes);
}
