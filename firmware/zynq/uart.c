/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#include "drivers/timer.h"
#include "drivers/uart.h"
#include "zynq.h"

#define UART_CONTROL      REGISTER(UART0_BASE + 0x00)
#define UART_MODE         REGISTER(UART0_BASE + 0x04)
#define UART_INT_DISABLE  REGISTER(UART0_BASE + 0x0C)
#define UART_INT_STATUS   REGISTER(UART0_BASE + 0x14)
#define UART_BAUD_GEN     REGISTER(UART0_BASE + 0x18)
#define UART_RX_TIMEOUT   REGISTER(UART0_BASE + 0x1C)
#define UART_STATUS       REGISTER(UART0_BASE + 0x2C)
#define UART_FIFO         REGISTER(UART0_BASE + 0x30)
#define UART_BAUD_DIVIDER REGISTER(UART0_BASE + 0x34)

#define CONTROL_RESET     0x03u  /* Both FIFOs. */
#define CONTROL_ENABLE    0x14u
#define MODE_8N1          0x20u
#define INT_ERRORS        0xE0u  /* Parity, framing, overrun. */
#define STATUS_RX_EMPTY   0x02u
#define STATUS_TX_EMPTY   0x08u
#define STATUS_TX_FULL    0x10u
#define STATUS_TX_ACTIVE  0x800u
#define FIFO_BYTES        64u
#define RESET_WAIT_US     10000u
#define FLUSH_WAIT_US     100000u

/* Where the UART's clock comes from. */
#define SLCR_IO_PLL       REGISTER(SLCR_BASE + 0x108)
#define SLCR_UART_CLOCK   REGISTER(SLCR_BASE + 0x154)

static uint32_t errors;

/* Reference clock in Hz, as the boot loader has set it (the IO PLL feeds it). */
static uint32_t reference_clock(void)
{
    uint32_t divisor = SLCR_UART_CLOCK >> 8 & 0x3F;

    return PS_CLOCK_HZ*(SLCR_IO_PLL >> 12 & 0x7F)/(divisor ? divisor : 1);
}

void uart_init(void)
{
    uint32_t start = timer_us(), clock = reference_clock(), best = 0, best_error = UINT32_MAX;

    UART_CONTROL     = CONTROL_RESET;
    while ((UART_CONTROL & CONTROL_RESET) && timer_us() - start < RESET_WAIT_US)
        ;
    UART_INT_DISABLE = 0xFFFFFFFF;
    UART_MODE        = MODE_8N1;
    /* Baud rate = clock/(generator*(divider + 1)). */
    for (uint32_t divider = 4; divider < 16; divider++) {
        uint32_t step = UART_BAUD*(divider + 1), generator = (clock + step/2)/step;
        uint32_t rate = generator ? clock/(generator*(divider + 1)) : 0;
        uint32_t error = rate > UART_BAUD ? rate - UART_BAUD : UART_BAUD - rate;
        if (error < best_error) {
            best_error = error;
            best       = generator << 8 | divider;
        }
    }
    UART_BAUD_GEN     = best >> 8;
    UART_BAUD_DIVIDER = best & 0xFF;
    UART_RX_TIMEOUT   = 0;
    UART_INT_STATUS   = 0xFFFFFFFF;
    UART_CONTROL      = CONTROL_ENABLE;
}

size_t uart_read(uint8_t *data, size_t bytes)
{
    size_t count = 0;

    while (count < bytes && !(UART_STATUS & STATUS_RX_EMPTY))
        data[count++] = (uint8_t)UART_FIFO;
    if (count) {
        uint32_t status = UART_INT_STATUS & INT_ERRORS;
        if (status) {
            UART_INT_STATUS = status;
            errors++;
        }
    }
    return count;
}

size_t uart_write(const uint8_t *data, size_t bytes)
{
    size_t count = 0;

    if (bytes == 0)
        return 0;
    if (UART_STATUS & STATUS_TX_EMPTY) {
        for (; count < bytes && count < FIFO_BYTES; count++)
            UART_FIFO = data[count];
        return count;
    }
    while (count < bytes && !(UART_STATUS & STATUS_TX_FULL))
        UART_FIFO = data[count++];
    return count;
}

void uart_flush(void)
{
    uint32_t start = timer_us();

    while ((UART_STATUS & (STATUS_TX_EMPTY | STATUS_TX_ACTIVE)) != STATUS_TX_EMPTY && timer_us() - start < FLUSH_WAIT_US)
        ;
}

uint32_t uart_errors(void)
{
    return errors;
}
