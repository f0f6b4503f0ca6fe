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
#include "litetern/board.h"
#include "litetern/memory.h"
#include "litetern/numerics.h"
#include "pl.h"
#include "service.h"

#define CORES_SHARE 4096      /* Beats that C cores work on between two looks at the UART: its FIFO holds 5 ms. */

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

/* An image that the boot script has left where none can lie counts as none. */
static void find_image(struct service_config *config)
{
    const struct handover *handover = (const struct handover *)HANDOVER_BASE;
    uint32_t base = handover->image_base, bytes = handover->image_bytes;

    if (bytes == 0)
        return;
    if (base < IMAGE_BASE || base % IMAGE_ALIGNMENT || base >= DDR_END || bytes > DDR_END - base) {
        console_print("hand-over: no place for an image of %u bytes at byte %u of the memory\n", bytes, base);
        return;
    }
    config->image       = (uint8_t *)base;
    config->image_bytes = bytes;
}

static void start(void)
{
    struct service_config config = {
        .memory       = (uint8_t *)IMAGE_BASE,
        .memory_bytes = MODEL_BYTES,
        .image_limit  = IMAGE_LIMIT,
        .image        = (uint8_t *)IMAGE_BASE,
        .line_errors  = uart_errors,
        .pl_errors    = pl_errors,
    };

    console_print("\nLiteTern firmware %s\n", FIRMWARE_VERSION);
    find_image(&config);
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
