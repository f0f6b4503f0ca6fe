/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <stdint.h>

#include "string.h"

/* A loop that the compiler must not turn into a call of the very function that it is. */
#define KEEP_LOOP() __asm__ volatile("")

typedef uint32_t __attribute__((aligned(1), may_alias)) word;

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;

    for (; bytes >= 16; bytes -= 16, t += 16, f += 16) {
        word a = ((const word *)f)[0], b = ((const word *)f)[1], c = ((const word *)f)[2], d = ((const word *)f)[3];
        ((word *)t)[0] = a;
        ((word *)t)[1] = b;
        ((word *)t)[2] = c;
        ((word *)t)[3] = d;
        KEEP_LOOP();
    }
    for (; bytes; bytes--) {
        *t++ = *f++;
        KEEP_LOOP();
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;

    if (t <= f || t >= f + bytes)
        for (; bytes; bytes--) {
            *t++ = *f++;
            KEEP_LOOP();
        }
    else
        for (; bytes; bytes--) {
            t[bytes - 1] = f[bytes - 1];
            KEEP_LOOP();
        }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *t = to;
    uint32_t fill = (uint8_t)value*0x01010101u;

    for (; bytes >= 16; bytes -= 16, t += 16) {
        ((word *)t)[0] = fill;
        ((word *)t)[1] = fill;
        ((word *)t)[2] = fill;
        ((word *)t)[3] = fill;
        KEEP_LOOP();
    }
    for (; bytes; bytes--) {
        *t++ = (uint8_t)value;
        KEEP_LOOP();
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const uint8_t *x = a, *y = b;

    for (; bytes; bytes--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *text)
{
    size_t length = 0;

    while (text[length]) {
        length++;
        KEEP_LOOP();
    }
    return length;
}
