/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/* Start code for a RISC-V CPU in a LiteX SoC: whoever loaded the firmware jumps to its first byte; the reset may, too. */

    .section .text.start, "ax"
    .globl _start
_start:
    csrw mie, zero
    csrci mstatus, 8                    /* No interrupts: everything is polled. */
    la   sp, _stack
    la   t0, trap
    csrw mtvec, t0
    la   t0, _bss_start
    la   t1, _bss_end
1:  bgeu t0, t1, 2f
    sw   zero, 0(t0)
    addi t0, t0, 4
    j    1b
2:  call main

    .globl fault_stop
fault_stop:
    j    fault_stop

    .balign 4
trap:
    la   sp, _stack                     /* What was there is lost: nothing goes on from here. */
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call fault
