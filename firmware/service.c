/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#include "image.h"
#include "litetern/formats.h"
#include "service.h"

#define CONTEXT_GOAL  2048         /* Positions that each of several sessions must get. */
#define PROMPT_BROKEN UINT32_MAX   /* Count of a prompt with a hole in it, or too long. */
#define EVENT_ROOM    2            /* Messages that must fit before the engine moves: its event, and an answer. */

/* Model -----------------------------------------------------------------------------------------*/

static size_t align(size_t bytes)
{
    return (bytes + ENGINE_ALIGNMENT - 1)/ENGINE_ALIGNMENT*ENGINE_ALIGNMENT;
}

/* Largest number of sessions whose full context fits; at least 1. */
static uint32_t sessions_for(const struct service *service, size_t arena_bytes)
{
    const struct image_header *header = (const struct image_header *)service->config.image;
    uint32_t context = header->context < CONTEXT_GOAL ? header->context : CONTEXT_GOAL;

    for (uint32_t sessions = SERVICE_SESSIONS_MAX; sessions > 1; sessions--) {
        size_t needed = engine_arena_bytes(service->config.image, sessions, context, &service->config.pl);
        if (needed && needed <= arena_bytes)
            return sessions;
    }
    return 1;
}

/* Notes in the identity why there is no model; NULL: there is one. */
static void note_problem(struct service *service, const char *text)
{
    char *problem = service->config.identity.problem;
    size_t length = text ? strlen(text) : 0, room = sizeof(service->config.identity.problem) - 1;

    memset(problem, 0, room + 1);
    if (length)
        memcpy(problem, text, length < room ? length : room);
}

/* Checks the image and hands it to the engine. */
static void load(struct service *service, size_t bytes)
{
    struct service_config *config = &service->config;
    struct message_identity *identity = &config->identity;
    const struct image_header *header = (const struct image_header *)config->image;
    uint8_t *arena      = config->image + align(bytes);
    size_t  arena_bytes = config->image_limit - align(bytes);
    uint32_t sessions;

    service->ready = service->image_error = service->engine_error = 0;
    note_problem(service, NULL);
    identity->image_bytes = identity->image_crc = identity->context = identity->vocab = identity->sessions = 0;
    memset(identity->name, 0, sizeof(identity->name));
    service->image_error = image_check(config->image, bytes, config->image_limit, 1);
    if (service->image_error) {
        note_problem(service, image_error_text(service->image_error));
        return;
    }
    if (config->arena_bytes > arena_bytes) {
        arena       = config->arena;
        arena_bytes = config->arena_bytes;
    }
    sessions = sessions_for(service, arena_bytes);
    service->engine_error = engine_init(service->engine, config->image, bytes, arena, arena_bytes, sessions, &config->pl);
    if (service->engine_error) {
        note_problem(service, engine_error_text(service->engine_error));
        return;
    }
    identity->image_bytes = (uint32_t)bytes;
    identity->image_crc   = header->header_crc;
    identity->context     = engine_context(service->engine);
    identity->vocab       = header->vocab;
    identity->sessions    = sessions;
    memcpy(identity->name, header->name, sizeof(identity->name));
    service->ready = 1;
}

/* Answers ---------------------------------------------------------------------------------------*/

static void send_error(struct service *service, uint32_t type, uint32_t session, uint32_t request, uint32_t code, const char *text)
{
    struct message_error error = {.type = type, .session = session, .request = request, .code = code};

    link_send(&service->link, MESSAGE_ERROR, &error, sizeof(error), text, (uint32_t)strlen(text));
}

static void send_done(struct service *service, uint32_t type, uint32_t session)
{
    struct message_done done = {.type = type, .session = session};

    link_send(&service->link, MESSAGE_DONE, &done, sizeof(done), NULL, 0);
}

static void send_identity(struct service *service)
{
    link_send(&service->link, MESSAGE_IDENTITY, &service->config.identity, sizeof(service->config.identity), NULL, 0);
}

static void send_upload_status(struct service *service)
{
    struct message_upload_status status = {.offset = service->upload_offset};

    link_send(&service->link, MESSAGE_UPLOAD_STATUS, &status, sizeof(status), NULL, 0);
}

/* Requests --------------------------------------------------------------------------------------*/

