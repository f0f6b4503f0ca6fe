/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#include "service_private.h"

#define EVENT_ROOM 2               /* Messages that must fit before the engine moves: its event, and an answer. */

/* Answers ---------------------------------------------------------------------------------------*/

void service_send_error(struct service *service, uint32_t type, uint32_t session, uint32_t request, uint32_t code, const char *text)
{
    struct message_error error = {.type = type, .session = session, .request = request, .code = code};

    link_send(&service->link, MESSAGE_ERROR, &error, sizeof(error), text, (uint32_t)strlen(text));
}

static void send_done(struct service *service, uint32_t type, uint32_t session)
{
    struct message_done done = {.type = type, .session = session};

    link_send(&service->link, MESSAGE_DONE, &done, sizeof(done), NULL, 0);
}

void service_send_identity(struct service *service)
{
    link_send(&service->link, MESSAGE_IDENTITY, &service->config.identity, sizeof(service->config.identity), NULL, 0);
}

/* Requests --------------------------------------------------------------------------------------*/

void service_stop_all(struct service *service, uint32_t why)
{
    for (uint32_t i = 0; i < service->config.identity.sessions; i++)
        engine_stop(service->engine, i);
    service->drain     = why;
    service->link.hold = 1;
}

/* Nothing of the host before reaches the next one: texts, prompts, answers that are due, an upload's beginning. */
static void forget_host(struct service *service)
{
    for (uint32_t i = 0; i < SESSIONS_MAX; i++) {
        struct service_session *session = &service->sessions[i];
        session->count = session->broken = session->request = session->flags = session->stops = session->resets = 0;
    }
    service->greeted = service->uploading = service->logits_left = service->check_due = 0;
    service->link.hold = service->checking != 0;
    if (!service->ready)
        return;
    for (uint32_t i = 0; i < service->config.identity.sessions; i++)
        engine_reset(service->engine, i);
    service_stop_all(service, SERVICE_DRAIN_HELLO);
}

static void hello(struct service *service, const struct message_hello *message)
{
    if (message->version_min > LINK_PROTOCOL_VERSION || message->version_max < LINK_PROTOCOL_VERSION_MIN) {
        service_send_error(service, MESSAGE_HELLO, 0, 0, LINK_ERROR_VERSION,
                           "no common protocol version: firmware and host are of different releases");
        return;
    }
    service->greeted = 1;
    service->config.identity.version = message->version_max < LINK_PROTOCOL_VERSION ? message->version_max : LINK_PROTOCOL_VERSION;
    if (service->checking)
        service->check_due = MESSAGE_HELLO;
    else
        service_send_identity(service);
}

/* What is wrong with a prompt is said once, when GENERATE asks for it. */
static void take_tokens(struct service *service, const struct message_tokens *message, const uint8_t *tokens, uint32_t count)
{
    struct service_session *session;

    if (message->session >= SESSIONS_MAX)
        return;
    session = &service->sessions[message->session];
    if (message->offset == 0)
        session->count = session->broken = 0;
    if (session->broken || message->offset != session->count || count > SERVICE_PROMPT_MAX - session->count) {
        session->broken = 1;
        return;
    }
    memcpy(session->tokens + session->count, tokens, count*sizeof(uint32_t));
    session->count += count;
}

/* Starts a generation; returns NULL, or why not and a code. The waiting prompt is gone in any case. */
static const char *begin(struct service *service, const struct message_generate *message, uint32_t *code)
{
    const struct sampling_settings settings = {
        .temperature        = message->temperature,
        .top_k              = message->top_k,
        .top_p              = message->top_p,
        .repetition_penalty = message->repetition_penalty,
        .ignore_eos         = message->ignore_eos,
        .seed               = (uint64_t)message->seed_high << 32 | message->seed_low,
    };
    struct service_session *session = &service->sessions[message->session % SESSIONS_MAX];
    uint32_t error, count, broken;

    *code = LINK_ERROR_ENGINE;
    if (message->session >= SESSIONS_MAX)
        return engine_error_text(ENGINE_ERROR_SESSION);
    count  = session->count;
    broken = session->broken;
    session->count = session->broken = 0;
    if (service->uploading) {
        *code = LINK_ERROR_UPLOAD;
        return "an image is being loaded";
    }
    if (!service->ready) {
        *code = LINK_ERROR_MODEL;
        return "no model is loaded";
    }
    if (message->session >= service->config.identity.sessions)
        return engine_error_text(ENGINE_ERROR_SESSION);
    if (broken || count != message->count) {
        *code = LINK_ERROR_PROMPT;
        return "tokens of the prompt are missing, or there are too many";
    }
    error = engine_generate(service->engine, message->session, session->tokens, count, &settings, message->max_tokens);
    if (error)
        return engine_error_text(error);
    session->request = message->request;
    session->flags   = message->flags;
    return NULL;
}

