/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Text for people on the UART, before and between the link's frames. */

#ifndef CONSOLE_H
#define CONSOLE_H

/* printf with %s, %u, %d, %x (8 digits), %c; waits for the UART. */
void console_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Waits until all has left. */
void console_flush(void);

#endif
