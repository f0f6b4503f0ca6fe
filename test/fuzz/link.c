/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Input: what a host, several hosts and the line between do to the link, each a byte and its arguments: see enum deed. Whatever it was, a new
 * host is heard at the end.
 */

#include "frames.h"

#define CONNECTIONS 8              /* Numbers of connections that the input chooses from. */
#define LAST        1000           /* The one at the end. */

enum deed {
    DEED_BYTES,                    /* count, bytes. */
    DEED_FRAME,                    /* connection, number and acknowledgement as distances from the right ones, type, flags, length, damage. */
    DEED_TIME,                     /* In units of 256 us. */
    DEED_OUTPUT,                   /* count. */
    DEED_SEND,                     /* length. */
    DEED_HOLD,
    DEEDS,
};

static struct link link_;
static uint32_t now_us, hello_handled, right_connection;
static uint16_t received, shown;   /* What the board has taken, and the highest number that it has shown, in this connection. */

static void handle(void *context, uint32_t type, const uint8_t *payload, uint32_t bytes)
{
    uint32_t sum = 0;

    FUZZ_MUST(context == &link_ && bytes <= LINK_PAYLOAD_MAX && link_free(&link_) > 0);
    if (link_.connection != right_connection) {
        FUZZ_MUST(type == MESSAGE_HELLO);
        right_connection = link_.connection;
        received = shown = 0;
    }
    FUZZ_MUST(link_.received == (uint16_t)(received + 1));
    received = link_.received;
    for (uint32_t i = 0; i < bytes; i++)
        sum += payload[i];
    hello_handled += type == MESSAGE_HELLO;
    if (sum % 2)
        link_send(&link_, type, &sum, sizeof(sum), payload, bytes < 100 ? bytes : 100);
}

/* The board believes only in what was shown. */
static void check(void)
{
    FUZZ_MUST(link_.fill <= LINK_FRAME_MAX && link_free(&link_) <= LINK_WINDOW);
    FUZZ_MUST(!link_.open || (link_.connection == right_connection && (uint16_t)(shown - link_.acknowledged) <= LINK_WINDOW));
}

static void output(void)
{
    static struct frame frame;
    uint8_t *data = __builtin_alloca(LINK_FRAME_MAX);
    size_t bytes = link_output(&link_, now_us, data);

    if (bytes == 0)
        return;
    frame_read(&frame, data, bytes);
    FUZZ_MUST(frame.connection == right_connection && frame.acknowledged == received);
    if (!(frame.flags & LINK_FLAG_SEQUENCED))
        return;
    FUZZ_MUST((uint16_t)(frame.number - shown) <= 1 || (uint16_t)(shown - frame.number) < LINK_WINDOW);
    if (frame.number == (uint16_t)(shown + 1))
        shown = frame.number;
}

static void put_frame(struct fuzz_input *input)
{
    static struct frame frame;
    uint8_t data[LINK_FRAME_MAX];
    uint32_t damage;
    size_t bytes;

    frame.connection   = 1 + fuzz_byte(input) % CONNECTIONS;
    frame.number       = (uint16_t)(link_.received + 1 + (int8_t)fuzz_byte(input));
    frame.acknowledged = (uint16_t)(shown + (int8_t)fuzz_byte(input));
    frame.type         = fuzz_byte(input);
    frame.flags        = fuzz_byte(input);
    frame.bytes        = fuzz_half(input) % (LINK_PAYLOAD_MAX + 1);
    damage             = fuzz_half(input);
    if (frame.type == MESSAGE_HELLO)
        frame.number = (uint16_t)(frame.number - link_.received);
    for (uint32_t i = 0; i < frame.bytes; i++)
        frame.payload[i] = (uint8_t)(i*7 + frame.number);
    bytes = frame_write(data, &frame);
    if (damage & 1)
        data[damage/2 % bytes] ^= (uint8_t)(1 << damage % 8);
    link_input(&link_, now_us, data, damage % 8 == 6 ? bytes/2 : bytes);
}

/* A host that nobody knows opens a connection. */
static void finish(void)
{
    static struct frame frame = {.connection = LAST, .number = 1, .type = MESSAGE_HELLO, .flags = LINK_FLAG_SEQUENCED, .bytes = 8};
    uint8_t data[LINK_FRAME_MAX];
    uint32_t before;

    now_us += 1000000;             /* A frame that was cut has had its time; what it held back is heard. */
    link_input(&link_, now_us, NULL, 0);
    before = hello_handled;
    link_input(&link_, now_us, data, frame_write(data, &frame));
    FUZZ_MUST(hello_handled == before + 1 && right_connection == LAST && link_free(&link_) >= LINK_WINDOW - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, bytes};

    link_init(&link_, handle, &link_);
    now_us = 0;
    right_connection = hello_handled = received = shown = 0;
    while (input.bytes) {
        uint32_t deed = fuzz_byte(&input) % DEEDS, count;
        switch (deed) {
        case DEED_BYTES:
            count = fuzz_byte(&input);
            count = count < input.bytes ? count : (uint32_t)input.bytes;
            link_input(&link_, now_us, input.data, count);
            input.data  += count;
            input.bytes -= count;
            break;
        case DEED_FRAME:
            put_frame(&input);
            break;
        case DEED_TIME:
            now_us += fuzz_half(&input)*256;
            link_input(&link_, now_us, NULL, 0);
            break;
        case DEED_OUTPUT:
            for (count = fuzz_byte(&input) % 32; count; count--)
                output();
            break;
        case DEED_SEND:
            count = fuzz_half(&input) % (LINK_PAYLOAD_MAX + 2);
            link_send(&link_, MESSAGE_TOKEN, NULL, 0, link_.frame, count < LINK_FRAME_MAX ? count : LINK_FRAME_MAX);
            break;
        default:
            link_.hold = fuzz_byte(&input) & 1;
        }
        check();
    }
    fuzz_accepted += received > 0;
    finish();
    return 0;
}

/* Mostly the right next frame of the right host: what is wrong comes by plain mutations. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed)
{
    static const uint8_t types[] = {MESSAGE_HELLO, MESSAGE_TOKENS, MESSAGE_ACK, MESSAGE_STOP};
    uint8_t deed[10] = {DEED_FRAME, 0, 0, 0, types[fuzz_draw(&seed) % 4], LINK_FLAG_SEQUENCED, (uint8_t)(fuzz_draw(&seed) % 30)};
    size_t at;

    if (bytes == 0 || bytes + sizeof(deed) > room || fuzz_draw(&seed) % 3 == 0)
        return LLVMFuzzerMutate(data, bytes, room);
    at      = fuzz_draw(&seed) % 2 ? bytes : fuzz_draw(&seed) % bytes;
    deed[1] = (uint8_t)(fuzz_draw(&seed) % 4 ? 0 : fuzz_draw(&seed) % CONNECTIONS);
    if (deed[4] == MESSAGE_HELLO)
        deed[1] = (uint8_t)(fuzz_draw(&seed) % CONNECTIONS);
    memmove(data + at + sizeof(deed), data + at, bytes - at);
    memcpy(data + at, deed, sizeof(deed));
    return bytes + sizeof(deed);
}
