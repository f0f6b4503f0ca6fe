/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Integer inner loops of the C cores: NEON where there is some, else loops that compilers turn into vector code. */

#ifndef CORES_DOT_H
#define CORES_DOT_H

#include <stdint.h>
#include <string.h>

#include "litetern/numerics.h"

#if defined(__ARM_NEON) && !defined(LANES_SCALAR)
#include <arm_neon.h>
#define CORES_NEON 1
#else
#define CORES_NEON 0
#endif

/* Host libraries pick the widest vectors of the machine at load time; what picks would run before a sanitizer has started. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define CORES_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CORES_CLONES
#endif

/* Σ w·x of n int8 (a multiple of 8). */
static inline int32_t cores_dot(const int8_t *w, const int8_t *x, uint32_t n)
{
#if CORES_NEON
    int32x4_t sum = vdupq_n_s32(0);
    uint32_t i    = 0;

    for (; i + 16 <= n; i += 16) {
        int8x16_t a = vld1q_s8(w + i), b = vld1q_s8(x + i);
        sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(a),  vget_low_s8(b)));
        sum = vpadalq_s16(sum, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
    }
    if (i < n)
        sum = vpadalq_s16(sum, vmull_s8(vld1_s8(w + i), vld1_s8(x + i)));
    return vgetq_lane_s32(sum, 0) + vgetq_lane_s32(sum, 1) + vgetq_lane_s32(sum, 2) + vgetq_lane_s32(sum, 3);
#else
    int32_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (int16_t)w[i]*(int16_t)x[i];
    return sum;
#endif
}

#if CORES_NEON

/*
 * Σ (w + 1)·x of a ternary row, eight bytes at once: digit after digit is split off by a multiplication. x comes in planes: of each
 * beat first what the first digits of its 8 bytes meet, then what the second ones meet, and so on.
 */
static inline int32_t cores_dot_digits(const uint8_t *row, const int8_t *planes, uint32_t beats)
{
    const uint8x8_t third = vdup_n_u8(171), three = vdup_n_u8(3);
    int32x4_t sum = vdupq_n_s32(0);

    while (beats) {
        uint32_t part = beats < 25 ? beats : 25;  /* |Σ| ≤ 25·5·2·128: fits 16 bits. */
        int16x8_t narrow = vdupq_n_s16(0);
        beats -= part;
        for (; part; part--, row += BEAT_BYTES, planes += TERNARY_PER_BEAT) {
            uint8x8_t left = vld1_u8(row);
            /* Bytes that no packer writes hold zeros. */
            left = vbsl_u8(vcgt_u8(left, vdup_n_u8(242)), vdup_n_u8(121), left);
            for (uint32_t digit = 0; digit < TRITS_PER_BYTE - 1; digit++) {
                uint8x8_t quotient = vshr_n_u8(vshrn_n_u16(vmull_u8(left, third), 8), 1);
                narrow = vmlal_s8(narrow, vreinterpret_s8_u8(vmls_u8(left, quotient, three)), vld1_s8(planes + digit*BEAT_BYTES));
                left   = quotient;
            }
            narrow = vmlal_s8(narrow, vreinterpret_s8_u8(left), vld1_s8(planes + (TRITS_PER_BYTE - 1)*BEAT_BYTES));
        }
        sum = vpadalq_s16(sum, narrow);
    }
    return vgetq_lane_s32(sum, 0) + vgetq_lane_s32(sum, 1) + vgetq_lane_s32(sum, 2) + vgetq_lane_s32(sum, 3);
}

#endif

/* sums[i] += e·v[i] of n int8 (a multiple of 8), 0 ≤ e < 2^15. */
static inline void cores_accumulate(int32_t *sums, const int8_t *v, int32_t e, uint32_t n)
{
#if CORES_NEON
    int16x4_t factor = vdup_n_s16((int16_t)e);

    for (uint32_t i = 0; i < n; i += 8) {
        int16x8_t wide = vmovl_s8(vld1_s8(v + i));
        vst1q_s32(sums + i,     vmlal_s16(vld1q_s32(sums + i),     vget_low_s16(wide),  factor));
        vst1q_s32(sums + i + 4, vmlal_s16(vld1q_s32(sums + i + 4), vget_high_s16(wide), factor));
    }
#else
    for (uint32_t i = 0; i < n; i++)
        sums[i] += (int16_t)e*(int16_t)v[i];
#endif
}

#endif
