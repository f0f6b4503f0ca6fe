/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* What a target gives and takes: libFuzzer's interface, and the ways in which an input is wrong without a sanitizer's notice. */

#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* A target's: runs one input; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A target's: changes an input so that it still gets past the first checks; returns its new length, at most `room`. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed);

/* The driver's, or libFuzzer's: one plain mutation. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room);

/* Ends the process: the input has shown a fault. */
void fuzz_fail(const char *text) __attribute__((noreturn));

/* The driver's: inputs that got past all checks. */
extern uint32_t fuzz_accepted;

#define FUZZ_MUST(condition) ((condition) ? (void)0 : fuzz_fail("does not hold: " #condition))

/* Bytes of an input, taken from its front; 0 behind its end. */
struct fuzz_input { const uint8_t *data; size_t bytes; };

static inline uint32_t fuzz_byte(struct fuzz_input *input)
{
    if (input->bytes == 0)
        return 0;
    input->bytes--;
    return *input->data++;
}

static inline uint32_t fuzz_half(struct fuzz_input *input)
{
    uint32_t low = fuzz_byte(input);

    return low | fuzz_byte(input) << 8;
}

static inline uint32_t fuzz_word(struct fuzz_input *input)
{
    uint32_t low = fuzz_half(input);

    return low | fuzz_half(input) << 16;
}

/* Random numbers of a mutation. */
static inline uint32_t fuzz_draw(unsigned *seed)
{
    *seed = *seed*1664525u + 1013904223u;
    return *seed >> 8;
}

/* Values at which checks go wrong. */
static inline uint32_t fuzz_odd_word(unsigned *seed)
{
    uint32_t value = fuzz_draw(seed) << 16 ^ fuzz_draw(seed);

    switch (fuzz_draw(seed) % 5) {
    case 0:  return 1u << value % 32;
    case 1:  return (1u << value % 32) - 1;
    case 2:  return ~(value % 256);
    case 3:  return value % 64;
    default: return value;
    }
}

#endif