/* Ends all generation; until it has ended, no message is taken. */
static void drain(struct service *service)
{
    service->logits_left = 0;
    if (!service->ready)
        return;
    for (uint32_t i = 0; i < service->config.identity.sessions; i++)
        engine_stop(service->engine, i);
    service->drain     = 1;
    service->link.hold = 1;
}

static void hello(struct service *service, const struct message_hello *message)
{
    for (uint32_t i = 0; i < SERVICE_SESSIONS_MAX; i++)
        service->prompts[i].count = 0;
    drain(service);
    if (message->version_min > LINK_PROTOCOL_VERSION || message->version_max < LINK_PROTOCOL_VERSION_MIN) {
        send_error(service, MESSAGE_HELLO, 0, 0, LINK_ERROR_VERSION, "no common protocol version");
        return;
    }
    service->config.identity.version = message->version_max < LINK_PROTOCOL_VERSION ? message->version_max : LINK_PROTOCOL_VERSION;
    send_identity(service);
}

static void upload_begin(struct service *service, const struct message_upload_begin *message)
{
    if (message->bytes == 0 || message->bytes > service->config.image_limit) {
        send_error(service, MESSAGE_UPLOAD_BEGIN, 0, 0, LINK_ERROR_UPLOAD, "the image is larger than the board's memory for it");
        return;
    }
    drain(service);
    if (message->bytes != service->upload_bytes || message->crc != service->upload_crc) {
        service->upload_bytes  = message->bytes;
        service->upload_crc    = message->crc;
        service->upload_offset = 0;
    }
    service->uploading = 1;
    send_upload_status(service);
}

static void upload_data(struct service *service, uint32_t offset, const uint8_t *data, uint32_t bytes)
{
    if (!service->uploading || bytes > service->upload_bytes - service->upload_offset) {
        send_error(service, MESSAGE_UPLOAD_DATA, 0, 0, LINK_ERROR_UPLOAD, "image bytes that no upload asked for");
        return;
    }
    if (offset != service->upload_offset) {
        send_upload_status(service);
        return;
    }
    service->ready = 0;
    memcpy(service->config.image + offset, data, bytes);
    service->upload_offset += bytes;
}

static void upload_end(struct service *service)
{
    uint32_t bytes;

    if (!service->uploading || service->upload_offset != service->upload_bytes) {
        send_error(service, MESSAGE_UPLOAD_END, 0, 0, LINK_ERROR_UPLOAD, "the upload is not complete");
        return;
    }
    bytes = service->upload_bytes;
    service->uploading    = 0;
    service->upload_bytes = service->upload_offset = 0;
    load(service, bytes);
    if (service->ready)
        send_identity(service);
    else
        send_error(service, MESSAGE_UPLOAD_END, 0, 0, service->image_error ? LINK_ERROR_IMAGE : LINK_ERROR_ENGINE,
                   service->config.identity.problem);
}

/* What is wrong with a prompt is said once, when GENERATE asks for it. */
static void take_tokens(struct service *service, const struct message_tokens *message, const uint8_t *tokens, uint32_t count)
{
    struct service_prompt *prompt;

    if (message->session >= SERVICE_SESSIONS_MAX)
        return;
    prompt = &service->prompts[message->session];
    if (message->offset == 0)
        prompt->count = 0;
    if (message->offset != prompt->count || count > SERVICE_PROMPT_MAX - message->offset) {
        prompt->count = PROMPT_BROKEN;
        return;
    }
    memcpy(prompt->tokens + message->offset, tokens, count*sizeof(uint32_t));
    prompt->count += count;
}

