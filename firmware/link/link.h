/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Reliable messages over a transport that loses, repeats, reorders and damages: frames and their numbers are described in
 * host/link/messages.py. The link knows no transport: bytes come in by link_input(), whole frames go out by link_output().
 */

#ifndef LINK_H
#define LINK_H

#include <stddef.h>
#include <stdint.h>

#include "litetern/messages.h"

#define LINK_FRAME_MAX   (sizeof(struct frame_header) + LINK_PAYLOAD_MAX + LINK_CRC_BYTES)
#define LINK_HISTORY     4         /* Connections whose late HELLO is not taken for a new one. */

/* A message that came whole, once and in order. */
typedef void (*link_handler)(void *context, uint32_t type, const uint8_t *payload, uint32_t bytes);

struct link_slot {
    uint32_t type, bytes;
    uint8_t  payload[LINK_PAYLOAD_MAX];
};

struct link {
    link_handler handler;
    void    *context;

    uint32_t open, connection;
    uint32_t history[LINK_HISTORY], history_next;
    uint32_t hold;                 /* 1: messages but HELLO are left. */
    uint32_t left;                 /* One was left, here or without room for its answer: to be asked for again. */

    uint16_t received;             /* Number of the last message in order. */
    uint16_t sent, acknowledged;   /* Numbers of our last message and of the last that the other end has. */
    uint16_t shown;                /* Highest number that has gone out. */
    uint16_t next;                 /* Number that goes out next; sent + 1: none. */
    uint32_t ack_due, gap;         /* The other end shall hear from us; it should go back. */
    uint32_t timer_us, back_us, wait_us;
    struct link_slot slots[LINK_WINDOW];

    uint32_t fill, fill_us;        /* Bytes in `frame`, and when the last one came. */
    uint8_t  frame[LINK_FRAME_MAX];

    uint32_t frames_received, frames_damaged, frames_dropped, frames_sent, frames_again;
};

void link_init(struct link *link, link_handler handler, void *context);

/* sizeof(struct link), for hosts. */
size_t link_bytes(void);

/* Takes bytes from the transport; calls the handler for each message. */
void link_input(struct link *link, uint32_t now_us, const uint8_t *data, size_t bytes);

/* Messages that link_send() takes now. */
uint32_t link_free(const struct link *link);

/* Queues a message: `head` and then `tail` (may be NULL); returns 0 where there is no room or no connection. */
int link_send(struct link *link, uint32_t type, const void *head, uint32_t head_bytes, const void *tail, uint32_t tail_bytes);

/* Writes the next frame, if one is due, to `frame` (LINK_FRAME_MAX bytes); returns its length or 0. */
size_t link_output(struct link *link, uint32_t now_us, uint8_t *frame);

#endif
