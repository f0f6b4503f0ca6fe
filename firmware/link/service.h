/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* What the board does for its host: the link's messages in, the engine's events out. Never blocks. */

#ifndef SERVICE_H
#define SERVICE_H

#include "engine.h"
#include "image.h"
#include "link.h"

#define SERVICE_PROMPT_MAX   4096  /* Tokens. */

/* Where things lie, and who computes. */
struct service_config {
    uint8_t *memory;               /* Of image and arena. An upload goes to its start, the arena to where more is free: behind the image, or before. */
    size_t   memory_bytes;
    size_t   image_limit;          /* Bytes of the longest image; at most memory_bytes. */
    uint8_t *image;                /* Place of the image, in this memory; at first of the one that is there already. */
    size_t   image_bytes;          /* Length of the one that is there already; 0: none. */
    struct engine_pl pl;
    struct message_identity identity;  /* Members about firmware and PL; the rest is filled in. */
    uint32_t (*line_errors)(void); /* Of the transport; may be NULL. */
    uint32_t (*pl_errors)(void);   /* Lists that failed; may be NULL. */
};

/* What a host has said of a session. */
struct service_session {
    uint32_t count;                /* Tokens of the prompt that have come. */
    uint32_t broken;               /* It has a hole, or is too long. */
    uint32_t request, flags;       /* Of the GENERATE that runs. */
    uint32_t stops, resets;        /* Requests that are done, and answered, when the session is idle. */
    uint32_t tokens[SERVICE_PROMPT_MAX];
};

enum service_drain {               /* Why generation ends before anything else happens. */
    SERVICE_DRAIN_NONE,
    SERVICE_DRAIN_HELLO,           /* A new host, which shall hear nothing of it. */
    SERVICE_DRAIN_UPLOAD,          /* Its end is heard; then UPLOAD_BEGIN is answered. */
};

struct service {
    struct service_config config;
    struct link    link;
    struct engine *engine;
    uint32_t greeted;              /* The host has said HELLO and speaks our language. */
    uint32_t ready;                /* A model is loaded. */
    uint32_t drain;                /* enum service_drain. */
    uint32_t image_error, engine_error;
    size_t   checking;             /* Length of the image that is being checked, a share in each turn; 0: none. */
    struct image_body checked;
    uint32_t check_due;            /* Message that is answered when it is checked; 0: none. */
    uint32_t told_us;              /* When the host last heard how far that is. */
    uint32_t upload_bytes, upload_crc, upload_offset;
    uint32_t uploading;            /* The host that is here has begun it. */
    uint32_t upload_hole;          /* It knows that a chunk is missing. */
    uint32_t logits_left;          /* Logits of the last event that wait for room. */
    struct message_logits logits;
    struct service_session sessions[SESSIONS_MAX];
    uint32_t tokens;
    uint32_t started_us, seconds, seconds_us;
};

size_t service_bytes(void);

/* engine: engine_bytes() bytes. The image that is there is loaded in the turns that follow, while `checking`. */
void service_init(struct service *service, void *engine, const struct service_config *config);

/* One turn: bytes from the transport, a share of work. Returns 1 while there is work. */
int service_poll(struct service *service, uint32_t now_us, const uint8_t *data, size_t bytes);

/* Next frame for the transport (LINK_FRAME_MAX bytes); returns its length or 0. */
size_t service_output(struct service *service, uint32_t now_us, uint8_t *frame);

#endif
