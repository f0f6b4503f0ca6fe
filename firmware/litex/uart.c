/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* LiteX's UART, polled. */

#define CONFIG_CPU_NOP "nop"       /* The registers' header asks for it. */
#include <generated/csr.h>

#include "drivers/bus.h"
#include "drivers/timer.h"
#include "drivers/uart.h"

#define EVENT_RX      2u
#define FLUSH_WAIT_US 100000u

void uart_init(void)
{
    REGISTER(CSR_UART_EV_ENABLE_ADDR)  = 0;
    REGISTER(CSR_UART_EV_PENDING_ADDR) = REGISTER(CSR_UART_EV_PENDING_ADDR);
}

/* Clearing its event takes a byte out of the FIFO. */
size_t uart_read(uint8_t *data, size_t bytes)
{
    size_t count = 0;

    while (count < bytes && !REGISTER(CSR_UART_RXEMPTY_ADDR)) {
        data[count++] = (uint8_t)REGISTER(CSR_UART_RXTX_ADDR);
        REGISTER(CSR_UART_EV_PENDING_ADDR) = EVENT_RX;
    }
    return count;
}

size_t uart_write(const uint8_t *data, size_t bytes)
{
    size_t count = 0;

    while (count < bytes && !REGISTER(CSR_UART_TXFULL_ADDR))
        REGISTER(CSR_UART_RXTX_ADDR) = data[count++];
    return count;
}

void uart_flush(void)
{
    uint32_t start = timer_us();

    while (!REGISTER(CSR_UART_TXEMPTY_ADDR) && timer_us() - start < FLUSH_WAIT_US)
        ;
}

/* LiteX's UART reports none. */
uint32_t uart_errors(void)
{
    return 0;
}
