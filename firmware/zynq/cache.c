/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "drivers/cache.h"
#include "litetern/memory.h"
#include "zynq.h"

#define PL310_CONTROL         REGISTER(PL310_BASE + 0x100)
#define PL310_AUXILIARY       REGISTER(PL310_BASE + 0x104)
#define PL310_TAG_LATENCY     REGISTER(PL310_BASE + 0x108)
#define PL310_DATA_LATENCY    REGISTER(PL310_BASE + 0x10C)
#define PL310_INTERRUPT_CLEAR REGISTER(PL310_BASE + 0x220)
#define PL310_SYNC            REGISTER(PL310_BASE + 0x730)
#define PL310_INVALIDATE      REGISTER(PL310_BASE + 0x770)
#define PL310_INVALIDATE_WAYS REGISTER(PL310_BASE + 0x77C)
#define PL310_CLEAN           REGISTER(PL310_BASE + 0x7B0)
#define PL310_FLUSH           REGISTER(PL310_BASE + 0x7F0)
#define SLCR_UNLOCK           REGISTER(SLCR_BASE + 0x008)
#define SLCR_L2_RAM           REGISTER(SLCR_BASE + 0xA1C)

#define WAYS                  0xFFFFu
#define AUXILIARY             0x72760000u  /* 8 ways of 64 KB, shared, parity, event bus, prefetch, round robin. */
#define TAG_LATENCY           0x111u
#define DATA_LATENCY          0x121u
#define L2_RAM                0x00020202u

static void sync_l2(void)
{
    PL310_SYNC = 0;
    while (PL310_SYNC & 1)
        ;
}

void cache_enable_l2(void)
{
    SLCR_UNLOCK = SLCR_KEY;
    SLCR_L2_RAM = L2_RAM;
    if (PL310_CONTROL & 1)
        return;
    PL310_AUXILIARY       = (PL310_AUXILIARY & 0x8DC0FFFFu) | AUXILIARY;
    PL310_TAG_LATENCY     = TAG_LATENCY;
    PL310_DATA_LATENCY    = DATA_LATENCY;
    PL310_INVALIDATE_WAYS = WAYS;
    while (PL310_INVALIDATE_WAYS & WAYS)
        ;
    sync_l2();
    PL310_INTERRUPT_CLEAR = 0x1FF;
    PL310_CONTROL         = 1;
    barrier();
}

/* One line of L1, by address: to the point of coherency. */
static inline void l1_clean(uintptr_t line)
{
    __asm__ volatile("mcr p15, 0, %0, c7, c10, 1" :: "r"(line) : "memory");
}

static inline void l1_invalidate(uintptr_t line)
{
    __asm__ volatile("mcr p15, 0, %0, c7, c6, 1" :: "r"(line) : "memory");
}

static inline void l1_flush(uintptr_t line)
{
    __asm__ volatile("mcr p15, 0, %0, c7, c14, 1" :: "r"(line) : "memory");
}

/* First line of a range, and the end of its last one. */
static inline uintptr_t first_line(uintptr_t address)
{
    return address & ~(uintptr_t)(CACHE_LINE - 1);
}

static inline uintptr_t last_line(uintptr_t address)
{
    return (address + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);
}

__attribute__((noinline)) void cache_clean(const void *data, size_t bytes)
{
    uintptr_t first = first_line((uintptr_t)data), end = last_line((uintptr_t)data + bytes);

    if (bytes == 0)
        return;
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        l1_clean(line);
    barrier();
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        PL310_CLEAN = line;
    sync_l2();
    barrier();
}

/* L1 first, so that L2 holds the newest; then L2; then L1 again, should it have fetched a line in between. */
__attribute__((noinline)) void cache_flush(const void *data, size_t bytes)
{
    uintptr_t first = first_line((uintptr_t)data), end = last_line((uintptr_t)data + bytes);

    if (bytes == 0)
        return;
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        l1_clean(line);
    barrier();
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        PL310_FLUSH = line;
    sync_l2();
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        l1_flush(line);
    barrier();
}

/* L2 first: L1 must not fetch from it what is old. */
__attribute__((noinline)) void cache_invalidate(const void *data, size_t bytes)
{
    uintptr_t first = first_line((uintptr_t)data), end = last_line((uintptr_t)data + bytes);

    if (bytes == 0)
        return;
    if (first != (uintptr_t)data)
        cache_flush((const void *)first, 1);
    if (end != (uintptr_t)data + bytes && (end - first > CACHE_LINE || first == (uintptr_t)data))
        cache_flush((const void *)(end - CACHE_LINE), 1);
    first = last_line((uintptr_t)data);
    end   = first_line((uintptr_t)data + bytes);
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        PL310_INVALIDATE = line;
    sync_l2();
    for (uintptr_t line = first; line < end; line += CACHE_LINE)
        l1_invalidate(line);
    barrier();
}
