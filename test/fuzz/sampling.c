/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Input: sampling settings, tokens that were seen, and logits of any bits. What is accepted chooses a token that there is. */

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sampling.h"

#define CHOICES 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sampling_settings settings;
    struct sampling_state state;
    struct fuzz_input input = {data, bytes};
    uint32_t vocab, seen;
    float *logits, *before;

    if (bytes < sizeof(settings) + 1 + sizeof(float))
        return 0;
    memcpy(&settings, data, sizeof(settings));
    input.data  += sizeof(settings);
    input.bytes -= sizeof(settings);
    seen   = fuzz_byte(&input);
    vocab  = (uint32_t)(input.bytes/sizeof(float));
    logits = malloc(vocab*sizeof(float));
    before = malloc(vocab*sizeof(float));
    memcpy(logits, input.data, vocab*sizeof(float));
    memcpy(before, logits, vocab*sizeof(float));
    sampling_reset(&state);
    sampling_seed(&state, settings.seed);
    for (uint32_t i = 0; i < seen; i++)
        sampling_see(&state, (i*i + seen) % vocab);
    fuzz_accepted += (uint32_t)sampling_check(&settings);
    for (uint32_t i = 0; i < CHOICES && sampling_check(&settings); i++) {
        uint32_t token = sampling_choose(&state, &settings, logits, vocab);
        FUZZ_MUST(token < vocab && memcmp(logits, before, vocab*sizeof(float)) == 0);
        sampling_see(&state, token);
    }
    free(logits);
    free(before);
    return 0;
}

/* Settings that are near the bounds of what is accepted. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed)
{
    static const float values[] = {0.0f, 0.01f, 0.5f, 1.0f, 1.3f, 0.1f, 10.0f, 100.0f, -0.0f, 1e-6f};
    struct sampling_settings settings;

    if (bytes < sizeof(settings) || fuzz_draw(&seed) % 2)
        return LLVMFuzzerMutate(data, bytes, room);
    memcpy(&settings, data, sizeof(settings));
    switch (fuzz_draw(&seed) % 4) {
    case 0:  settings.temperature        = values[fuzz_draw(&seed) % 10];                       break;
    case 1:  settings.top_p              = values[fuzz_draw(&seed) % 10];                       break;
    case 2:  settings.repetition_penalty = values[fuzz_draw(&seed) % 10];                       break;
    default: settings.top_k              = fuzz_draw(&seed) % (SAMPLING_CANDIDATES_MAX + 2);    break;
    }
    memcpy(data, &settings, sizeof(settings));
    return bytes;
}
