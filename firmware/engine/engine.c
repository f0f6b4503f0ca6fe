/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Requests, sessions that take turns, and events. */

#include <string.h>

#include "engine_private.h"

/* Start -----------------------------------------------------------------------------------------*/

size_t engine_bytes(void)
{
    return sizeof(struct engine);
}

/* 1 if the memory is aligned and within reach of bus addresses. */
static int reachable(const struct engine_pl *pl, const void *start, size_t bytes)
{
    uint64_t first = (uint64_t)(uintptr_t)start - (uint64_t)pl->memory, end = (uint64_t)1 << 32;

    return (uintptr_t)start >= pl->memory && (uintptr_t)start % ENGINE_ALIGNMENT == 0 && bytes <= end && first <= end - bytes;
}

static void allow(const struct engine *engine, uint32_t range, uintptr_t start, uint64_t bytes)
{
    uint32_t first = (uint32_t)(start - engine->pl.memory);

    if (bytes)
        engine->pl.allow(engine->pl.context, range, first, first + (uint32_t)(bytes - 1));
    else
        engine->pl.allow(engine->pl.context, range, UINT32_MAX, 0);
}

void engine_allow(const struct engine *engine)
{
    int ready = engine->sessions != 0;

    allow(engine, ENGINE_RANGE_IMAGE,   (uintptr_t)engine->header,          ready ? engine->header->image_bytes : 0);
    allow(engine, ENGINE_RANGE_ARENA,   engine->arena,                      ready ? engine->read_bytes : 0);
    allow(engine, ENGINE_RANGE_RESULTS, engine->arena + engine->read_bytes, ready ? engine->written_bytes : 0);
    allow(engine, ENGINE_RANGE_ON_CHIP, engine->pl.results,                 ready ? engine->pl.results_bytes : 0);
}

uint32_t engine_init(struct engine *engine, const void *image, size_t image_bytes, void *arena, size_t arena_bytes,
                     uint32_t sessions, const struct engine_pl *pl)
{
    uint32_t error;

    memset(engine, 0, sizeof(*engine));
    engine->pl = *pl;
    engine_allow(engine);
    if (sessions == 0 || sessions > SESSIONS_MAX)
        return ENGINE_ERROR_SESSION;
    if (!reachable(pl, image, image_bytes) || !reachable(pl, arena, arena_bytes) ||
        (pl->results_bytes && !reachable(pl, (const void *)pl->results, pl->results_bytes)))
        return ENGINE_ERROR_ALIGNMENT;
    if (image_check(image, image_bytes, image_bytes, 0) != IMAGE_OK)
        return ENGINE_ERROR_IMAGE;
    error = engine_layout(engine, image, arena, arena_bytes, sessions);
    if (error) {
        engine->sessions = 0;
        return error;
    }
    engine_build_lists(engine);
    engine->pl.clean(image, image_bytes);
    engine_allow(engine);
    return ENGINE_ERROR_NONE;
}

uint32_t engine_context(const struct engine *engine)
{
    return engine->context;
}

uint32_t engine_position(const struct engine *engine, uint32_t session)
{
    return session < engine->sessions ? engine->session[session].position : 0;
}

const float *engine_logits(const struct engine *engine)
{
    return engine->logits;
}

/* Requests --------------------------------------------------------------------------------------*/

uint32_t engine_generate(struct engine *engine, uint32_t index, const uint32_t *tokens, uint32_t count,
                         const struct sampling_settings *settings, uint32_t max_tokens)
{
    struct engine_session *session = &engine->session[index];
    uint32_t pending;

    if (index >= engine->sessions)
        return ENGINE_ERROR_SESSION;
    if (session->work != WORK_NONE)
        return ENGINE_ERROR_BUSY;
    if (!sampling_check(settings))
        return ENGINE_ERROR_SETTINGS;
    if (count > engine->context)
        return ENGINE_ERROR_CONTEXT;  /* Before it is added to anything, and before tokens are read. */
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] >= engine->header->vocab)
            return ENGINE_ERROR_TOKEN;
    pending = session->has_pending;
    if (pending + count == 0)
        return ENGINE_ERROR_EMPTY;
    if (pending + count > engine->context - session->position)
        return ENGINE_ERROR_CONTEXT;
    session->prompt[0] = session->pending;
    memcpy(session->prompt + pending, tokens, count*sizeof(*tokens));
    session->has_pending  = 0;
    session->prompt_done  = 0;
    session->prompt_count = pending + count;
    session->generated    = 0;
    session->max_tokens   = max_tokens;
    session->settings     = *settings;
    session->stop         = 0;
    session->work         = WORK_PROMPT;
    sampling_seed(&session->sampling, settings->seed);
    return ENGINE_ERROR_NONE;
}

void engine_stop(struct engine *engine, uint32_t index)
{
    if (index < engine->sessions && engine->session[index].work != WORK_NONE)
        engine->session[index].stop = 1;
}

static void forget(struct engine_session *session)
{
    session->work        = WORK_NONE;
    session->position    = 0;
    session->has_pending = 0;
    session->stop        = 0;
    session->reset       = 0;
    sampling_reset(&session->sampling);
}

