/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Cache maintenance of VexRiscv: what the CPU writes goes straight to the memory, and one instruction forgets all that it has read.
 * A cache between it and the memory (L2) is not there: soc/litex/litedram.py refuses one.
 */

#include <generated/soc.h>

#include "drivers/bus.h"
#include "drivers/cache.h"

#if defined(CONFIG_L2_SIZE)
#error "the accelerator's ports pass an L2 cache by: build the SoC with an L2 of 0 bytes"
#endif

void cache_clean(const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    barrier();
}

void cache_invalidate(const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
#if defined(CONFIG_CPU_HAS_DCACHE)
    __asm__ volatile(".word 0x500F" ::: "memory");
#endif
    barrier();
}

void cache_flush(const void *data, size_t bytes)
{
    cache_clean(data, bytes);
    cache_invalidate(data, bytes);
}