static void generate(struct service *service, const struct message_generate *message)
{
    const struct sampling_settings settings = {
        .temperature        = message->temperature,
        .top_k              = message->top_k,
        .top_p              = message->top_p,
        .repetition_penalty = message->repetition_penalty,
        .ignore_eos         = message->ignore_eos,
        .seed               = (uint64_t)message->seed_high << 32 | message->seed_low,
    };
    struct service_prompt *prompt;
    uint32_t error, count;

    if (!service->ready) {
        send_error(service, MESSAGE_GENERATE, message->session, message->request, LINK_ERROR_MODEL, "no model is loaded");
        return;
    }
    if (message->session >= service->config.identity.sessions) {
        send_error(service, MESSAGE_GENERATE, message->session, message->request, LINK_ERROR_ENGINE, engine_error_text(ENGINE_ERROR_SESSION));
        return;
    }
    prompt = &service->prompts[message->session];
    count  = prompt->count;
    prompt->count = 0;
    if (count != message->count) {
        send_error(service, MESSAGE_GENERATE, message->session, message->request, LINK_ERROR_PROMPT,
                   "tokens of the prompt are missing, or there are too many");
        return;
    }
    error = engine_generate(service->engine, message->session, prompt->tokens, count, &settings, message->max_tokens);
    if (error) {
        send_error(service, MESSAGE_GENERATE, message->session, message->request, LINK_ERROR_ENGINE, engine_error_text(error));
        return;
    }
    prompt->request = message->request;
    prompt->flags   = message->flags;
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
    uint32_t error;

    if (!length_is_good(type, bytes)) {
        send_error(service, type, 0, 0, LINK_ERROR_LENGTH, "message of the wrong length");
        return;
    }
    memcpy(&m, payload, bytes < sizeof(m) ? bytes : sizeof(m));
    switch (type) {
    case MESSAGE_HELLO:        hello(service, &m.hello);               break;
    case MESSAGE_IDENTIFY:     send_identity(service);                 break;
    case MESSAGE_UPLOAD_BEGIN: upload_begin(service, &m.upload_begin); break;
    case MESSAGE_UPLOAD_DATA:
        upload_data(service, m.upload_data.offset, payload + sizeof(m.upload_data), bytes - (uint32_t)sizeof(m.upload_data));
        break;
    case MESSAGE_UPLOAD_END:   upload_end(service);                    break;
    case MESSAGE_TOKENS:
        take_tokens(service, &m.tokens, payload + sizeof(m.tokens), (bytes - (uint32_t)sizeof(m.tokens))/sizeof(uint32_t));
        break;
    case MESSAGE_GENERATE:     generate(service, &m.generate);         break;
    case MESSAGE_STOP:
        if (service->ready && m.session.session < service->config.identity.sessions)
            engine_stop(service->engine, m.session.session);
        break;
    case MESSAGE_RESET:
        error = service->ready ? engine_reset(service->engine, m.session.session) : (uint32_t)ENGINE_OK;
        if (error)
            send_error(service, type, m.session.session, 0, LINK_ERROR_ENGINE, engine_error_text(error));
        else
            send_done(service, type, m.session.session);
        break;
    case MESSAGE_STATS:        send_stats(service);                    break;
    default:
        send_error(service, type, 0, 0, LINK_ERROR_TYPE, "unknown message");
    }
}

/* Events ----------------------------------------------------------------------------------------*/

static void send_token(struct service *service, const struct engine_event *event, uint32_t type)
{
    const struct service_prompt *prompt = &service->prompts[event->session];
    struct message_token token = {
        .session          = event->session,
        .request          = prompt->request,
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
    if (prompt->flags & LINK_GENERATE_LOGITS) {
        service->logits      = (struct message_logits){.session = event->session, .request = prompt->request, .position = event->position};
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
    const struct service_prompt *prompt = &service->prompts[event->session];

    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        send_token(service, event, MESSAGE_TOKEN);
        break;
    case ENGINE_EVENT_PROMPT:
        send_token(service, event, MESSAGE_PROMPT);
        break;
    case ENGINE_EVENT_END: {
        struct message_end end = {.session = event->session, .request = prompt->request, .position = event->position,
                                  .generated = event->generated, .end = event->end};
        link_send(&service->link, MESSAGE_END, &end, sizeof(end), NULL, 0);
        break;
    }
    case ENGINE_EVENT_ERROR:
        send_error(service, MESSAGE_GENERATE, event->session, prompt->request, LINK_ERROR_ENGINE, engine_error_text(event->error));
        break;
    }
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
        load(service, config->image_bytes);
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
    if (!service->ready)
        return 0;
    if (service->drain) {
        engine_poll(service->engine, &event);
        if (event.kind == ENGINE_EVENT_IDLE)
            service->drain = service->link.hold = 0;
        return 1;
    }
    if (service->logits_left) {
        if (link_free(&service->link) >= EVENT_ROOM)
            send_logits(service);
        return 1;
    }
    if (link_free(&service->link) < EVENT_ROOM)
        return 0;
    engine_poll(service->engine, &event);
    report(service, &event);
    return event.kind != ENGINE_EVENT_IDLE;
}

size_t service_output(struct service *service, uint32_t now_us, uint8_t *frame)
{
    return link_output(&service->link, now_us, frame);
}
