/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * All cache maintenance of the firmware. The CPU sees memory through L1 and L2, the PL sees the DDR.
 *
 *     CPU writes → cache_clean()      → the PL may read
 *     PL writes  → cache_invalidate() → the CPU may read
 *
 * A buffer that the PL writes shares no line with anything that the CPU writes: engine buffers are aligned to whole lines.
 */

#ifndef CACHE_H
#define CACHE_H

#include <stddef.h>

#include "litetern/board.h"

/* L2 on, empty. Called once, by mmu_enable(). */
void cache_enable_l2(void);

/* What the CPU wrote reaches the DDR; lines stay valid. */
void cache_clean(const void *data, size_t bytes);

/* The CPU forgets its copies of the lines. What it wrote next to `data` in the first and last line is written back before. */
void cache_invalidate(const void *data, size_t bytes);

/* Both: to the DDR, and forgotten. */
void cache_flush(const void *data, size_t bytes);

#endif
