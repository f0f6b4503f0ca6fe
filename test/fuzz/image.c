/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Input: an image. One that is accepted runs for a prompt and three tokens on the C cores, whatever lay in the memory before. */

#include "crc32.h"
#include "engine.h"
#include "fuzz.h"
#include "litetern/formats.h"
#include "litetern/numerics.h"
#include "memory.h"

#define TOKENS  3
#define REFUSED 1

static struct cores_pl cores;

/* A size of the arena that goes with an image. */
static uint32_t arena_bytes(const uint8_t *data, size_t bytes)
{
    static const uint32_t sizes[] = {1 << 12, 1 << 16, 1 << 18, 1 << 20};

    return sizes[crc32_update(0, data, bytes) >> 30];
}

/* CRC-32 of all that the engine says; up to REFUSED: the image or the engine was refused. */
static uint32_t run(const uint8_t *data, size_t bytes, uint8_t fill)
{
    const struct sampling_settings settings = {.temperature = 0.7f, .top_p = 0.9f, .repetition_penalty = 1.3f, .ignore_eos = 1, .seed = 1};
    const struct image_header *header;
    struct engine *engine;
    struct engine_event event;
    struct engine_pl pl;
    uint32_t crc = 1, arena_size = arena_bytes(data, bytes), prompt[2], error;
    uint8_t *image, *arena;

    memory_clear(fill);
    image  = memory_take((uint32_t)bytes);
    arena  = memory_take(arena_size);
    engine = (struct engine *)memory_take((uint32_t)engine_bytes());
    header = (const struct image_header *)image;
    memcpy(image, data, bytes);
    memory_cores(&cores, &pl, 1000, NULL);
    if (image_check(image, bytes, bytes, 1) != IMAGE_OK)
        return REFUSED;
    engine_arena_bytes(image, 2, header->context, &pl);
    error = engine_init(engine, image, bytes, arena, arena_size, 2, &pl);
    if (error)
        return REFUSED;
    for (uint32_t session = 0; session < 2; session++) {
        prompt[0] = header->bos == IMAGE_NO_TOKEN ? 0 : header->bos;
        prompt[1] = header->vocab - 1;
        error = engine_generate(engine, session, prompt, engine_context(engine) < 2 ? 1 : 2, &settings, TOKENS);
        FUZZ_MUST(error == ENGINE_ERROR_NONE);
    }
    do {
        engine_poll(engine, &event);
        FUZZ_MUST(event.kind != ENGINE_EVENT_ERROR);
        if (event.kind == ENGINE_EVENT_TOKEN) {
            FUZZ_MUST(event.token < header->vocab);
            crc = crc32_update(crc, &event, sizeof(event));
            crc = crc32_update(crc, engine_logits(engine), header->vocab*sizeof(float));
        }
    } while (event.kind != ENGINE_EVENT_IDLE);
    FUZZ_MUST(memcmp(image, data, bytes) == 0);
    return crc > REFUSED ? crc : REFUSED + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint32_t said = bytes <= MEMORY_BYTES/4 ? run(data, bytes, 0x00) : REFUSED;

    fuzz_accepted += said > REFUSED;
    if (said > REFUSED)
        FUZZ_MUST(run(data, bytes, 0xA5) == said);
    return 0;
}

/* Mutations -------------------------------------------------------------------------------------*/

/* Header and records that the image says to have. */
static size_t head_bytes(const uint8_t *data, size_t bytes)
{
    const struct image_header *header = (const struct image_header *)data;
    uint64_t head = sizeof(*header) + (uint64_t)header->layers*sizeof(struct image_layer);

    return head < bytes ? (size_t)head : bytes;
}

static void fit_crcs(uint8_t *data, size_t bytes)
{
    struct image_header *header = (struct image_header *)data;
    size_t head = head_bytes(data, bytes);

    header->header_crc = 0;
    header->body_crc   = crc32_update(0, data + head, bytes - head);
    header->header_crc = crc32_update(0, data, head);
}

/* Another value in a word of header and records, in a tensor or anywhere. */
static void mutate_word(uint8_t *data, size_t bytes, unsigned *seed)
{
    size_t words = (fuzz_draw(seed) % 4 ? head_bytes(data, bytes) : bytes)/sizeof(uint32_t);
    uint32_t *word = (uint32_t *)data + fuzz_draw(seed) % words;

    switch (fuzz_draw(seed) % 6) {
    case 0:  *word  = fuzz_odd_word(seed);                                                     break;
    case 1:  *word += fuzz_draw(seed) % 17 - 8;                                                break;
    case 2:  *word += (fuzz_draw(seed) % 9 - 4)*ENGINE_ALIGNMENT;                              break;
    case 3:  *word += (fuzz_draw(seed) % 5 - 2)*8;                                             break;
    case 4:  *word ^= 1u << fuzz_draw(seed) % 32;                                              break;
    default: *word  = ((uint32_t *)data)[fuzz_draw(seed) % words];                             break;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed)
{
    struct image_header *header = (struct image_header *)data;

    if (bytes < sizeof(*header) || fuzz_draw(&seed) % 16 == 0)
        return LLVMFuzzerMutate(data, bytes, room);
    if (fuzz_draw(&seed) % 16 == 0) {
        bytes = LLVMFuzzerMutate(data, bytes, room);
        if (bytes < sizeof(*header))
            return bytes;
        header->image_bytes = (uint32_t)bytes;
    } else {
        for (uint32_t count = 1 + fuzz_draw(&seed) % 3; count; count--)
            mutate_word(data, bytes, &seed);
    }
    if (fuzz_draw(&seed) % 8) {
        header->magic   = IMAGE_MAGIC;
        header->version = IMAGE_VERSION;
    }
    fit_crcs(data, bytes);
    return bytes;
}
