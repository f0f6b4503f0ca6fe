/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Four lanes in a NEON register, ARMv7 and AArch64; include lanes.h.
 *
 * No multiply-accumulate: it is fused on AArch64. No reciprocal estimates: their steps are fused, too. ARMv7 has no vector division,
 * so lanes divide one by one in the VFP.
 */

#ifndef LANES_NEON_H
#define LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>

typedef float32x4_t lanes;

static inline float lanes_checked(float x)                { return x; }

/* Memory ----------------------------------------------------------------------------------------*/

static inline lanes lanes_load(const float *p)            { return vld1q_f32(p); }
static inline lanes lanes_set(float x)                    { return vdupq_n_f32(x); }
static inline lanes lanes_load_int32(const int32_t *p)    { return vcvtq_f32_s32(vld1q_s32(p)); }
static inline void  lanes_store(float *p, lanes x)        { vst1q_f32(p, x); }

/* Eight int8 as two times four lanes. */
static inline void lanes_load_int8(const int8_t *p, lanes *low, lanes *high)
{
    int16x8_t wide = vmovl_s8(vld1_s8(p));

    *low  = vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
    *high = vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide)));
}

/*
 * Rounds |x| < 2**15 half to even and stores the low bytes: after the magic number is added, the low bits of the float are the
 * integer.
 */
static inline void lanes_store_int8(int8_t *p, lanes low, lanes high)
{
    float32x4_t magic = vdupq_n_f32(OPS_ROUND_MAGIC);
    int16x4_t lower   = vmovn_s32(vreinterpretq_s32_f32(vaddq_f32(low, magic)));
    int16x4_t upper   = vmovn_s32(vreinterpretq_s32_f32(vaddq_f32(high, magic)));

    vst1_s8(p, vmovn_s16(vcombine_s16(lower, upper)));
}

/* Arithmetic ------------------------------------------------------------------------------------*/

static inline lanes lanes_add(lanes a, lanes b)           { return vaddq_f32(a, b); }
static inline lanes lanes_sub(lanes a, lanes b)           { return vsubq_f32(a, b); }
static inline lanes lanes_mul(lanes a, lanes b)           { return vmulq_f32(a, b); }
static inline lanes lanes_max(lanes a, lanes b)           { return vmaxq_f32(a, b); }
static inline lanes lanes_min(lanes a, lanes b)           { return vminq_f32(a, b); }
static inline lanes lanes_neg(lanes a)                    { return vnegq_f32(a); }
static inline lanes lanes_abs(lanes a)                    { return vabsq_f32(a); }

static inline lanes lanes_div(lanes a, lanes b)
{
#ifdef __aarch64__
    return vdivq_f32(a, b);
#else
    float32x2_t low = vget_low_f32(a), high = vget_high_f32(a), lower = vget_low_f32(b), upper = vget_high_f32(b);

    low  = vset_lane_f32(vget_lane_f32(low,  0)/vget_lane_f32(lower, 0), low,  0);
    low  = vset_lane_f32(vget_lane_f32(low,  1)/vget_lane_f32(lower, 1), low,  1);
    high = vset_lane_f32(vget_lane_f32(high, 0)/vget_lane_f32(upper, 0), high, 0);
    high = vset_lane_f32(vget_lane_f32(high, 1)/vget_lane_f32(upper, 1), high, 1);
    return vcombine_f32(low, high);
#endif
}

/* Lanes below OPS_TINY become 0. */
static inline lanes lanes_flush(lanes a)
{
    uint32x4_t keep = vcageq_f32(a, vdupq_n_f32(OPS_TINY));

    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), keep));
}

/* a·2**n for a whole n: the exponent field grows by n. */
static inline lanes lanes_scale(lanes a, lanes n)
{
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), vshlq_n_s32(vcvtq_s32_f32(n), 23)));
}

/* Across lanes ----------------------------------------------------------------------------------*/

static inline float lanes_sum(lanes a)
{
    float32x2_t pairs = vpadd_f32(vget_low_f32(a), vget_high_f32(a));

    return vget_lane_f32(vpadd_f32(pairs, pairs), 0);
}

static inline float lanes_largest(lanes a)
{
    float32x2_t pairs = vpmax_f32(vget_low_f32(a), vget_high_f32(a));

    return vget_lane_f32(vpmax_f32(pairs, pairs), 0);
}

#endif
