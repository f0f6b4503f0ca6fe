/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "console.h"
#include "timer.h"
#include "uart.h"

#define WAIT_US 100000u

static void put(const char *text, size_t length)
{
    uint32_t start = timer_us();

    while (length && timer_us() - start < WAIT_US) {
        size_t part = uart_write((const uint8_t *)text, length);
        text   += part;
        length -= part;
    }
}

static void put_decimal(uint32_t value)
{
    char digits[10];
    size_t first = sizeof(digits);

    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    put(digits + first, sizeof(digits) - first);
}

static void put_hexadecimal(uint32_t value)
{
    char digits[10] = "0x";

    for (uint32_t i = 0; i < 8; i++)
        digits[2 + i] = "0123456789abcdef"[value >> (28 - 4*i) & 15];
    put(digits, sizeof(digits));
}

void console_print(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    while (*format) {
        const char *end = format;
        while (*end && *end != '%')
            end++;
        put(format, (size_t)(end - format));
        if (*end == 0)
            break;
        if (end[1] == 's') {
            const char *text = va_arg(arguments, const char *);
            put(text, strlen(text));
        } else if (end[1] == 'u') {
            put_decimal(va_arg(arguments, unsigned));
        } else if (end[1] == 'd') {
            int value = va_arg(arguments, int);
            if (value < 0)
                put("-", 1);
            put_decimal(value < 0 ? 0u - (uint32_t)value : (uint32_t)value);
        } else if (end[1] == 'x') {
            put_hexadecimal(va_arg(arguments, unsigned));
        } else if (end[1] == 'c') {
            char character = (char)va_arg(arguments, int);
            put(&character, 1);
        }
        format = end[1] ? end + 2 : end + 1;
    }
    va_end(arguments);
}

void console_flush(void)
{
    uart_flush();
}
