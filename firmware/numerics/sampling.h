/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* From logits to the next token: model/numerics/sampling.py, bit for bit. */

#ifndef SAMPLING_H
#define SAMPLING_H

#include <stdint.h>

#include "litetern/engine.h"
#include "litetern/numerics.h"

/* A session's memory of the last tokens and its random numbers. */
struct sampling_state {
    uint64_t random;
    uint32_t count;                /* Tokens seen; the ring holds the last SAMPLING_PENALTY_WINDOW. */
    uint32_t recent[SAMPLING_PENALTY_WINDOW];
};

/* 1 if all settings are in range. */
int sampling_check(const struct sampling_settings *settings);

void sampling_reset(struct sampling_state *state);
void sampling_seed(struct sampling_state *state, uint64_t seed);

/* Tells the state about a token of the session's text. */
void sampling_see(struct sampling_state *state, uint32_t token);

/* The next token. logits float [vocab] are changed during the call and restored. */
uint32_t sampling_choose(struct sampling_state *state, const struct sampling_settings *settings, float *logits, uint32_t vocab);

#endif
