/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The firmware in a LiteX SoC: a console for people, and the link's service as soon as a host begins to speak. */

#include <string.h>

#define CONFIG_CPU_NOP "nop"       /* The registers' header asks for it. */
#include <generated/csr.h>
#include <generated/mem.h>

#include "crc32.h"
#include "drivers/accelerator.h"
#include "drivers/bus.h"
#include "drivers/console.h"
#include "drivers/fault.h"
#include "drivers/timer.h"
#include "drivers/uart.h"
#include "engine.h"
#include "litetern/board.h"
#include "litetern/memory.h"
#include "litetern/messages.h"
#include "litetern/numerics.h"
#include "selftest.h"
#include "service.h"

#include "engine_private.h"

#define LINE_MAX         64
#define TOKENS_DEFAULT   8

_Static_assert(FIRMWARE_BASE == MAIN_RAM_BASE, "soc/litex/memory_map.py and the SoC disagree on where the memory is");

static struct engine         engine;
static struct service        service;
static struct service_config config;
static uint32_t              failed_lists;

static uint32_t pl_errors(void)
{
    return failed_lists;
}

/* Start -----------------------------------------------------------------------------------------*/

static void start(uint32_t image_bytes)
{
    uint32_t version;

    if (!accelerator_identify(&version))
        fatal("no accelerator of this version in the SoC");
    config.memory       = config.image       = (uint8_t *)IMAGE_BASE;
    config.memory_bytes = config.image_limit = MAIN_RAM_BASE + MAIN_RAM_SIZE - IMAGE_BASE;
    config.image_bytes  = image_bytes;
    config.line_errors  = uart_errors;
    config.pl_errors    = pl_errors;
    accelerator_engine(&config.pl, &failed_lists);
    memcpy(config.identity.firmware, FIRMWARE_VERSION, sizeof(FIRMWARE_VERSION));
    memcpy(config.identity.pl_build, "LiteX", sizeof("LiteX"));
    config.identity.pl          = 1;
    config.identity.pl_version  = version;
    config.identity.pl_clock_hz = CONFIG_CLOCK_FREQUENCY;
    config.identity.pl_ports    = config.pl.ports;
    console_print("accelerator: version %u.%u, %u ports, %u kHz\n", version >> 16, version & 0xFFFF, config.pl.ports,
                  CONFIG_CLOCK_FREQUENCY/1000);
    service_init(&service, &engine, &config);
    if (service.ready)
        console_print("model: %s, context %u, sessions %u\n", service.config.identity.name, service.config.identity.context,
                      service.config.identity.sessions);
    else if (image_bytes)
        console_print("model: refused: %s\n", service.config.identity.problem);
    else
        console_print("model: none, waiting for an upload\n");
}

static void finish(void)
{
    console_print("finish: after %u us\n", timer_us());
    console_flush();
#ifdef CSR_SIM_FINISH_FINISH_ADDR
    REGISTER(CSR_SIM_FINISH_FINISH_ADDR) = 1;
#endif
}

/* Commands --------------------------------------------------------------------------------------*/

/* The self-test leaves the lanes with nothing that they may touch. */
static void test_lanes(void)
{
    selftest(&config.pl);
    if (service.ready)
        engine_allow(&engine);
}

