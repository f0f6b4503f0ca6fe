/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#include "crc32.h"
#include "link.h"

#define WAIT_US      500000u       /* Until the first repetition; doubles up to WAIT_MAX_US. */
#define WAIT_MAX_US  4000000u
#define BACK_US      20000u        /* Going back on request happens at most this often. */
#define STALL_US     50000u        /* A frame whose bytes stop coming for so long has lost some. */
#define HEADER_BYTES ((uint32_t)sizeof(struct frame_header))

/* The host's number of its first message; HELLO carries it. */
#define FIRST        1u

void link_init(struct link *link, link_handler handler, void *context)
{
    memset(link, 0, sizeof(*link));
    link->handler = handler;
    link->context = context;
    link->next    = FIRST;
    link->wait_us = WAIT_US;
}

size_t link_bytes(void)
{
    return sizeof(struct link);
}

/* Send ------------------------------------------------------------------------------------------*/

static uint16_t in_flight(const struct link *link)
{
    return (uint16_t)(link->sent - link->acknowledged);
}

uint32_t link_free(const struct link *link)
{
    return link->open ? LINK_WINDOW - in_flight(link) : 0;
}

int link_send(struct link *link, uint32_t type, const void *head, uint32_t head_bytes, const void *tail, uint32_t tail_bytes)
{
    struct link_slot *slot;

    if (link_free(link) == 0 || head_bytes + tail_bytes > LINK_PAYLOAD_MAX)
        return 0;
    link->sent++;
    slot = &link->slots[link->sent % LINK_WINDOW];
    slot->type  = type;
    slot->bytes = head_bytes + tail_bytes;
    if (head_bytes)
        memcpy(slot->payload, head, head_bytes);
    if (tail_bytes)
        memcpy(slot->payload + head_bytes, tail, tail_bytes);
    return 1;
}

static void put_word(uint8_t *to, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8*i);
}

