/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Four fp32 lanes: the only arithmetic that ops.c uses, so that scalar and NEON builds run the same operations in the same order.
 * Each product and each sum rounds once. Build with -ffp-contract=off.
 *
 *     LANES_SCALAR    plain C even where there is NEON
 *     LANES_CHECK     plain C that counts subnormal inputs, intermediates and results (lanes_subnormals)
 */

#ifndef LANES_H
#define LANES_H

#include "litetern/numerics.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__ARM_NEON) && !defined(LANES_SCALAR) && !defined(LANES_CHECK)
#include "lanes_neon.h"
#else
#include "lanes_scalar.h"
#endif

/* Nearest integer of |x| < 2**22, half to even. */
static inline lanes lanes_round(lanes x)
{
    lanes magic = lanes_set(OPS_ROUND_MAGIC);

    return lanes_sub(lanes_add(x, magic), magic);
}

#endif
