/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "softmax.h"

static int within(uint32_t value, const uint32_t *limits)
{
    return value >= limits[0] && value <= limits[1];
}

int softmax_valid(const struct softmax *softmax)
{
    static const uint32_t limits[4][2] = {
        SOFTMAX_SCORE_BITS_LIMITS, SOFTMAX_STEPS_PER_NAT_LIMITS, SOFTMAX_EXP_BITS_LIMITS, SOFTMAX_MANTISSA_BITS_LIMITS,
    };
    uint16_t table[EXP_ENTRIES];

    if (!within(softmax->score_bits, limits[0]) || !within(softmax->steps_per_nat, limits[1]) ||
        !within(softmax->exp_bits, limits[2]) || !within(softmax->mantissa_bits, limits[3]))
        return 0;
    softmax_exp_table(softmax, table);
    return table[EXP_ENTRIES - 1] == 0;
}

/* Powers of exp(-1/steps_per_nat), the ratio by its series: integers alone. */
void softmax_exp_table(const struct softmax *softmax, uint16_t table[EXP_ENTRIES])
{
    const uint64_t one = (uint64_t)1 << EXP_FRACTION, half = one/2;
    uint64_t ratio = 0, term = one << EXP_GUARD, power = one;

    for (uint32_t k = 0; term; term /= (uint64_t)++k*softmax->steps_per_nat)
        ratio = k % 2 ? ratio - term : ratio + term;
    ratio >>= EXP_GUARD;
    for (uint32_t i = 0; i < EXP_ENTRIES; i++) {
        table[i] = (uint16_t)((power*((1u << softmax->exp_bits) - 1) + half) >> EXP_FRACTION);
        power    = (power*ratio + half) >> EXP_FRACTION;
    }
}
