/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Frames as a host writes and reads them. */

#ifndef FRAMES_H
#define FRAMES_H

#include <string.h>

#include "crc32.h"
#include "fuzz.h"
#include "link.h"

struct frame {
    uint32_t connection, type, flags, bytes;
    uint16_t number, acknowledged;
    uint8_t  payload[LINK_PAYLOAD_MAX];
};

static inline void frame_put(uint8_t *to, uint32_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8*i);
}

static inline uint32_t frame_get(const uint8_t *from, uint32_t bytes)
{
    return bytes ? from[0] | frame_get(from + 1, bytes - 1) << 8 : 0;
}

/* Returns the length. */
static inline size_t frame_write(uint8_t *data, const struct frame *frame)
{
    frame_put(data,      LINK_FRAME_SYNC, 2);
    frame_put(data + 2,  frame->bytes, 2);
    frame_put(data + 4,  frame->number, 2);
    frame_put(data + 6,  frame->acknowledged, 2);
    frame_put(data + 8,  frame->connection, 4);
    frame_put(data + 12, frame->type, 1);
    frame_put(data + 13, frame->flags, 1);
    frame_put(data + 14, crc32_update(0, data, LINK_FRAME_CHECKED), 2);
    memcpy(data + 16, frame->payload, frame->bytes);
    frame_put(data + 16 + frame->bytes, crc32_update(0, data, 16 + frame->bytes), 4);
    return 16 + frame->bytes + LINK_CRC_BYTES;
}

/* A frame of the board, which is right in all its bytes. */
static inline void frame_read(struct frame *frame, const uint8_t *data, size_t bytes)
{
    FUZZ_MUST(bytes >= 16 + LINK_CRC_BYTES && bytes <= LINK_FRAME_MAX);
    frame->bytes = frame_get(data + 2, 2);
    FUZZ_MUST(frame_get(data, 2) == LINK_FRAME_SYNC && bytes == 16 + frame->bytes + LINK_CRC_BYTES);
    FUZZ_MUST(frame_get(data + 14, 2) == (crc32_update(0, data, LINK_FRAME_CHECKED) & 0xFFFF));
    FUZZ_MUST(frame_get(data + 16 + frame->bytes, 4) == crc32_update(0, data, 16 + frame->bytes));
    frame->number       = (uint16_t)frame_get(data + 4, 2);
    frame->acknowledged = (uint16_t)frame_get(data + 6, 2);
    frame->connection   = frame_get(data + 8, 4);
    frame->type         = data[12];
    frame->flags        = data[13];
    memcpy(frame->payload, data + 16, frame->bytes);
}

#endif
