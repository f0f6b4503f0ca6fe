/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* UART0 of the processing system (Cadence), polled. 64 bytes of FIFO each way. */

#ifndef UART_H
#define UART_H

#include <stddef.h>
#include <stdint.h>

#define UART_BAUD 115200u

void uart_init(void);

/* Takes up to `bytes` received bytes; returns how many there were. */
size_t uart_read(uint8_t *data, size_t bytes);

/* Gives what the FIFO takes now; returns how many bytes that was. */
size_t uart_write(const uint8_t *data, size_t bytes);

/* Waits until all has left. */
void uart_flush(void);

/* Overruns, framing and parity errors so far. */
uint32_t uart_errors(void);

#endif
