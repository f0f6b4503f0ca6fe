/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * The token loop: a state machine that is polled and never blocks.
 *
 *     engine_init() once per image; engine_generate() per request; engine_poll() for ever: it does the work that can be done now and
 *     says what happened. Sessions own a KV cache, a position and a sampler; those with work take turns, one token each.
 *
 * Bus addresses are 32 bits wide: image and arena lie in the 4 GB above `engine_pl.memory` (0 on the board, any address on a host).
 */

#ifndef ENGINE_H
#define ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "image.h"
#include "litetern/board.h"
#include "litetern/engine.h"  /* Enums and structs: model/formats/engine.py. */
#include "sampling.h"
#include "softmax.h"

#define ENGINE_PORTS_MAX     2
#define ENGINE_ALIGNMENT     128   /* Bytes: buffers start a full burst; image and arena must, too. */

/* One clear line for people. */
const char *engine_error_text(uint32_t error);

/* Engine ----------------------------------------------------------------------------------------*/

struct engine;                     /* engine_private.h; allocate engine_bytes(). */

size_t engine_bytes(void);

/*
 * Prepares `engine` for a checked image. Arena: CPU and DMA buffers, KV caches of `sessions` sessions; its size sets their context.
 * Returns enum engine_error. *pl is copied.
 */
uint32_t engine_init(struct engine *engine, const void *image, size_t image_bytes, void *arena, size_t arena_bytes,
                     uint32_t sessions, const struct engine_pl *pl);

/* Allows the PL what the engine's lists name, and nothing else: again after somebody else has used the PL. */
void engine_allow(const struct engine *engine);

/* Positions of a session: the image's context, or what PL and arena hold. */
uint32_t engine_context(const struct engine *engine);

/* Arena bytes that a context of so many positions takes; 0 for what no engine can be, SIZE_MAX for more than a size_t holds. */
size_t engine_arena_bytes(const void *image, uint32_t sessions, uint32_t context, const struct engine_pl *pl);

/*
 * Appends `count` tokens to the session and generates up to max_tokens (0: only reads the prompt). The token sampled last goes in
 * front of them: it was not read yet. Seeds the session's random numbers. Returns enum engine_error, and then nothing has changed.
 */
uint32_t engine_generate(struct engine *engine, uint32_t session, const uint32_t *tokens, uint32_t count,
                         const struct sampling_settings *settings, uint32_t max_tokens);

/* Ends the generation at the next token; the session stays usable. */
void engine_stop(struct engine *engine, uint32_t session);

/* Forgets the session's text, at the next token if it generates. Returns enum engine_error. */
uint32_t engine_reset(struct engine *engine, uint32_t session);

/* 1 while the session generates. */
int engine_busy(const struct engine *engine, uint32_t session);

/* Positions in the session's cache. */
uint32_t engine_position(const struct engine *engine, uint32_t session);

/* float [vocab] that the TOKEN just reported was chosen by; valid until the next call. */
const float *engine_logits(const struct engine *engine);

/* Does what can be done now; *event tells what happened. */
void engine_poll(struct engine *engine, struct engine_event *event);

#endif