static void generate(struct service *service, const struct message_generate *message)
{
    uint32_t code;
    const char *problem = begin(service, message, &code);

    if (problem)
        service_send_error(service, MESSAGE_GENERATE, message->session, message->request, code, problem);
}

/* STOP or RESET: done when the session is idle. */
static void end(struct service *service, uint32_t type, uint32_t index)
{
    if (!service->ready)
        service_send_error(service, type, index, 0, LINK_ERROR_MODEL, "no model is loaded");
    else if (index >= service->config.identity.sessions)
        service_send_error(service, type, index, 0, LINK_ERROR_ENGINE, engine_error_text(ENGINE_ERROR_SESSION));
    else if (type == MESSAGE_STOP) {
        engine_stop(service->engine, index);
        service->sessions[index].stops++;
    } else {
        engine_reset(service->engine, index);
        service->sessions[index].resets++;
    }
}

static void send_stats(struct service *service)
{
    const struct link *link = &service->link;
    struct message_stats stats = {
        .uptime_ms       = service->seconds*1000 + service->seconds_us/1000,
        .tokens          = service->tokens,
        .frames_received = link->frames_received,
        .frames_damaged  = link->frames_damaged,
        .frames_dropped  = link->frames_dropped,
        .frames_sent     = link->frames_sent,
        .frames_again    = link->frames_again,
        .line_errors     = service->config.line_errors ? service->config.line_errors() : 0,
        .pl_errors       = service->config.pl_errors ? service->config.pl_errors() : 0,
    };

    link_send(&service->link, MESSAGE_STATS_REPLY, &stats, sizeof(stats), NULL, 0);
}

/* 1 if a message of this type can be so long. */
static int length_is_good(uint32_t type, uint32_t bytes)
{
    switch (type) {
    case MESSAGE_HELLO:        return bytes >= sizeof(struct message_hello);  /* Newer hosts may say more. */
    case MESSAGE_UPLOAD_BEGIN: return bytes == sizeof(struct message_upload_begin);
    case MESSAGE_UPLOAD_DATA:  return bytes > sizeof(struct message_upload_data);
    case MESSAGE_TOKENS:       return bytes >= sizeof(struct message_tokens) && bytes % sizeof(uint32_t) == 0;
    case MESSAGE_GENERATE:     return bytes == sizeof(struct message_generate);
    case MESSAGE_STOP:
    case MESSAGE_RESET:        return bytes == sizeof(struct message_session);
    default:                   return bytes == 0;
    }
}

static void handle(void *context, uint32_t type, const uint8_t *payload, uint32_t bytes)
{
    struct service *service = context;
    union {
        struct message_hello hello;
        struct message_upload_begin upload_begin;
        struct message_upload_data upload_data;
        struct message_tokens tokens;
        struct message_generate generate;
        struct message_session session;
    } m;

    if (type == MESSAGE_HELLO)
        forget_host(service);      /* Whatever else it says. */
    if (!length_is_good(type, bytes)) {
        service_send_error(service, type, 0, 0, LINK_ERROR_LENGTH, "message of the wrong length");
        return;
    }
    if (!service->greeted && type != MESSAGE_HELLO) {
        service_send_error(service, type, 0, 0, LINK_ERROR_VERSION, "no protocol version was agreed on");
        return;
    }
    memcpy(&m, payload, bytes < sizeof(m) ? bytes : sizeof(m));
    switch (type) {
    case MESSAGE_HELLO:        hello(service, &m.hello);                       break;
    case MESSAGE_IDENTIFY:     service_send_identity(service);                 break;
    case MESSAGE_UPLOAD_BEGIN: service_upload_begin(service, &m.upload_begin); break;
    case MESSAGE_UPLOAD_DATA:
        service_upload_data(service, m.upload_data.offset, payload + sizeof(m.upload_data), bytes - (uint32_t)sizeof(m.upload_data));
        break;
    case MESSAGE_UPLOAD_END:   service_upload_end(service);                    break;
    case MESSAGE_TOKENS:
        take_tokens(service, &m.tokens, payload + sizeof(m.tokens), (bytes - (uint32_t)sizeof(m.tokens))/sizeof(uint32_t));
        break;
    case MESSAGE_GENERATE:     generate(service, &m.generate);                 break;
    case MESSAGE_STOP:
    case MESSAGE_RESET:        end(service, type, m.session.session);          break;
    case MESSAGE_STATS:        send_stats(service);                            break;
    default:
        service_send_error(service, type, 0, 0, LINK_ERROR_TYPE, "unknown message");
    }
}

/* Events ----------------------------------------------------------------------------------------*/

