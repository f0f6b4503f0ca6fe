/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* The accelerator's registers, on every SoC that has it: who it is, and the lanes that run descriptor lists. */

#ifndef ACCELERATOR_H
#define ACCELERATOR_H

#include <stdint.h>

#include "engine.h"

/* 1 if the accelerator is ours and of a version that this firmware drives; its version register to *version. */
int accelerator_identify(uint32_t *version);

/* The resolution of its attention core; all 0 without. */
struct softmax accelerator_softmax(void);

/* Fills the engine's view; *errors counts the lists that fail. */
void accelerator_engine(struct engine_pl *engine_pl, uint32_t *errors);

#endif
