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
#include "sampling.h"
#include "softmax.h"

#define ENGINE_SESSIONS_MAX  8
#define ENGINE_PORTS_MAX     2
#define ENGINE_LINE          32    /* Bytes of a cache line of the A9: granule of ownership between CPU and DMA. */
#define ENGINE_ALIGNMENT     128   /* Bytes: buffers start a full burst; image and arena must, too. */

/* Programmable logic ----------------------------------------------------------------------------*/

enum engine_core {                 /* Order of the accelerator's CORES. */
    ENGINE_CORE_MATMUL    = 0,
    ENGINE_CORE_ATTENTION = 1,
};

enum engine_pl_status {
    ENGINE_PL_BUSY  = 0,           /* The list runs. */
    ENGINE_PL_DONE  = 1,           /* All results have landed. */
    ENGINE_PL_ERROR = 2,           /* The list ended with an error. */
    ENGINE_PL_RANGE = 3,           /* The list named memory that is not allowed, and ended before it was touched. */
};

enum engine_range {                /* Memory that lists may name; order of the accelerator's READS, then WRITES. */
    ENGINE_RANGE_IMAGE   = 0,      /* Read: weights. */
    ENGINE_RANGE_ARENA   = 1,      /* Read: lists, headers, x, KV caches. */
    ENGINE_RANGE_RESULTS = 2,      /* Written: results in the arena. */
    ENGINE_RANGE_ON_CHIP = 3,      /* Written: results in engine_pl.results. */
    ENGINE_RANGES,
};

/*
 * What runs descriptor lists: gateware behind its driver, or the C cores (cores_pl.h). start() and progress() may do a share of the
 * work themselves, but return soon. Results are acknowledged in order: the first progress() bytes at the destination are final.
 */
struct engine_pl {
    void      *context;            /* Handed to each function. */
    uintptr_t  memory;             /* Pointer that bus address 0 stands for. */
    uintptr_t  results;            /* Memory for results that is better than the arena's; those that do not fit go to the arena. */
    uint32_t   ports;              /* 1 or 2. */
    uint32_t   queries_max;        /* Query vectors of one attention pass. */
    uint32_t   rows_max;           /* Longest context of the attention core. */
    uint32_t   row_weights_max;    /* Longest row of the matmul core. */
    uint32_t   topk_max;           /* Longest shortlist of the matmul core; 0 without. */
    uint32_t   timeout_us;         /* A list without a new result for so long has failed. */
    uint32_t   results_bytes;      /* Of `results`; 0: there is none. */
    void     (*start)(void *context, uint32_t port, uint32_t core, uint32_t list, uint32_t destination, uint32_t limit);
    uint32_t (*progress)(void *context, uint32_t port);  /* Bytes of results that have landed. */
    uint32_t (*status)(void *context, uint32_t port);    /* enum engine_pl_status. */
    uint32_t (*cycles)(void *context, uint32_t port);    /* PL cycles from doorbell to last result of the last list; 0 if unknown. */
    void     (*abort)(void *context, uint32_t port);     /* Gives up the running list. */
    void     (*clean)(const void *data, size_t bytes);      /* CPU's writes reach memory. */
    void     (*invalidate)(const void *data, size_t bytes); /* CPU reads from memory again. */
    uint32_t (*microseconds)(void);                      /* Free-running clock that wraps. */
    void     (*allow)(void *context, uint32_t range, uint32_t first, uint32_t last);  /* Bytes of enum engine_range; first > last: none. */
    uint32_t (*resolve)(void *context, const struct softmax *softmax);  /* 1 if the attention core has this resolution, or takes it up. */
};

/* Errors ----------------------------------------------------------------------------------------*/

enum engine_error {
    ENGINE_OK = 0,
    ENGINE_ERROR_IMAGE,            /* image_check() refused the image. */
    ENGINE_ERROR_ALIGNMENT,        /* Image or arena not aligned or out of reach of the bus. */
    ENGINE_ERROR_MEMORY,           /* The arena cannot hold the buffers and 16 positions for each session. */
    ENGINE_ERROR_PL,               /* Model needs more than the cores were built for. */
    ENGINE_ERROR_SESSION,          /* No such session. */
    ENGINE_ERROR_BUSY,             /* The session generates already. */
    ENGINE_ERROR_CONTEXT,          /* Prompt longer than what is left of the context. */
    ENGINE_ERROR_TOKEN,            /* A token outside of the vocabulary. */
    ENGINE_ERROR_SETTINGS,         /* Sampling settings out of range. */
    ENGINE_ERROR_EMPTY,            /* No prompt, and nothing sampled before. */
    ENGINE_ERROR_TIMEOUT,          /* The PL gave no result in time. */
    ENGINE_ERROR_LIST,             /* The PL refused or failed a list. */
    ENGINE_ERROR_SHORTLIST,        /* The matmul core keeps no shortlist as long as the head's. */
    ENGINE_ERROR_RANGE,            /* A list named memory outside of image, arena and results. */
    ENGINE_ERROR_SOFTMAX,          /* The attention core has another resolution than the image. */
};

/* One clear line for people. */
const char *engine_error_text(uint32_t error);

/* Events ----------------------------------------------------------------------------------------*/

enum engine_part {                 /* What the PL computes, in the order of a token. */
    ENGINE_PART_QKV,
    ENGINE_PART_ATTENTION,
    ENGINE_PART_O,
    ENGINE_PART_GATE_UP,
    ENGINE_PART_DOWN,
    ENGINE_PART_HEAD,
    ENGINE_PARTS,
};

enum engine_event_kind {
    ENGINE_EVENT_IDLE   = 0,       /* No session has work. */
    ENGINE_EVENT_BUSY   = 1,       /* Work goes on: poll again. */
    ENGINE_EVENT_PROMPT = 2,       /* A prompt token went through; no token was sampled. */
    ENGINE_EVENT_TOKEN  = 3,       /* A token was sampled. `end` tells whether it is the last one. */
    ENGINE_EVENT_END    = 4,       /* Generation ended without a new token; `end` tells why. */
    ENGINE_EVENT_ERROR  = 5,       /* The session's request failed: `error`; the session is reset. */
};

enum engine_end {
    ENGINE_END_NONE    = 0,
    ENGINE_END_EOS     = 1,
    ENGINE_END_LENGTH  = 2,        /* max_tokens reached. */
    ENGINE_END_CONTEXT = 3,        /* No position left for the token just sampled. */
    ENGINE_END_STOPPED = 4,
};

struct engine_event {
    uint32_t kind;                 /* enum engine_event_kind. */
    uint32_t session;
    uint32_t token;                /* TOKEN: the sampled token; PROMPT: the one that went through. */
    uint32_t position;             /* Positions in the session's cache. */
    uint32_t prompt_done;          /* Prompt tokens through, and their number. */
    uint32_t prompt_tokens;
    uint32_t generated;            /* Tokens sampled for this request. */
    uint32_t end;                  /* enum engine_end. */
    uint32_t error;                /* enum engine_error. */
    uint32_t pl_cycles[ENGINE_PARTS]; /* TOKEN, PROMPT: cycles of this token; of two ports the longer one. */
    uint32_t pl_bytes;             /* TOKEN, PROMPT: bytes that the PL read by its lists (headers, x, weights, KV), at most UINT32_MAX. */
    uint32_t microseconds;         /* TOKEN, PROMPT: time of this token. */
};

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
