/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#ifndef FAULT_H
#define FAULT_H

#include <stdint.h>

/* Called by the vectors: reports an exception and stops. */
void fault(uint32_t kind, uint32_t pc, uint32_t cpsr) __attribute__((noreturn));

/* Reports what makes going on impossible, and stops. */
void fatal(const char *text) __attribute__((noreturn));

/* start.S: stops without a word. */
void fault_stop(void) __attribute__((noreturn));

#endif