int engine_busy(const struct engine *engine, uint32_t index)
{
    return index < engine->sessions && engine->session[index].work != WORK_NONE;
}

uint32_t engine_reset(struct engine *engine, uint32_t index)
{
    if (index >= engine->sessions)
        return ENGINE_ERROR_SESSION;
    if (engine->session[index].work == WORK_NONE) {
        forget(&engine->session[index]);
        return ENGINE_ERROR_NONE;
    }
    engine->session[index].stop  = 1;
    engine->session[index].reset = 1;
    return ENGINE_ERROR_NONE;
}

/* Events ----------------------------------------------------------------------------------------*/

static void report(const struct engine *engine, struct engine_event *event, uint32_t kind, uint32_t index)
{
    const struct engine_session *session = &engine->session[index];

    event->kind          = kind;
    event->session       = index;
    event->position      = session->position;
    event->prompt_done   = session->prompt_done;
    event->prompt_tokens = session->prompt_count;
    event->generated     = session->generated;
}

/* Ends a request between two tokens: stopped, or stopped and reset. */
static void end_stopped(struct engine *engine, struct engine_event *event, uint32_t index)
{
    struct engine_session *session = &engine->session[index];

    /* What was sampled but not read stays the session's last token. */
    if (session->work == WORK_GENERATE)
        session->has_pending = 1;
    session->work = WORK_NONE;
    session->stop = 0;
    if (session->reset)
        forget(session);
    report(engine, event, ENGINE_EVENT_END, index);
    event->end = ENGINE_END_STOPPED;
}

/* Chooses the next session that has work and starts its token. */
static void begin(struct engine *engine, struct engine_event *event)
{
    for (uint32_t i = 0; i < engine->sessions; i++) {
        uint32_t index = (engine->next + i) % engine->sessions;
        struct engine_session *session = &engine->session[index];
        uint32_t token;
        if (session->work == WORK_NONE)
            continue;
        engine->next = index + 1;
        if (session->stop) {
            end_stopped(engine, event, index);
            return;
        }
        token = session->work == WORK_PROMPT ? session->prompt[session->prompt_done] : session->pending;
        engine->current   = index;
        engine->with_head = session->work == WORK_GENERATE ||
                            (session->prompt_done + 1 == session->prompt_count && session->max_tokens > 0);
        sampling_see(&session->sampling, token);
        engine_token_begin(engine, token);
        event->kind    = ENGINE_EVENT_BUSY;
        event->session = index;
        return;
    }
    event->kind = ENGINE_EVENT_IDLE;
}

/* Samples; sets event->end where the request ends. */
static void sample(struct engine *engine, struct engine_session *session, struct engine_event *event)
{
    session->pending = sampling_choose(&session->sampling, &session->settings, engine->logits, engine->header->vocab);
    session->generated++;
    session->work = WORK_GENERATE;
    event->token  = session->pending;
    if (image_ends(engine->header, session->pending) && !session->settings.ignore_eos)
        event->end = ENGINE_END_EOS;
    else if (session->generated == session->max_tokens)
        event->end = ENGINE_END_LENGTH;
    else if (session->position == engine->context)
        event->end = ENGINE_END_CONTEXT;
    else if (session->stop)
        event->end = ENGINE_END_STOPPED;
}

/* A token is through. */
static void finish(struct engine *engine, struct engine_event *event)
{
    struct engine_session *session = &engine->session[engine->current];
    uint32_t kind = ENGINE_EVENT_PROMPT;

    engine->running = 0;
    if (engine->failed) {
        forget(session);
        report(engine, event, ENGINE_EVENT_ERROR, engine->current);
        event->error = engine->failed;
        return;
    }
    *event       = engine->report;
    event->token = engine->token;
    session->position++;
    if (session->work == WORK_PROMPT)
        session->prompt_done++;
    if (engine->with_head) {
        kind = ENGINE_EVENT_TOKEN;
        sample(engine, session, event);
    } else if (session->prompt_done == session->prompt_count) {
        event->end    = ENGINE_END_LENGTH;
        session->work = WORK_NONE;
    }
    if (kind == ENGINE_EVENT_TOKEN && event->end) {
        session->has_pending = 1;
        session->work        = WORK_NONE;
        session->stop        = 0;
    }
    report(engine, event, kind, engine->current);
    event->microseconds = engine->pl.microseconds() - engine->started;
    if (session->work == WORK_NONE && session->reset)
        forget(session);
}

void engine_poll(struct engine *engine, struct engine_event *event)
{
    memset(event, 0, sizeof(*event));
    if (!engine->running)
        begin(engine, event);
    else if (engine_token_poll(engine))
        finish(engine, event);
    else {
        event->kind    = ENGINE_EVENT_BUSY;
        event->session = engine->current;
    }
}

const char *engine_error_text(uint32_t error)
{
    static const char *const texts[ENGINE_ERRORS] = ENGINE_ERROR_TEXTS;

    return error < ENGINE_ERRORS ? texts[error] : "unknown error";
}
