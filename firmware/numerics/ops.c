/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "lanes.h"
#include "ops.h"

#ifdef LANES_CHECK
uint32_t lanes_subnormals;
#endif

/* Building blocks -------------------------------------------------------------------------------*/

static inline lanes exp_lanes(lanes x)
{
    static const float terms[] = OPS_EXP_TERMS;
    lanes n, r, p;

    x = lanes_min(lanes_max(x, lanes_set(-OPS_EXP_LIMIT)), lanes_set(OPS_EXP_LIMIT));
    n = lanes_round(lanes_mul(x, lanes_set(OPS_LOG2_E)));
    r = lanes_sub(lanes_sub(x, lanes_mul(n, lanes_set(OPS_LN2_HIGH))), lanes_mul(n, lanes_set(OPS_LN2_LOW)));
    p = lanes_set(terms[0]);
    for (uint32_t i = 1; i < sizeof(terms)/sizeof(terms[0]); i++)
        p = lanes_add(lanes_mul(p, r), lanes_set(terms[i]));
    return lanes_scale(p, n);
}

static inline lanes silu(lanes gate, lanes up)
{
    lanes one     = lanes_set(1.0f);
    lanes sigmoid = lanes_div(one, lanes_add(one, exp_lanes(lanes_neg(gate))));

    return lanes_flush(lanes_mul(lanes_mul(gate, sigmoid), up));
}

static inline lanes relu2(lanes gate, lanes up)
{
    lanes positive = lanes_max(gate, lanes_set(0.0f));

    return lanes_flush(lanes_mul(lanes_flush(lanes_mul(positive, positive)), up));
}

/* Norm ------------------------------------------------------------------------------------------*/

void ops_exp(float *out, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 4)
        lanes_store(out + i, exp_lanes(lanes_load(x + i)));
}

void ops_rms_norm(float *out, const float *x, const float *gain, float eps, uint32_t n)
{
    lanes sum = lanes_load(x), low, high, factor;
    float mean;

    high = lanes_load(x + 4);
    sum  = lanes_add(lanes_mul(sum, sum), lanes_mul(high, high));
    for (uint32_t i = 8; i < n; i += 8) {
        low  = lanes_load(x + i);
        high = lanes_load(x + i + 4);
        sum  = lanes_add(lanes_add(sum, lanes_mul(low, low)), lanes_mul(high, high));
    }
    mean   = lanes_checked(lanes_sum(sum)/(float)n);
    factor = lanes_set(1.0f/__builtin_sqrtf(lanes_checked(mean + eps)));
    for (uint32_t i = 0; i < n; i += 8) {
        low  = lanes_mul(lanes_load(x + i),     factor);
        high = lanes_mul(lanes_load(x + i + 4), factor);
        lanes_store(out + i,     lanes_mul(low,  lanes_load(gain + i)));
        lanes_store(out + i + 4, lanes_mul(high, lanes_load(gain + i + 4)));
    }
}

/* Quantise --------------------------------------------------------------------------------------*/

static inline void quantise_8(int8_t *out, const float *x, lanes scale)
{
    lanes_store_int8(out, lanes_mul(lanes_load(x), scale), lanes_mul(lanes_load(x + 4), scale));
}

static inline lanes largest_8(lanes largest, const float *x)
{
    return lanes_max(lanes_max(largest, lanes_abs(lanes_load(x))), lanes_abs(lanes_load(x + 4)));
}

float ops_quantise(int8_t *out, const float *x, uint32_t n)
{
    lanes largest = lanes_set(OPS_QUANTISE_FLOOR), scale;
    uint32_t even = n & ~15u;
    float maximum;

    for (uint32_t i = 0; i < even; i += 16)
        largest = largest_8(largest_8(largest, x + i), x + i + 8);
    if (even < n)
        largest = largest_8(largest, x + even);
    maximum = lanes_largest(largest);
    scale   = lanes_set(127.0f/maximum);
    for (uint32_t i = 0; i < even; i += 16) {
        quantise_8(out + i,     x + i,     scale);
        quantise_8(out + i + 8, x + i + 8, scale);
    }
    if (even < n)
        quantise_8(out + even, x + even, scale);
    return lanes_checked(maximum/127.0f);
}

void ops_planes(int8_t *x, uint32_t n, uint32_t planes)
{
    int8_t *out = x;

    for (int32_t plane = 1, divisor = 3; plane < (int32_t)planes; plane++, divisor *= 3) {
        /* Above 0 the quotient by this reciprocal is exact. */
        int32_t offset = 128*divisor + divisor/2, reciprocal = (65536 + divisor - 1)/divisor;
        out += n;
        for (uint32_t i = 0; i < n; i++)
            out[i] = (int8_t)(((x[i] + offset)*reciprocal >> 16) - 128);
    }
}

void ops_quantise_fixed(int8_t *out, const float *x, float step, uint32_t n)
{
    lanes inverse = lanes_set(1.0f/step), bottom = lanes_set(-128.0f), top = lanes_set(127.0f);

    for (uint32_t i = 0; i < n; i += 8) {
        lanes low  = lanes_mul(lanes_load(x + i),     inverse);
        lanes high = lanes_mul(lanes_load(x + i + 4), inverse);
        lanes_store_int8(out + i, lanes_min(lanes_max(low, bottom), top), lanes_min(lanes_max(high, bottom), top));
    }
}

/* Dequantise ------------------------------------------------------------------------------------*/

