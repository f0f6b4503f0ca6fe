/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "lanes.h"
#include "ops.h"
#include "sampling.h"

/* Settings --------------------------------------------------------------------------------------*/

static int within(float value, float low, float high)
{
    return value >= low && value <= high;
}

int sampling_check(const struct sampling_settings *settings)
{
    return (settings->temperature == 0.0f || within(settings->temperature, 0.01f, 100.0f)) &&
           within(settings->top_p, 0.0f, 1.0f) && within(settings->repetition_penalty, 0.1f, 10.0f) &&
           settings->top_k <= SAMPLING_CANDIDATES_MAX;
}

/* State -----------------------------------------------------------------------------------------*/

void sampling_reset(struct sampling_state *state)
{
    state->count = 0;
}

void sampling_seed(struct sampling_state *state, uint64_t seed)
{
    state->random = seed;
}

void sampling_see(struct sampling_state *state, uint32_t token)
{
    state->recent[state->count++ % SAMPLING_PENALTY_WINDOW] = token;
}

/* SplitMix64: a counter and a mixing function. */
static uint64_t random_next(struct sampling_state *state)
{
    uint64_t z = state->random += 0x9E3779B97F4A7C15ull;

    z = (z ^ z >> 30)*0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27)*0x94D049BB133111EBull;
    return z ^ z >> 31;
}

/* Penalty ---------------------------------------------------------------------------------------*/

struct penalised {
    uint32_t count;
    uint32_t token[SAMPLING_PENALTY_WINDOW];
    float    logit[SAMPLING_PENALTY_WINDOW];
};

/* Makes the recent tokens less likely, each once; `before` remembers their logits. */
static void penalise(const struct sampling_state *state, float penalty, float *logits, struct penalised *before)
{
    uint32_t count = state->count < SAMPLING_PENALTY_WINDOW ? state->count : SAMPLING_PENALTY_WINDOW;
    float inverse  = 1.0f/penalty;

    before->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = state->recent[i], seen = 0;
        while (seen < before->count && before->token[seen] != token)
            seen++;
        if (seen < before->count)
            continue;
        before->token[seen] = token;
        before->logit[seen] = logits[token];
        before->count++;
        logits[token] = lanes_checked(logits[token]*(logits[token] > 0.0f ? inverse : penalty));
    }
}

static void restore(float *logits, const struct penalised *before)
{
    for (uint32_t i = 0; i < before->count; i++)
        logits[before->token[i]] = before->logit[i];
}

/* Candidates ------------------------------------------------------------------------------------*/

/* 1 if token a ranks behind token b: smaller, or equal and later. */
static inline int behind(const float *logits, uint32_t a, uint32_t b)
{
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
}

/* Sinks the entry at `i` of a heap whose root ranks last. */
static void sink(const float *logits, uint32_t *heap, uint32_t count, uint32_t i)
{
    uint32_t token = heap[i];

    for (;;) {
        uint32_t child = 2*i + 1;
        if (child >= count)
            break;
        if (child + 1 < count && behind(logits, heap[child + 1], heap[child]))
            child++;
        if (!behind(logits, heap[child], token))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = token;
}

/* The `count` best tokens, best first. */
static void best_tokens(const float *logits, uint32_t vocab, uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = i;
    for (uint32_t i = count/2; i-- > 0; )
        sink(logits, tokens, count, i);
    for (uint32_t token = count; token < vocab; token++)
        if (logits[token] > logits[tokens[0]]) {
            tokens[0] = token;
            sink(logits, tokens, count, 0);
        }
    for (uint32_t left = count; left > 1; ) {
        uint32_t last = tokens[0];
        tokens[0]      = tokens[--left];
        tokens[left]   = last;
        sink(logits, tokens, left, 0);
    }
}

#define BLOCK 16

static inline float largest_of_block(const float *logits)
{
    lanes low  = lanes_max(lanes_load(logits),     lanes_load(logits + 4));
    lanes high = lanes_max(lanes_load(logits + 8), lanes_load(logits + 12));

    return lanes_largest(lanes_max(low, high));
}

/* The first token with the largest logit: blocks first, then the tokens of the block that won. */
static uint32_t largest(const float *logits, uint32_t vocab)
{
    uint32_t best = 0, first = 0, whole = vocab/BLOCK*BLOCK;
    float value = logits[0];

    for (uint32_t block = 0; block < whole; block += BLOCK) {
        float candidate = largest_of_block(logits + block);
        if (candidate > value) {
            value = candidate;
            first = block;
        }
    }
    for (uint32_t token = whole; token < vocab; token++)
        if (logits[token] > value) {
            value = logits[token];
            first = token;
        }
    for (best = first; best + 1 < vocab && logits[best] != value; best++)
        ;
    return best;
}

/* Draws one of the best tokens by its integer weight. */
static uint32_t draw(struct sampling_state *state, const struct sampling_settings *settings, const float *logits, uint32_t vocab)
{
    uint32_t tokens[SAMPLING_CANDIDATES_MAX], sums[SAMPLING_CANDIDATES_MAX];
    float weights[SAMPLING_CANDIDATES_MAX];
    uint32_t count = settings->top_k ? settings->top_k : SAMPLING_CANDIDATES_MAX, kept = 0, chosen = 0, sum = 0;
    float inverse  = 1.0f/settings->temperature;
    uint64_t share = (uint64_t)(uint32_t)(settings->top_p*(float)SAMPLING_TOP_P_ONE), target;

    if (count > vocab)
        count = vocab;
    best_tokens(logits, vocab, tokens, count);
    for (uint32_t i = 0; i < count; i++)
        weights[i] = lanes_checked(lanes_checked(logits[tokens[i]] - logits[tokens[0]])*inverse);
    for (uint32_t i = count; i % 4; i++)
        weights[i] = 0.0f;
    ops_exp(weights, weights, (count + 3) & ~3u);
    for (uint32_t i = 0; i < count; i++)
        sums[i] = sum += (uint32_t)(int32_t)lanes_checked(weights[i]*SAMPLING_WEIGHT_ONE);
    /* The smallest head of the list whose share reaches top_p. */
    target = sum*share;
    while (kept < count - 1 && (uint64_t)sums[kept]*SAMPLING_TOP_P_ONE < target)
        kept++;
    target = (random_next(state) >> 32)*sums[kept] >> 32;
    while (chosen < kept && sums[chosen] <= target)  /* Always ends before `kept`, unless logits are no numbers. */
        chosen++;
    return tokens[chosen];
}

uint32_t sampling_choose(struct sampling_state *state, const struct sampling_settings *settings, float *logits, uint32_t vocab)
{
    struct penalised before;
    uint32_t token;

    before.count = 0;
    if (settings->repetition_penalty != 1.0f)
        penalise(state, settings->repetition_penalty, logits, &before);
    token = settings->temperature == 0.0f ? largest(logits, vocab) : draw(state, settings, logits, vocab);
    restore(logits, &before);
    return token;
}
