/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <string.h>

#include "cores_pl.h"
#include "drivers/console.h"
#include "drivers/timer.h"
#include "drivers/uart.h"
#include "engine_private.h"
#include "litetern/memory.h"
#include "pl.h"
#include "service.h"

#define FIRMWARE_VERSION "0.1.0"
#define CORES_SHARE      4096      /* Beats that C cores work on between two looks at the UART: its FIFO holds 5 ms. */

static struct pl       pl;
static struct cores_pl cores;
static struct engine   engine;
static struct service  service;

static uint32_t pl_errors(void)
{
    return pl.errors;
}

static void copy_text(char *to, const char *from, size_t bytes)
{
    size_t length = strlen(from);

    memcpy(to, from, length < bytes ? length : bytes - 1);
}

static void start(void)
{
    const struct handover *handover = (const struct handover *)HANDOVER_BASE;
    struct service_config config = {
        .image       = (uint8_t *)IMAGE_BASE,
        .image_limit = DDR_END - IMAGE_BASE,
        .image_bytes = handover->image_bytes,
        .arena       = (uint8_t *)ARENA_BASE,
        .arena_bytes = HANDOVER_BASE - ARENA_BASE,
        .line_errors = uart_errors,
        .pl_errors   = pl_errors,
    };

    console_print("\nLiteTern firmware %s\n", FIRMWARE_VERSION);
    pl_init(&pl);
    if (pl.state == PL_READY) {
        pl_engine(&pl, &config.pl);
        config.pl.results       = RESULTS_BASE;
        config.pl.results_bytes = RESULTS_BYTES;
        console_print("PL: %s, version %u.%u, %u kHz, build %s\n", pl_state_text(pl.state), pl.version >> 16, pl.version & 0xFFFF,
                      pl.clock_hz/1000, pl.build);
    } else {
        cores_pl_init(&cores, &config.pl, 0, DDR_END, CORES_SHARE, timer_us);
        console_print("PL: %s\n", pl_state_text(pl.state));
    }
    copy_text(config.identity.firmware, FIRMWARE_VERSION, sizeof(config.identity.firmware));
    copy_text(config.identity.pl_build, pl.build, sizeof(config.identity.pl_build));
    config.identity.pl          = pl.state == PL_READY;
    config.identity.pl_version  = pl.version;
    config.identity.pl_clock_hz = pl.clock_hz;
    config.identity.pl_ports    = config.pl.ports;
    service_init(&service, &engine, &config);
}

/* When the image that was there has been checked. */
static void tell_model(void)
{
    if (service.ready)
        console_print("model: %s, context %u, sessions %u\n", service.config.identity.name, service.config.identity.context,
                      service.config.identity.sessions);
    else if (service.config.identity.problem[0])
        console_print("model: refused: %s\n", service.config.identity.problem);
    else
        console_print("model: none, waiting for an upload\n");
}

int main(void)
{
    static uint8_t frame[LINK_FRAME_MAX];
    uint8_t received[64];
    size_t length = 0, sent = 0;
    int told = 0;

    timer_init();
    uart_init();
    start();
    for (;;) {
        size_t bytes = uart_read(received, sizeof(received));
        service_poll(&service, timer_us(), received, bytes);
        if (sent == length) {  /* Text comes between frames. */
            if (!told && !service.checking) {
                tell_model();
                console_print("ready\n");
                told = 1;
            }
            sent   = 0;
            length = service_output(&service, timer_us(), frame);
        }
        sent += uart_write(frame + sent, length - sent);
    }
}
