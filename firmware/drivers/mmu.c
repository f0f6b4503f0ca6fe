/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "cache.h"
#include "litetern/memory.h"
#include "mmu.h"
#include "zynq.h"

/* Section descriptors: full access, domain 0. */
#define SECTION        0x00000C02u
#define MEMORY         (SECTION | 1u << 16 | 1u << 12 | 1u << 3 | 1u << 2)  /* Normal, shared, write-back, write-allocate. */
#define DEVICE         (SECTION | 1u << 16 | 1u << 2 | 1u << 4)             /* Shared device, never executed. */
#define UNCACHED       (SECTION | 1u << 16 | 1u << 12 | 1u << 4)            /* Normal, not cached, never executed. */
#define TABLE_CACHED   0x4Au                                                /* Walks: shared, write-back, write-allocate. */
#define DOMAIN_CLIENT  0x1u
#define SCTLR_M        (1u << 0)
#define SCTLR_C        (1u << 2)
#define SCTLR_Z        (1u << 11)
#define SCTLR_I        (1u << 12)

static uint32_t table[4096] __attribute__((section(".tables"), aligned(0x4000)));

/* Maps [first, last) in MB; what no call names faults, address 0 too. */
static void map(uint32_t first, uint32_t last, uint32_t attributes)
{
    for (uint32_t i = first; i < last; i++)
        table[i] = i << 20 | attributes;
}

void mmu_enable(void)
{
    uint32_t control;

    for (uint32_t i = 0; i < 4096; i++)
        table[i] = 0;
    map(FIRMWARE_BASE >> 20, DDR_END >> 20, MEMORY);
    map(0x400, 0x800, DEVICE);     /* PL behind GP0. */
    map(0xE00, 0xE03, DEVICE);     /* UARTs, Ethernet, SD. */
    map(0xF80, 0xF90, DEVICE);     /* SLCR, DevC, private peripherals, PL310. */
    map(0xFFF, 0x1000, UNCACHED);  /* On-chip memory. */
    barrier();

    cache_enable_l2();
    __asm__ volatile("mcr p15, 0, %0, c2, c0, 2" :: "r"(0));
    __asm__ volatile("mcr p15, 0, %0, c2, c0, 0" :: "r"((uint32_t)(uintptr_t)table | TABLE_CACHED));
    __asm__ volatile("mcr p15, 0, %0, c3, c0, 0" :: "r"(DOMAIN_CLIENT));
    __asm__ volatile("mcr p15, 0, %0, c8, c7, 0" :: "r"(0));
    barrier();
    __asm__ volatile("isb");
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
    control |= SCTLR_M | SCTLR_C | SCTLR_Z | SCTLR_I;
    __asm__ volatile("mcr p15, 0, %0, c1, c0, 0" :: "r"(control) : "memory");
    __asm__ volatile("isb");
}
