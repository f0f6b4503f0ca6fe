/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* CPU exceptions: one line on the console, then the end. None of them is expected. */

#include "drivers/console.h"
#include "drivers/fault.h"

static const char *const kinds[] = {
    "undefined instruction", "supervisor call", "prefetch abort", "data abort", "reserved vector", "interrupt", "fast interrupt",
};

void fault(uint32_t kind, uint32_t pc, uint32_t cpsr)
{
    uint32_t address = 0, status = 0;

    if (kind == 2) {
        __asm__ volatile("mrc p15, 0, %0, c6, c0, 2" : "=r"(address));
        __asm__ volatile("mrc p15, 0, %0, c5, c0, 1" : "=r"(status));
    } else if (kind == 3) {
        __asm__ volatile("mrc p15, 0, %0, c6, c0, 0" : "=r"(address));
        __asm__ volatile("mrc p15, 0, %0, c5, c0, 0" : "=r"(status));
    }
    console_print("\nfault: %s at pc %x, address %x, status %x, cpsr %x\n", kinds[kind], pc, address, status, cpsr);
    console_flush();
    fault_stop();
}

void fatal(const char *text)
{
    console_print("\nfault: %s\n", text);
    console_flush();
    fault_stop();
}
