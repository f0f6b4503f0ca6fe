/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * The fp32 operations of a token: model/numerics/ops.py, bit for bit. Vectors have a multiple of 8 elements unless it says otherwise.
 */

#ifndef OPS_H
#define OPS_H

#include <stdint.h>

enum ops_activation {              /* model.config.ACTIVATIONS. */
    OPS_SILU  = 0,
    OPS_RELU2 = 1,
};

/* exp of float [n], the argument limited to ±30. */
void ops_exp(float *out, const float *x, uint32_t n);

/* out = x·gain/√(mean(x²) + eps). */
void ops_rms_norm(float *out, const float *x, const float *gain, float eps, uint32_t n);

/* Absmax int8; returns the step. */
float ops_quantise(int8_t *out, const float *x, uint32_t n);

/* Behind n int8 of x, planes - 1 more vectors: x/3, x/9, rounded to nearest. */
void ops_planes(int8_t *x, uint32_t n, uint32_t planes);

/* int8 with a fixed step (KV cache). */
void ops_quantise_fixed(int8_t *out, const float *x, float step, uint32_t n);

/* out = float(accumulators)·scale. */
void ops_dequantise(float *out, const int32_t *accumulators, float scale, uint32_t n);

/* out = float(accumulators)·(steps·step): rows that have their own steps. Any n. */
void ops_dequantise_rows(float *out, const int32_t *accumulators, const float *steps, float step, uint32_t n);

/* x = flush(x + float(accumulators)·scale): dequantise and residual. Likewise with rows that have their own steps. */
void ops_residual(float *x, const int32_t *accumulators, float scale, uint32_t n);
void ops_residual_rows(float *x, const int32_t *accumulators, const float *steps, float step, uint32_t n);

/* x = flush(float(row)·step): a row of the embedding. */
void ops_embed(float *x, const int8_t *row, float step, uint32_t n);

/* Rotates half-split heads in place; cosine and sine float [head_dim/2]. */
void ops_rope(float *x, const float *cosine, const float *sine, uint32_t head_dim, uint32_t heads);

/* out = activation(gate, up) of the dequantised accumulators of both. */
void ops_activate(uint32_t activation, float *out, const int32_t *gate, float gate_scale, const int32_t *up, float up_scale,
                  uint32_t n);
void ops_activate_rows(uint32_t activation, float *out, const int32_t *gate, const float *gate_steps, const int32_t *up,
                       const float *up_steps, float step, uint32_t n);

/* Factor of ops_score_multiplier() of a KV head. */
float ops_k_factor(float k_step, uint32_t head_dim, uint32_t steps_per_nat);

/* Multiplier of a query head: returns its mantissa, *exponent gets the exponent. */
uint32_t ops_score_multiplier(float q_step, float k_factor, uint32_t mantissa_bits, uint32_t *exponent);

/* out = flush(float(numerators)·(v_step/denominator)). */
void ops_attention_output(float *out, const int32_t *numerators, int32_t denominator, float v_step, uint32_t head_dim);

#endif
