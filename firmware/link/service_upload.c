/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The image: checked and handed to the engine, and how a host brings one. The identity says what the board can run, at any time. */

#include <string.h>

#include "image.h"
#include "litetern/formats.h"
#include "service_private.h"

#define CONTEXT_GOAL 2048          /* Positions that each of several sessions must get. */
#define CHECK_SHARE  0x10000       /* Bytes of an image that are checked in a turn, */
#define CHECK_TELL   50000         /* and the board's microseconds between two signs of it; an emulated board takes seconds for them. */

/* Model -----------------------------------------------------------------------------------------*/

static size_t align(size_t bytes)
{
    return (bytes + ENGINE_ALIGNMENT - 1)/ENGINE_ALIGNMENT*ENGINE_ALIGNMENT;
}

/* Bytes from the image's start to the end of its memory. */
static size_t image_room(const struct service_config *config)
{
    return config->memory_bytes - (size_t)(config->image - config->memory);
}

/* Largest number of sessions whose full context fits; at least 1. */
static uint32_t sessions_for(const struct service *service, size_t arena_bytes)
{
    const struct image_header *header = (const struct image_header *)service->config.image;
    uint32_t context = header->context < CONTEXT_GOAL ? header->context : CONTEXT_GOAL;

    for (uint32_t sessions = SESSIONS_MAX; sessions > 1; sessions--) {
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

/* The board can run no image any more, and says so. */
static void unload(struct service *service, const char *problem)
{
    struct message_identity *identity = &service->config.identity;

    service->ready = service->image_error = service->engine_error = 0;
    identity->image_bytes = identity->image_crc = identity->context = identity->vocab = identity->sessions = 0;
    memset(identity->name, 0, sizeof(identity->name));
    note_problem(service, problem);
}

static void start_engine(struct service *service, size_t bytes)
{
    struct service_config *config = &service->config;
    struct message_identity *identity = &config->identity;
    const struct image_header *header = (const struct image_header *)config->image;
    uint8_t *arena;
    size_t  arena_bytes;
    uint32_t sessions;

    arena       = config->image + align(bytes);
    arena_bytes = align(bytes) < image_room(config) ? image_room(config) - align(bytes) : 0;
    if ((size_t)(config->image - config->memory) > arena_bytes) {
        arena       = config->memory;
        arena_bytes = config->image - config->memory;
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

/* The check has ended; problem: why the image is refused, or NULL. */
static void end_check(struct service *service, const char *problem)
{
    size_t   bytes = service->checking;
    uint32_t due   = service->check_due;

    service->checking = service->check_due = service->link.hold = 0;
    if (problem)
        note_problem(service, problem);
    else
        start_engine(service, bytes);
    if (due == MESSAGE_HELLO || (due && service->ready))
        service_send_identity(service);
    else if (due)
        service_send_error(service, due, 0, 0, service->engine_error ? LINK_ERROR_ENGINE : LINK_ERROR_IMAGE, service->config.identity.problem);
}

void service_load(struct service *service, size_t bytes)
{
    const struct service_config *config = &service->config;

    unload(service, NULL);
    service->checking    = bytes;
    service->checked     = (struct image_body){0};
    service->link.hold   = 1;
    service->image_error = IMAGE_ERROR_LIMIT;
    if (bytes <= config->image_limit && bytes <= image_room(config))
        service->image_error = image_check(config->image, bytes, config->image_limit, 0);
    if (service->image_error && service->image_error != IMAGE_ERROR_VALUE)  /* Of a damaged body the CRC says more. */
        end_check(service, image_error_text(service->image_error));
}

void service_check(struct service *service, uint32_t now_us)
{
    struct message_checking message;
    uint32_t error = image_check_body(service->config.image, CHECK_SHARE, &service->checked);

    if (service->checked.done == service->checking) {
        if (error)
            service->image_error = error;
        end_check(service, service->image_error ? image_error_text(service->image_error) : NULL);
    } else if (service->check_due && now_us - service->told_us >= CHECK_TELL && link_free(&service->link) > 1) {
        service->told_us = now_us;
        message = (struct message_checking){.done = (uint32_t)service->checked.done, .bytes = (uint32_t)service->checking};
        link_send(&service->link, MESSAGE_CHECKING, &message, sizeof(message), NULL, 0);
    }
}

/* Requests --------------------------------------------------------------------------------------*/

static void refuse(struct service *service, uint32_t type, const char *text)
{
    service_send_error(service, type, 0, 0, LINK_ERROR_UPLOAD, text);
}

void service_send_upload_status(struct service *service)
{
    struct message_upload_status status = {.offset = service->upload_offset};

    link_send(&service->link, MESSAGE_UPLOAD_STATUS, &status, sizeof(status), NULL, 0);
}

void service_upload_begin(struct service *service, const struct message_upload_begin *message)
{
    if (message->bytes == 0 || message->bytes > service->config.image_limit) {
        refuse(service, MESSAGE_UPLOAD_BEGIN, "the image is empty, or larger than the board's memory for it");
        return;
    }
    if (message->bytes != service->upload_bytes || message->crc != service->upload_crc) {
        service->upload_bytes  = message->bytes;
        service->upload_crc    = message->crc;
        service->upload_offset = 0;
    }
    service->uploading   = 1;
    service->upload_hole = 0;
    if (service->ready)
        service_stop_all(service, SERVICE_DRAIN_UPLOAD);
    else
        service_send_upload_status(service);
}

void service_upload_data(struct service *service, uint32_t offset, const uint8_t *data, uint32_t bytes)
{
    if (!service->uploading) {
        refuse(service, MESSAGE_UPLOAD_DATA, "image bytes that no upload asked for");
        return;
    }
    if (offset != service->upload_offset) {
        if (!service->upload_hole)
            service_send_upload_status(service);
        service->upload_hole = 1;
        return;
    }
    if (bytes > service->upload_bytes - offset) {
        refuse(service, MESSAGE_UPLOAD_DATA, "image bytes behind the end that was announced");
        return;
    }
    if (service->upload_offset == 0 || service->ready) {
        unload(service, "the upload of an image was not finished");
        service->config.image = service->config.memory;
    }
    memcpy(service->config.image + offset, data, bytes);
    service->upload_offset += bytes;
    service->upload_hole    = 0;
}

void service_upload_end(struct service *service)
{
    const struct image_header *header = (const struct image_header *)service->config.image;
    uint32_t bytes = service->upload_bytes;

    if (!service->uploading || service->upload_offset != bytes) {
        refuse(service, MESSAGE_UPLOAD_END, "the upload is not complete");
        return;
    }
    service->uploading    = 0;
    service->upload_bytes = service->upload_offset = 0;
    service->check_due    = MESSAGE_UPLOAD_END;
    service_load(service, bytes);
    if (service->checking && header->header_crc != service->upload_crc)
        end_check(service, "the image is another one than was announced");
}
