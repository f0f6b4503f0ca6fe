//
// This file is part of LiteTern.
//
// Copyright (c) 2026 LiteTern developers
// SPDX-License-Identifier: BSD-2-Clause

// The Verilated PL between the CPU's GP0 accesses and the memory model. C ABI for soc/virtual/pl/verilated.py.

#include <vector>

#include "Vtop.h"
#include "verilated.h"

#include "memory.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

static const uint64_t GP0_TIMEOUT = 10000;  // Cycles.
static const uint32_t READ_ID = 0xA5, WRITE_ID = 0x5A;

#define PINS(n) Pins{ \
    top.hp##n##_ar_valid, top.hp##n##_ar_ready, top.hp##n##_ar_addr, top.hp##n##_ar_len, top.hp##n##_ar_size, \
    top.hp##n##_ar_burst, top.hp##n##_ar_lock, top.hp##n##_ar_id, \
    top.hp##n##_r_valid, top.hp##n##_r_ready, top.hp##n##_r_last, top.hp##n##_r_resp, top.hp##n##_r_id, top.hp##n##_r_data, \
    top.hp##n##_aw_valid, top.hp##n##_aw_ready, top.hp##n##_aw_addr, top.hp##n##_aw_len, top.hp##n##_aw_size, \
    top.hp##n##_aw_burst, top.hp##n##_aw_lock, top.hp##n##_aw_id, \
    top.hp##n##_w_valid, top.hp##n##_w_ready, top.hp##n##_w_last, top.hp##n##_w_strb, top.hp##n##_w_id, top.hp##n##_w_data, \
    top.hp##n##_b_valid, top.hp##n##_b_ready, top.hp##n##_b_resp, top.hp##n##_b_id}

// PL ----------------------------------------------------------------------------------------------

struct PL {
    VerilatedContext  context;
    Vtop              top{&context};
    Memory            memory;
    std::vector<Port> ports;
    unsigned          turn = 0, ocm_turn = 0;  // Whose beat comes next: reads and writes of each port.
    Stable            gp0_r, gp0_b;

    PL(uint8_t *data, uint64_t size, uint64_t base, const Parameters &parameters) {
        memory.data            = data;
        memory.size            = size;
        memory.base            = base;
        memory.parameters      = parameters;
        memory.random.state    = parameters.seed*2 + 1;
        ports.reserve(PORTS);
        ports.emplace_back(0, memory, PINS(0));
#if PORTS > 1
        ports.emplace_back(1, memory, PINS(1));
#endif
#if PORTS > 2
        ports.emplace_back(2, memory, PINS(2));
#endif
#if PORTS > 3
        ports.emplace_back(3, memory, PINS(3));
#endif
        top.sys_rst = 1;
        for (int i = 0; i < 4; i++)
            edge();
        top.sys_rst = 0;
    }

    ~PL() { top.final(); }

    void edge() {
        top.sys_clk = 0;
        top.eval();
        top.sys_clk = 1;
        top.eval();
    }

    // Handshakes of GP0 in one cycle.
    struct Access {
        bool     ar, r, aw, w, b;
        uint32_t data, resp, id;
    };

    // One clock cycle: inputs settle, everybody looks, the clock rises.
    void cycle(Access *access = nullptr) {
        for (Port &port : ports)
            port.drive();
        top.sys_clk = 0;
        top.eval();
        for (Port &port : ports)
            port.sample();
        if (access)
            sample(*access);
        move();
        top.sys_clk = 1;
        top.eval();
        memory.counters.cycles++;
        memory.counters.clocked++;
    }

    void sample(Access &access) {
        if (!gp0_r.check(top.gp0_r_valid, top.gp0_r_ready, top.gp0_r_data, top.gp0_r_id))
            memory.fail(-1, "GP0 R", "valid or payload changed before ready", 0);
        if (!gp0_b.check(top.gp0_b_valid, top.gp0_b_ready, top.gp0_b_resp, top.gp0_b_id))
            memory.fail(-1, "GP0 B", "valid or payload changed before ready", 0);
        access = {
            top.gp0_ar_valid && top.gp0_ar_ready, top.gp0_r_valid && top.gp0_r_ready,
            top.gp0_aw_valid && top.gp0_aw_ready, top.gp0_w_valid && top.gp0_w_ready, top.gp0_b_valid && top.gp0_b_ready,
            top.gp0_r_data, 0, 0};
        if (access.r) {
            access.resp = top.gp0_r_resp;
            access.id   = top.gp0_r_id;
            if (!top.gp0_r_last)
                memory.fail(-1, "GP0 R", "last is missing", 0);
        }
        if (access.b) {
            access.resp = top.gp0_b_resp;
            access.id   = top.gp0_b_id;
        }
    }

    // Gives turns to reads and writes of each port until one has a beat for this memory.
    bool move_beat(Target target, unsigned &turn) {
        for (unsigned tried = 0; tried < 2*PORTS; tried++) {
            unsigned who = (turn + tried) % (2*PORTS);
            Port &port = ports[who/2];
            if ((who % 2 ? port.next_write() : port.next_read()) != target)
                continue;
            if (who % 2)
                port.write_beat();
            else
                port.read_beat();
            turn = who + 1;
            return true;
        }
        return false;
    }

