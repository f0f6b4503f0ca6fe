/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Start code of core 0. It assumes nothing: a boot loader's `go` leaves MMU, caches, vectors and alignment checks as they were.
 * The other core stays where the boot ROM parked it.
 */

    .syntax unified
    .arm

    .equ MODE_SVC,       0xD3           /* With interrupts and fast interrupts masked. */
    .equ MODE_ABT,       0xD7
    .equ MODE_UND,       0xDB
    .equ MODE_IRQ,       0xD2
    .equ MODE_FIQ,       0xD1
    .equ SCTLR_M,        1 << 0         /* MMU. */
    .equ SCTLR_A,        1 << 1         /* Alignment checks. */
    .equ SCTLR_C,        1 << 2         /* Data cache. */
    .equ SCTLR_Z,        1 << 11        /* Branch prediction. */
    .equ SCTLR_I,        1 << 12        /* Instruction cache. */
    .equ SCTLR_V,        1 << 13        /* High vectors. */
    .equ ACTLR_SMP_FW,   1 << 6 | 1     /* Takes part in coherency, broadcasts maintenance. */
    .equ FPEXC_EN,       1 << 30

    .equ SCU,            0xF8F00000
    .equ SCU_INVALIDATE, 0x0C
    .equ WATCHDOG,       0xF8F00600     /* The private one of this core. */
    .equ PL310,          0xF8F02000
    .equ PL310_CONTROL,  0x100
    .equ PL310_SYNC,     0x730
    .equ PL310_FLUSH,    0x7FC          /* Clean and invalidate by way. */
    .equ SYSTEM_WATCHDOG, 0xF8005000
    .equ SYSTEM_WATCHDOG_OFF, 0x00ABC000

    .section .text.start, "ax"
    .global _start
_start:
    cpsid   aif, #0x13                  /* SVC. */

    /* Leave the loader's world: caches off first for new lines, then written back, then MMU off. */
    mrc     p15, 0, r0, c1, c0, 0
    bic     r0, r0, #SCTLR_C
    mcr     p15, 0, r0, c1, c0, 0
    isb
    mov     r10, #0                     /* Clean and invalidate: what the loader wrote must survive. */
    bl      l1_all
    ldr     r1, =PL310
    ldr     r0, [r1, #PL310_CONTROL]
    tst     r0, #1
    beq     1f
    ldr     r0, =0xFFFF
    str     r0, [r1, #PL310_FLUSH]
0:  ldr     r2, [r1, #PL310_FLUSH]
    tst     r2, r0
    bne     0b
    mov     r0, #0
    str     r0, [r1, #PL310_SYNC]
    str     r0, [r1, #PL310_CONTROL]
1:  dsb
    mrc     p15, 0, r0, c1, c0, 0
    bic     r0, r0, #(SCTLR_M | SCTLR_A)
    bic     r0, r0, #(SCTLR_Z | SCTLR_I | SCTLR_V)
    bic     r0, r0, #(1 << 25)          /* Exceptions in little endian, */
    bic     r0, r0, #(1 << 30)          /* in ARM state, */
    bic     r0, r0, #(3 << 28)          /* no TEX remap, no access flag. */
    mcr     p15, 0, r0, c1, c0, 0
    isb
    setend  le

    /* Nothing stale: TLB, branch predictor, instruction cache, data cache. */
    mov     r0, #0
    mcr     p15, 0, r0, c8, c7, 0
    mcr     p15, 0, r0, c7, c5, 6
    mcr     p15, 0, r0, c7, c5, 0
    mov     r10, #1
    bl      l1_all
    dsb
    isb

    /* Watchdogs. */
    ldr     r1, =WATCHDOG
    ldr     r0, =0x12345678
    str     r0, [r1, #0x34]
    ldr     r0, =0x87654321
    str     r0, [r1, #0x34]
    mov     r0, #0
    str     r0, [r1, #0x28]
    ldr     r1, =SYSTEM_WATCHDOG
    ldr     r0, =SYSTEM_WATCHDOG_OFF
    str     r0, [r1]

    /* Coherency. */
    ldr     r1, =SCU
    ldr     r0, =0xFFFF
    str     r0, [r1, #SCU_INVALIDATE]
    ldr     r0, [r1]
    orr     r0, r0, #1
    str     r0, [r1]
    mrc     p15, 0, r0, c1, c0, 1
    orr     r0, r0, #(ACTLR_SMP_FW)
    mcr     p15, 0, r0, c1, c0, 1

    /* NEON and VFP; round to nearest, no traps, no flush to zero in VFP, no default NaN. */
    mrc     p15, 0, r0, c1, c0, 2
    orr     r0, r0, #(0xF << 20)
    mcr     p15, 0, r0, c1, c0, 2
    isb
    mov     r0, #FPEXC_EN
    .fpu    neon
    vmsr    fpexc, r0
    mov     r0, #0
    vmsr    fpscr, r0

    /* Vectors and stacks; a fault in any mode runs on the fault stack. */
    ldr     r0, =vectors
    mcr     p15, 0, r0, c12, c0, 0
    isb
    ldr     r0, =_fault_stack
    msr     cpsr_c, #MODE_ABT
    mov     sp, r0
    msr     cpsr_c, #MODE_UND
    mov     sp, r0
    msr     cpsr_c, #MODE_IRQ
    mov     sp, r0
    msr     cpsr_c, #MODE_FIQ
    mov     sp, r0
    msr     cpsr_c, #MODE_SVC
    ldr     sp, =_stack
    cpsie   a                           /* What a bus answers late shall be heard. */

    ldr     r0, =_bss_start
    ldr     r1, =_bss_end
    mov     r2, #0
    mov     r3, #0
2:  cmp     r0, r1
    strdlo  r2, r3, [r0], #8
    blo     2b

    bl      mmu_enable
    bl      main
    b       fault_stop

/* All of the L1 data cache by set and way (32 KB: 4 ways, 256 sets of 32 bytes). r10: 0 cleans and invalidates, 1 invalidates. */
l1_all:
    mov     r0, #0                      /* Way. */
3:  mov     r1, #0                      /* Set. */
4:  orr     r2, r0, r1
    cmp     r10, #0
    mcreq   p15, 0, r2, c7, c14, 2
    mcrne   p15, 0, r2, c7, c6, 2
    add     r1, r1, #(1 << 5)
    cmp     r1, #(256 << 5)
    blo     4b
    adds    r0, r0, #(1 << 30)
    bcc     3b
    dsb
    bx      lr

/* Vectors ---------------------------------------------------------------------------------------*/

    .balign 32
vectors:
    b       _start
    b       undefined
    b       supervisor
    b       prefetch_abort
    b       data_abort
    b       unexpected
    b       interrupt
    b       fast_interrupt

    /* fault(kind, pc, cpsr before): pc is corrected to the instruction at fault. */
    .macro  report kind, offset
    sub     r1, lr, #\offset
    mrs     r2, spsr
    mov     r0, #\kind
    b       fault
    .endm

undefined:      report 0, 4
supervisor:     report 1, 4
prefetch_abort: report 2, 4
data_abort:     report 3, 8
unexpected:     report 4, 0
interrupt:      report 5, 4
fast_interrupt: report 6, 4

/* The end: nothing more comes from here. */
    .global fault_stop
fault_stop:
    cpsid   aif
5:  wfi
    b       5b

    .ltorg
