/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Four lanes in plain C; include lanes.h. */

#ifndef LANES_SCALAR_H
#define LANES_SCALAR_H

#include <stdint.h>
#include <string.h>

typedef struct { float v[4]; } lanes;

/* Checker ---------------------------------------------------------------------------------------*/

#ifdef LANES_CHECK

extern uint32_t lanes_subnormals;

static inline float lanes_checked(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if ((bits & 0x7f800000u) == 0 && (bits & 0x007fffffu) != 0)
        lanes_subnormals++;
    return x;
}

#else

static inline float lanes_checked(float x)
{
    return x;
}

#endif

/* Memory ----------------------------------------------------------------------------------------*/

#define LANES_EACH(expression) \
    lanes r; \
    for (int i = 0; i < 4; i++) \
        r.v[i] = lanes_checked(expression); \
    return r

static inline lanes lanes_load(const float *p)            { LANES_EACH(p[i]); }
static inline lanes lanes_set(float x)                    { LANES_EACH(x); }
static inline lanes lanes_load_int32(const int32_t *p)    { LANES_EACH((float)p[i]); }

static inline void lanes_store(float *p, lanes x)
{
    memcpy(p, x.v, sizeof(x.v));
}

/* Eight int8 as two times four lanes. */
static inline void lanes_load_int8(const int8_t *p, lanes *low, lanes *high)
{
    for (int i = 0; i < 4; i++) {
        low->v[i]  = (float)p[i];
        high->v[i] = (float)p[i + 4];
    }
}

/* Rounds |x| < 2**15 half to even and stores the low bytes. */
static inline void lanes_store_int8(int8_t *p, lanes low, lanes high)
{
    for (int i = 0; i < 4; i++) {
        p[i]     = (int8_t)(int32_t)lanes_checked(lanes_checked(low.v[i]  + OPS_ROUND_MAGIC) - OPS_ROUND_MAGIC);
        p[i + 4] = (int8_t)(int32_t)lanes_checked(lanes_checked(high.v[i] + OPS_ROUND_MAGIC) - OPS_ROUND_MAGIC);
    }
}

/* Arithmetic ------------------------------------------------------------------------------------*/

static inline lanes lanes_add(lanes a, lanes b)           { LANES_EACH(a.v[i] + b.v[i]); }
static inline lanes lanes_sub(lanes a, lanes b)           { LANES_EACH(a.v[i] - b.v[i]); }
static inline lanes lanes_mul(lanes a, lanes b)           { LANES_EACH(a.v[i]*b.v[i]); }
static inline lanes lanes_div(lanes a, lanes b)           { LANES_EACH(a.v[i]/b.v[i]); }
static inline lanes lanes_max(lanes a, lanes b)           { LANES_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
static inline lanes lanes_min(lanes a, lanes b)           { LANES_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
static inline lanes lanes_neg(lanes a)                    { LANES_EACH(-a.v[i]); }
static inline lanes lanes_abs(lanes a)                    { LANES_EACH(a.v[i] < 0 ? -a.v[i] : a.v[i]); }

/* Lanes below OPS_TINY become 0. */
static inline lanes lanes_flush(lanes a)
{
    LANES_EACH(a.v[i] < OPS_TINY && a.v[i] > -OPS_TINY ? 0.0f : a.v[i]);
}

/* a·2**n for a whole n: the exponent field grows by n. */
static inline lanes lanes_scale(lanes a, lanes n)
{
    lanes r;

    for (int i = 0; i < 4; i++) {
        uint32_t bits;
        memcpy(&bits, &a.v[i], sizeof(bits));
        bits += (uint32_t)(int32_t)n.v[i] << 23;
        memcpy(&r.v[i], &bits, sizeof(bits));
        lanes_checked(r.v[i]);
    }
    return r;
}

/* Across lanes ----------------------------------------------------------------------------------*/

static inline float lanes_sum(lanes a)
{
    return lanes_checked(lanes_checked(a.v[0] + a.v[1]) + lanes_checked(a.v[2] + a.v[3]));
}

static inline float lanes_largest(lanes a)
{
    float low  = a.v[0] > a.v[1] ? a.v[0] : a.v[1];
    float high = a.v[2] > a.v[3] ? a.v[2] : a.v[3];

    return low > high ? low : high;
}

#undef LANES_EACH

#endif
