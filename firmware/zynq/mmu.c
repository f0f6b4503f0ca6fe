/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "drivers/cache.h"
#include "litetern/memory.h"
#include "mmu.h"
#include "zynq.h"

/* Section descriptors: full access, domain 0. */
#define SECTION        0x00000C02u
#define MEMORY         (SECTION | 1u << 16 | 1u << 12 | 1u << 3 | 1u << 2)  /* Normal, shared, write-back, write-allocate. */
#define DEVICE         (SECTION | 1u << 16 | 1u << 2 | 1u << 4)             /* Shared device, never executed. */
#define PAGES          1u                                                   /* A table of 256 small pages, domain 0. */
#define PAGE_BYTES     4096u
#define TABLE_CACHED   0x4Au                                                /* Walks: shared, write-back, write-allocate. */
/* A small page of full access, never executed: normal, shared, write-back in L1; L2 does not lie before the on-chip memory. */
#define RESULTS        (2u | 1u << 10 | 4u << 6 | 3u << 4 | 1u << 3 | 1u << 2 | 1u)
#define DOMAIN_CLIENT  0x1u
#define SCTLR_M        (1u << 0)
#define SCTLR_C        (1u << 2)
#define SCTLR_Z        (1u << 11)
#define SCTLR_I        (1u << 12)

#define SLCR_UNLOCK    REGISTER(SLCR_BASE + 0x008)
#define SLCR_OCM       REGISTER(SLCR_BASE + 0x910)
#define OCM_HIGH       0x1Fu                                                /* All four banks at OCM_BASE. */

static uint32_t table[4096] __attribute__((section(".tables"), aligned(0x4000)));
static uint32_t on_chip[256] __attribute__((section(".tables"), aligned(0x400)));

/* Maps [first, last) in MB; what no call names faults, address 0 too. */
static void map(uint32_t first, uint32_t last, uint32_t attributes)
{
    for (uint32_t i = first; i < last; i++)
        table[i] = i << 20 | attributes;
}

/* Maps the part of the on-chip memory that the PL writes results to. What lies around it must not even be fetched ahead. */
static void map_results(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t address = (RESULTS_BASE & ~0xFFFFFu) + i*PAGE_BYTES;
        on_chip[i] = address >= RESULTS_BASE && address - RESULTS_BASE < RESULTS_BYTES ? address | RESULTS : 0;
    }
    table[RESULTS_BASE >> 20] = (uint32_t)(uintptr_t)on_chip | PAGES;
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
    map_results();
    SLCR_UNLOCK = SLCR_KEY;
    SLCR_OCM    = OCM_HIGH;
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