static void send_token(struct service *service, const struct engine_event *event, uint32_t type)
{
    const struct service_session *session = &service->sessions[event->session];
    struct message_token token = {
        .session          = event->session,
        .request          = session->request,
        .token            = event->token,
        .position         = event->position,
        .prompt_done      = event->prompt_done,
        .prompt_tokens    = event->prompt_tokens,
        .generated        = event->generated,
        .end              = event->end,
        .cycles_qkv       = event->pl_cycles[ENGINE_PART_QKV],
        .cycles_attention = event->pl_cycles[ENGINE_PART_ATTENTION],
        .cycles_o         = event->pl_cycles[ENGINE_PART_O],
        .cycles_gate_up   = event->pl_cycles[ENGINE_PART_GATE_UP],
        .cycles_down      = event->pl_cycles[ENGINE_PART_DOWN],
        .cycles_head      = event->pl_cycles[ENGINE_PART_HEAD],
        .pl_bytes         = event->pl_bytes,
        .microseconds     = event->microseconds,
    };

    service->tokens++;
    link_send(&service->link, type, &token, sizeof(token), NULL, 0);
    if (type == MESSAGE_TOKEN && session->flags & LINK_GENERATE_LOGITS) {
        service->logits      = (struct message_logits){.session = event->session, .request = session->request, .position = event->position};
        service->logits_left = service->config.identity.vocab;
    }
}

static void send_logits(struct service *service)
{
    uint32_t count = service->logits_left < LINK_LOGITS_PER_FRAME ? service->logits_left : LINK_LOGITS_PER_FRAME;

    if (!link_send(&service->link, MESSAGE_LOGITS, &service->logits, sizeof(service->logits),
                   engine_logits(service->engine) + service->logits.offset, count*(uint32_t)sizeof(float)))
        return;
    service->logits.offset += count;
    service->logits_left   -= count;
}

static void report(struct service *service, const struct engine_event *event)
{
    const struct service_session *session = &service->sessions[event->session];

    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        send_token(service, event, MESSAGE_TOKEN);
        break;
    case ENGINE_EVENT_PROMPT:
        send_token(service, event, MESSAGE_PROMPT);
        break;
    case ENGINE_EVENT_END: {
        struct message_end end = {.session = event->session, .request = session->request, .position = event->position,
                                  .generated = event->generated, .end = event->end};
        link_send(&service->link, MESSAGE_END, &end, sizeof(end), NULL, 0);
        break;
    }
    case ENGINE_EVENT_ERROR:
        service_send_error(service, MESSAGE_GENERATE, event->session, session->request, LINK_ERROR_ENGINE, engine_error_text(event->error));
        break;
    }
}

/* Answers one STOP or RESET that has happened; 1 if there was one. */
static int send_done_due(struct service *service)
{
    for (uint32_t i = 0; i < service->config.identity.sessions; i++) {
        struct service_session *session = &service->sessions[i];
        uint32_t *due = session->stops ? &session->stops : &session->resets;
        if (*due == 0 || engine_busy(service->engine, i))
            continue;
        send_done(service, session->stops ? MESSAGE_STOP : MESSAGE_RESET, i);
        --*due;
        return 1;
    }
    return 0;
}

/* Turns -----------------------------------------------------------------------------------------*/

size_t service_bytes(void)
{
    return sizeof(struct service);
}

void service_init(struct service *service, void *engine, const struct service_config *config)
{
    memset(service, 0, sizeof(*service));
    service->config = *config;
    service->engine = engine;
    service->config.identity.version     = LINK_PROTOCOL_VERSION;
    service->config.identity.payload_max = LINK_PAYLOAD_MAX;
    service->config.identity.window      = LINK_WINDOW;
    service->config.identity.image_limit = (uint32_t)config->image_limit;
    link_init(&service->link, handle, service);
    if (config->image_bytes)
        service_load(service, config->image_bytes);
}

/* Uptime from a clock that wraps. */
static void count_time(struct service *service, uint32_t now_us)
{
    service->seconds_us += now_us - service->started_us;
    service->started_us  = now_us;
    service->seconds    += service->seconds_us/1000000;
    service->seconds_us %= 1000000;
}

int service_poll(struct service *service, uint32_t now_us, const uint8_t *data, size_t bytes)
{
    struct engine_event event = {.kind = ENGINE_EVENT_IDLE};

    count_time(service, now_us);
    link_input(&service->link, now_us, data, bytes);
    if (service->checking) {
        service_check(service, now_us);
        return 1;
    }
    if (!service->ready)
        return 0;
    if (service->drain == SERVICE_DRAIN_HELLO) {
        engine_poll(service->engine, &event);
        if (event.kind == ENGINE_EVENT_IDLE)
            service->drain = service->link.hold = 0;
        return 1;
    }
    if (link_free(&service->link) < EVENT_ROOM)
        return 0;
    if (service->logits_left) {
        send_logits(service);
        return 1;
    }
    if (send_done_due(service))
        return 1;
    engine_poll(service->engine, &event);
    report(service, &event);
    if (event.kind == ENGINE_EVENT_IDLE && service->drain == SERVICE_DRAIN_UPLOAD) {
        service->drain = service->link.hold = 0;
        service_send_upload_status(service);
    }
    return event.kind != ENGINE_EVENT_IDLE;
}

size_t service_output(struct service *service, uint32_t now_us, uint8_t *frame)
{
    return link_output(&service->link, now_us, frame);
}