    // What memories move in a cycle. Unused time is lost, but for the fraction of a beat.
    void move() {
        double rate = memory.parameters.bytes_per_cycle;
        memory.credit = memory.credit + rate > rate + 8 ? rate + 8 : memory.credit + rate;
        while (memory.credit >= 8 && move_beat(DDR, turn))
            memory.credit -= 8;
        if (memory.ocm)
            move_beat(OCM, ocm_turn);
    }

    bool idle() {
        if (!top.idle)
            return false;
        for (Port &port : ports)
            if (!port.idle())
                return false;
        return true;
    }

    uint32_t read(uint32_t address) {
        top.gp0_ar_valid = 1;
        top.gp0_ar_addr  = address;
        top.gp0_ar_len   = 0;
        top.gp0_ar_size  = 2;
        top.gp0_ar_burst = 1;
        top.gp0_ar_id    = READ_ID;
        top.gp0_r_ready  = 1;
        Access access = {};
        for (uint64_t i = 0; i < GP0_TIMEOUT && !access.r; i++) {
            cycle(&access);
            if (access.ar)
                top.gp0_ar_valid = 0;
        }
        finish("read", address, access.r, access.resp, access.id == READ_ID);
        return access.data;
    }

    void write(uint32_t address, uint32_t value) {
        top.gp0_aw_valid = 1;
        top.gp0_aw_addr  = address;
        top.gp0_aw_len   = 0;
        top.gp0_aw_size  = 2;
        top.gp0_aw_burst = 1;
        top.gp0_aw_id    = WRITE_ID;
        top.gp0_w_valid  = 1;
        top.gp0_w_data   = value;
        top.gp0_w_strb   = 15;
        top.gp0_w_last   = 1;
        top.gp0_w_id     = WRITE_ID;
        top.gp0_b_ready  = 1;
        Access access = {};
        for (uint64_t i = 0; i < GP0_TIMEOUT && !access.b; i++) {
            cycle(&access);
            if (access.aw)
                top.gp0_aw_valid = 0;
            if (access.w)
                top.gp0_w_valid = 0;
        }
        finish("write", address, access.b, access.resp, access.id == WRITE_ID);
    }

    void finish(const char *what, uint32_t address, bool answered, uint32_t resp, bool id) {
        top.gp0_ar_valid = top.gp0_aw_valid = top.gp0_w_valid = 0;
        if (!answered)
            memory.fail(-1, what, "GP0 did not answer", address);
        else if (resp || !id)
            memory.fail(-1, what, "GP0 answered with an error or another ID", address);
    }

    // Runs until idle, until an interrupt or for so many cycles; returns the time that has passed. Idle time is not clocked.
    uint64_t run(uint64_t cycles, bool until_idle, bool until_irq) {
        uint64_t passed = 0;
        while (passed < cycles && memory.fault.empty()) {
            if (until_irq && top.irqs)
                break;
            if (idle()) {
                if (!until_idle) {
                    memory.counters.cycles += cycles - passed;
                    passed = cycles;
                }
                break;
            }
            cycle();
            passed++;
        }
        return passed;
    }
};

// C ABI -------------------------------------------------------------------------------------------

EXPORT PL *pl_open(uint8_t *data, uint64_t size, uint64_t base, uint8_t *ocm, const Parameters *parameters) {
    PL *pl = new PL(data, size, base, *parameters);
    pl->memory.ocm = ocm;
    return pl;
}

EXPORT void pl_close(PL *pl) { delete pl; }

EXPORT uint32_t pl_read(PL *pl, uint32_t address) { return pl->read(address); }

EXPORT void pl_write(PL *pl, uint32_t address, uint32_t value) { pl->write(address, value); }

EXPORT uint64_t pl_run(PL *pl, uint64_t cycles, int until_idle, int until_irq) { return pl->run(cycles, until_idle, until_irq); }

EXPORT uint32_t pl_irqs(PL *pl) { return pl->top.irqs; }

EXPORT int pl_idle(PL *pl) { return pl->idle(); }

EXPORT const Counters *pl_counters(PL *pl) { return &pl->memory.counters; }

EXPORT Parameters *pl_parameters(PL *pl) { return &pl->memory.parameters; }

EXPORT const char *pl_fault(PL *pl) { return pl->memory.fault.c_str(); }

EXPORT void pl_set_hook(PL *pl, Hook hook) { pl->memory.hook = hook; }

// Bytes that the CPU's cache misses have moved: the ports wait for them.
EXPORT void pl_cpu_traffic(PL *pl, uint64_t bytes) { pl->memory.credit -= bytes; }

// Makes [first, last) answer with errors, and ports (bit mask) fall silent.
EXPORT void pl_inject(PL *pl, uint32_t read_first, uint32_t read_last, uint32_t write_first, uint32_t write_last, uint32_t silent) {
    pl->memory.bad_read[0]  = read_first;
    pl->memory.bad_read[1]  = read_last;
    pl->memory.bad_write[0] = write_first;
    pl->memory.bad_write[1] = write_last;
    pl->memory.silent       = silent;
}