void ops_dequantise(float *out, const int32_t *accumulators, float scale, uint32_t n)
{
    lanes factor = lanes_set(scale);

    for (uint32_t i = 0; i < n; i += 4)
        lanes_store(out + i, lanes_mul(lanes_load_int32(accumulators + i), factor));
}

void ops_dequantise_rows(float *out, const int32_t *accumulators, const float *steps, float step, uint32_t n)
{
    lanes factor = lanes_set(step);
    uint32_t i;

    for (i = 0; i + 4 <= n; i += 4)
        lanes_store(out + i, lanes_mul(lanes_load_int32(accumulators + i), lanes_mul(lanes_load(steps + i), factor)));
    for (; i < n; i++)
        out[i] = lanes_checked((float)accumulators[i]*lanes_checked(steps[i]*step));
}

static inline void add_lanes(float *x, lanes y)
{
    lanes_store(x, lanes_flush(lanes_add(lanes_load(x), y)));
}

void ops_residual(float *x, const int32_t *accumulators, float scale, uint32_t n)
{
    lanes factor = lanes_set(scale);

    for (uint32_t i = 0; i < n; i += 4)
        add_lanes(x + i, lanes_mul(lanes_load_int32(accumulators + i), factor));
}

/* Four accumulators of rows with their own steps. */
static inline lanes dequantise_4(const int32_t *accumulators, const float *steps, lanes factor)
{
    return lanes_mul(lanes_load_int32(accumulators), lanes_mul(lanes_load(steps), factor));
}

void ops_residual_rows(float *x, const int32_t *accumulators, const float *steps, float step, uint32_t n)
{
    lanes factor = lanes_set(step);

    for (uint32_t i = 0; i < n; i += 4)
        add_lanes(x + i, dequantise_4(accumulators + i, steps + i, factor));
}

void ops_embed(float *x, const int8_t *row, float step, uint32_t n)
{
    lanes factor = lanes_set(step), low, high;

    for (uint32_t i = 0; i < n; i += 8) {
        lanes_load_int8(row + i, &low, &high);
        lanes_store(x + i,     lanes_flush(lanes_mul(low,  factor)));
        lanes_store(x + i + 4, lanes_flush(lanes_mul(high, factor)));
    }
}

/* RoPE ------------------------------------------------------------------------------------------*/

void ops_rope(float *x, const float *cosine, const float *sine, uint32_t head_dim, uint32_t heads)
{
    uint32_t half = head_dim/2;

    for (; heads; heads--, x += head_dim)
        for (uint32_t i = 0; i < half; i += 4) {
            lanes low = lanes_load(x + i), high = lanes_load(x + half + i);
            lanes c   = lanes_load(cosine + i), s = lanes_load(sine + i);
            lanes_store(x + i,        lanes_sub(lanes_mul(low,  c), lanes_mul(high, s)));
            lanes_store(x + half + i, lanes_add(lanes_mul(high, c), lanes_mul(low,  s)));
        }
}

/* Activation ------------------------------------------------------------------------------------*/

void ops_activate(uint32_t activation, float *out, const int32_t *gate, float gate_scale, const int32_t *up, float up_scale,
                  uint32_t n)
{
    lanes gate_factor = lanes_set(gate_scale), up_factor = lanes_set(up_scale);

    for (uint32_t i = 0; i < n; i += 4) {
        lanes g = lanes_mul(lanes_load_int32(gate + i), gate_factor);
        lanes u = lanes_mul(lanes_load_int32(up + i),   up_factor);
        lanes_store(out + i, activation == OPS_SILU ? silu(g, u) : relu2(g, u));
    }
}

void ops_activate_rows(uint32_t activation, float *out, const int32_t *gate, const float *gate_steps, const int32_t *up,
                       const float *up_steps, float step, uint32_t n)
{
    lanes factor = lanes_set(step);

    for (uint32_t i = 0; i < n; i += 4) {
        lanes g = dequantise_4(gate + i, gate_steps + i, factor);
        lanes u = dequantise_4(up + i,   up_steps + i,   factor);
        lanes_store(out + i, activation == OPS_SILU ? silu(g, u) : relu2(g, u));
    }
}

/* Attention -------------------------------------------------------------------------------------*/

float ops_k_factor(float k_step, uint32_t head_dim, uint32_t steps_per_nat)
{
    double factor = (double)steps_per_nat*(double)(1 << SHIFT_MAX)/__builtin_sqrt((double)head_dim);

    return lanes_checked(k_step*lanes_checked((float)factor));
}

uint32_t ops_score_multiplier(float q_step, float k_factor, uint32_t mantissa_bits, uint32_t *exponent)
{
    const float limit = (float)((1 << mantissa_bits) - 1), down = 1.0f/(float)(1 << SHIFT_STEP);
    float m = lanes_checked(q_step*k_factor);

    for (*exponent = 0; *exponent < EXPONENT_MAX && m > limit; ++*exponent)
        m = lanes_checked(m*down);
    m = m < limit ? m : limit;
    return (uint32_t)(int32_t)((m + OPS_ROUND_MAGIC) - OPS_ROUND_MAGIC);
}

void ops_attention_output(float *out, const int32_t *numerators, int32_t denominator, float v_step, uint32_t head_dim)
{
    lanes factor = lanes_set(v_step/(float)denominator);

    for (uint32_t i = 0; i < head_dim; i += 4)
        lanes_store(out + i, lanes_flush(lanes_mul(lanes_load_int32(numerators + i), factor)));
}
