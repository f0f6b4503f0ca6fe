/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Peripherals of the Zynq-7000 that the firmware touches (Xilinx UG585, appendix B). */

#ifndef ZYNQ_H
#define ZYNQ_H

#include "drivers/bus.h"

#define UART0_BASE        0xE0000000u
#define SLCR_BASE         0xF8000000u
#define DEVC_BASE         0xF8007000u
#define MPCORE_BASE       0xF8F00000u
#define PL310_BASE        0xF8F02000u
#define PL_BASE           0x40000000u

#define PS_CLOCK_HZ       50000000u   /* Crystal of the PYNQ-Z1. */
#define TIMER_CLOCK_HZ    325000000u  /* Half the CPU's clock. */

#endif
