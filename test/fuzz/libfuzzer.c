/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* What driver.c has and libFuzzer has not. */

#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

uint32_t fuzz_accepted;

void fuzz_fail(const char *text)
{
    fprintf(stderr, "fuzz: %s\n", text);
    abort();
}
