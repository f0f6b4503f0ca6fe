/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* CRC-32 of Ethernet and zlib: polynomial 0x04C11DB7, reflected. */

#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over `bytes` bytes, as zlib.crc32() does. */
uint32_t crc32_update(uint32_t crc, const void *data, size_t bytes);

#endif
