/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Registers on the CPU's bus. */

#ifndef BUS_H
#define BUS_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* What was written before has reached memory before what comes after. */
static inline void barrier(void)
{
#ifdef __riscv
    __asm__ volatile("fence iorw, iorw" ::: "memory");
#else
    __asm__ volatile("dsb" ::: "memory");
#endif
}

#endif