static uint32_t get_word(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static size_t write_frame(struct link *link, uint8_t *frame, uint32_t number, uint32_t type, uint32_t flags, const uint8_t *payload,
                          uint32_t bytes)
{
    put_word(frame,      LINK_FRAME_SYNC | bytes << 16);
    put_word(frame + 4,  number | (uint32_t)link->received << 16);
    put_word(frame + 8,  link->connection);
    put_word(frame + 12, type | flags << 8);
    put_word(frame + 12, type | flags << 8 | crc32_update(0, frame, LINK_FRAME_CHECKED) << 16);
    if (bytes)
        memcpy(frame + HEADER_BYTES, payload, bytes);
    put_word(frame + HEADER_BYTES + bytes, crc32_update(0, frame, HEADER_BYTES + bytes));
    link->ack_due = link->gap = 0;
    link->frames_sent++;
    return HEADER_BYTES + bytes + LINK_CRC_BYTES;
}

size_t link_output(struct link *link, uint32_t now_us, uint8_t *frame)
{
    uint32_t flags;

    if (!link->open)
        return 0;
    if (link->left && !link->hold && link_free(link)) {
        link->left    = 0;
        link->ack_due = link->gap = 1;
    }
    flags = link->gap ? LINK_FLAG_GAP : 0;
    if (in_flight(link) && link->next == (uint16_t)(link->sent + 1) && now_us - link->timer_us > link->wait_us) {
        link->frames_again += in_flight(link);
        link->next    = link->acknowledged + 1;
        link->wait_us = link->wait_us*2 < WAIT_MAX_US ? link->wait_us*2 : WAIT_MAX_US;
    }
    if (link->next != (uint16_t)(link->sent + 1)) {
        const struct link_slot *slot = &link->slots[link->next % LINK_WINDOW];
        if (link->next == (uint16_t)(link->shown + 1))
            link->shown = link->next;
        link->timer_us = now_us;
        return write_frame(link, frame, link->next++, slot->type, flags | LINK_FLAG_SEQUENCED, slot->payload, slot->bytes);
    }
    if (link->ack_due)
        return write_frame(link, frame, 0, MESSAGE_ACK, flags, NULL, 0);
    return 0;
}

/* Receive ---------------------------------------------------------------------------------------*/

/* A HELLO of a new host: all that was under way is forgotten. Returns 0 for one that has been here before. */
static int open_connection(struct link *link, uint32_t connection)
{
    for (uint32_t i = 0; i < LINK_HISTORY && i < link->history_next; i++)
        if (link->history[i] == connection)
            return 0;
    link->history[link->history_next++ % LINK_HISTORY] = connection;
    if (link->history_next >= 2*LINK_HISTORY)
        link->history_next -= LINK_HISTORY;
    link->open         = 1;
    link->connection   = connection;
    link->received     = FIRST - 1;
    link->sent         = link->shown = link->acknowledged = FIRST - 1;
    link->next         = FIRST;
    link->wait_us      = WAIT_US;
    link->hold         = link->left = 0;
    return 1;
}

static void acknowledge(struct link *link, uint32_t now_us, uint16_t number, uint32_t gap)
{
    uint16_t news = (uint16_t)(number - link->acknowledged);

    if (news > (uint16_t)(link->shown - link->acknowledged))
        return;                    /* Of what has not gone out: not from the other end of this connection. */
    if (news) {
        if ((uint16_t)(link->next - link->acknowledged - 1) < news)
            link->next = number + 1;
        link->acknowledged = number;
        link->timer_us     = now_us;
        link->wait_us      = WAIT_US;
    }
    if (gap && in_flight(link) && now_us - link->back_us > BACK_US) {
        link->frames_again += (uint16_t)(link->next - link->acknowledged - 1);
        link->next    = link->acknowledged + 1;
        link->back_us = now_us;
    }
}

/* A frame whose checks are good. */
static void take_frame(struct link *link, uint32_t now_us, const uint8_t *frame, uint32_t bytes)
{
    uint16_t number     = (uint16_t)get_word(frame + 4);
    uint32_t connection = get_word(frame + 8), type = frame[12], flags = frame[13];
    uint16_t early;

    link->frames_received++;
    if (type == MESSAGE_HELLO && number == FIRST && flags & LINK_FLAG_SEQUENCED && (!link->open || connection != link->connection) &&
        !open_connection(link, connection)) {
        link->frames_dropped++;
        return;
    }
    if (!link->open || connection != link->connection) {
        link->frames_dropped++;
        return;
    }
    acknowledge(link, now_us, (uint16_t)(get_word(frame + 4) >> 16), flags & LINK_FLAG_GAP);
    if (!(flags & LINK_FLAG_SEQUENCED))
        return;
    early = (uint16_t)(number - link->received - 1);
    link->ack_due = 1;
    if (early != 0) {
        link->gap |= early < 0x8000;
        link->frames_dropped++;
        return;
    }
    /* Each message has at most one answer: without room for it, it is left until there is. */
    if ((link->hold && type != MESSAGE_HELLO) || link_free(link) == 0) {
        link->ack_due = 0;
        link->left    = 1;
        link->frames_dropped++;
        return;
    }
    link->received = number;
    link->handler(link->context, type, frame + HEADER_BYTES, bytes);
}

/* Bytes of `frame` that can be dropped: it starts with no frame. What follows the first byte may be one. */
static uint32_t next_sync(const struct link *link)
{
    for (uint32_t i = 1; i < link->fill; i++)
        if (link->frame[i] == (uint8_t)LINK_FRAME_SYNC && (i + 1 == link->fill || link->frame[i + 1] == LINK_FRAME_SYNC >> 8))
            return i;
    return link->fill;
}

static void drop(struct link *link, uint32_t bytes)
{
    link->fill -= bytes;
    memmove(link->frame, link->frame + bytes, link->fill);
}

/* Takes what is whole at the start of the buffer; returns 0 where more bytes must come first. */
static int parse(struct link *link, uint32_t now_us)
{
    uint32_t bytes, whole;

    if (link->fill < 2)
        return 0;
    if (link->frame[0] != (uint8_t)LINK_FRAME_SYNC || link->frame[1] != LINK_FRAME_SYNC >> 8) {
        drop(link, next_sync(link));
        return 1;
    }
    if (link->fill < HEADER_BYTES)
        return 0;
    bytes = get_word(link->frame) >> 16;
    whole = HEADER_BYTES + bytes + LINK_CRC_BYTES;
    if (bytes > LINK_PAYLOAD_MAX || (uint16_t)crc32_update(0, link->frame, LINK_FRAME_CHECKED) != get_word(link->frame + 12) >> 16) {
        link->frames_damaged++;
        drop(link, next_sync(link));
        return 1;
    }
    if (link->fill < whole)
        return 0;
    if (crc32_update(0, link->frame, HEADER_BYTES + bytes) != get_word(link->frame + HEADER_BYTES + bytes)) {
        link->frames_damaged++;
        drop(link, next_sync(link));
        return 1;
    }
    take_frame(link, now_us, link->frame, bytes);
    drop(link, whole);
    return 1;
}

void link_input(struct link *link, uint32_t now_us, const uint8_t *data, size_t bytes)
{
    while (link->fill && now_us - link->fill_us > STALL_US) {
        link->frames_damaged += link->fill >= HEADER_BYTES;
        drop(link, next_sync(link));
        while (parse(link, now_us))
            ;
    }
    if (bytes)
        link->fill_us = now_us;
    while (bytes) {
        uint32_t room = (uint32_t)LINK_FRAME_MAX - link->fill, part = bytes < room ? (uint32_t)bytes : room;
        memcpy(link->frame + link->fill, data, part);
        link->fill += part;
        data       += part;
        bytes      -= part;
        while (parse(link, now_us))
            ;
    }
}
