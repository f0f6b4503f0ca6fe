/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

#ifndef MMU_H
#define MMU_H

/* Maps the board in sections of 1 MB and turns MMU, caches and branch prediction on. Called once, by start.S. */
void mmu_enable(void);

#endif
