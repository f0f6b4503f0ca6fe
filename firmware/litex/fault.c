/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Traps: one line on the console, then the end. None of them is expected. */

#include "drivers/console.h"
#include "drivers/fault.h"

void fault(uint32_t cause, uint32_t pc, uint32_t value)
{
    console_print("\nfault: trap %u at pc %x, value %x\n", cause, pc, value);
    console_flush();
    fault_stop();
}

void fatal(const char *text)
{
    console_print("\nfault: %s\n", text);
    console_flush();
    fault_stop();
}
