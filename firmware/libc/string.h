/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* What bare-metal builds have of the C library. */

#ifndef STRING_H
#define STRING_H

#include <stddef.h>

void  *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void  *memmove(void *to, const void *from, size_t bytes);
void  *memset(void *to, int value, size_t bytes);
int    memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);

#endif