/* Greedy tokens behind the start token, each with the CRC-32 of its logits: the same bits on every build. */
static void generate(uint32_t tokens)
{
    const struct image_header *header = (const struct image_header *)config.image;
    const struct sampling_settings greedy = {.top_p = 1.0f, .repetition_penalty = 1.0f, .ignore_eos = 1};
    struct engine_event event = {0};
    uint32_t bos, error;

    if (!service.ready) {
        console_print("generate: no model\n");
        return;
    }
    bos   = header->bos == IMAGE_NO_TOKEN ? 0 : header->bos;
    error = engine_reset(&engine, 0);
    if (error == ENGINE_ERROR_NONE)
        error = engine_generate(&engine, 0, &bos, 1, &greedy, tokens);
    while (error == ENGINE_ERROR_NONE && event.end == ENGINE_END_NONE) {
        uint32_t cycles = 0;
        engine_poll(&engine, &event);
        error = event.kind == ENGINE_EVENT_ERROR ? event.error : ENGINE_ERROR_NONE;
        if (event.kind != ENGINE_EVENT_TOKEN)
            continue;
        for (uint32_t i = 0; i < ENGINE_PARTS; i++)
            cycles += event.pl_cycles[i];
        console_print("token %u, logits %x, %u us, accelerator %u cycles\n", event.token,
                      crc32_update(0, engine_logits(&engine), header->vocab*sizeof(float)), event.microseconds, cycles);
    }
    console_print("generate: %s\n", error == ENGINE_ERROR_NONE ? "done" : engine_error_text(error));
}

static uint32_t number(const char *text, uint32_t otherwise)
{
    uint32_t value = 0, digits = 0;

    for (; *text == ' '; text++)
        ;
    for (; *text >= '0' && *text <= '9' && digits < 6; text++, digits++)
        value = 10*value + (uint32_t)(*text - '0');
    return digits && *text == 0 ? value : otherwise;
}

static int begins(const char *line, const char *word)
{
    size_t length = strlen(word);

    return memcmp(line, word, length) == 0 && (line[length] == 0 || line[length] == ' ');
}

static void command(const char *line)
{
    if (begins(line, "selftest"))
        test_lanes();
    else if (begins(line, "generate"))
        generate(number(line + strlen("generate"), TOKENS_DEFAULT));
    else if (begins(line, "finish"))
        finish();
    else if (*line)
        console_print("selftest      the accelerator beside the C cores\n"
                      "generate [n]  n tokens behind the start token, greedily\n"
                      "finish        ends the simulation\n"
                      "A host (host/chat.py) may begin to speak at any time; the console ends then.\n");
}

/* A line editor for as long as only people type; returns at the first byte of a frame. */
static void console(void)
{
    static char line[LINE_MAX];
    uint32_t length = 0;
    uint8_t byte;

    console_print("litetern> ");
    for (;;) {
        if (!uart_read(&byte, 1))
            continue;
        if (byte == (LINK_FRAME_SYNC & 0xFF))
            return;
        if (byte == '\r' || byte == '\n') {
            console_print("\n");
            memset(line + length, 0, LINE_MAX - length);
            command(line);
            console_print("litetern> ");
            length = 0;
        } else if ((byte == 0x08 || byte == 0x7F) && length) {
            length--;
            console_print("\b \b");
        } else if (byte >= ' ' && byte < 0x7F && length < LINE_MAX - 1) {
            line[length++] = (char)byte;
            console_print("%c", byte);
        }
    }
}

/* Link ------------------------------------------------------------------------------------------*/

static void __attribute__((noreturn)) serve(void)
{
    static uint8_t frame[LINK_FRAME_MAX];
    uint8_t received[64] = {LINK_FRAME_SYNC & 0xFF};
    size_t length = 0, sent = 0, bytes = 1;

    for (;;) {
        service_poll(&service, timer_us(), received, bytes);
        if (sent == length) {
            sent   = 0;
            length = service_output(&service, timer_us(), frame);
        }
        sent += uart_write(frame + sent, length - sent);
        bytes = uart_read(received, sizeof(received));
    }
}

int main(void)
{
    const struct boot *boot = (const struct boot *)BOOT_BASE;
    uint32_t ours = boot->magic == BOOT_MAGIC;

    timer_init();
    uart_init();
    console_print("\nLiteTern firmware %s\n", FIRMWARE_VERSION);
    start(ours ? boot->image_bytes : 0);
    console_print("ready\n");
    if (ours && boot->flags & BOOT_SELFTEST)
        test_lanes();
    if (ours && boot->tokens)
        generate(boot->tokens);
    if (ours && boot->flags & BOOT_FINISH)
        finish();
    console();
    serve();
}
