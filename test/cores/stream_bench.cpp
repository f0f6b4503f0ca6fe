//
// This file is part of LiteTern.
//
// Copyright (c) 2026 LiteTern developers
// SPDX-License-Identifier: BSD-2-Clause

// Drives one core with a 64-bit sink and source (test/cores/stream_bench.py holds the Python side): random gaps before
// the beats offered, random stalls of the source, and the checks that every stream must pass.

#include <cstdint>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

// Mirrors the ctypes structure of the same name.
struct Stats {
    uint64_t cycles;         // First beat offered to idle again.
    uint64_t accepted;       // Beats that the sink took.
    uint64_t accept_cycles;  // First to last beat taken, both included: equals `accepted` where nothing stalled.
    uint64_t stalls;         // Cycles with valid & !ready at the sink.
    uint64_t late;           // Results or errors that came after the core had said idle.
    uint64_t unstable;       // Source words that changed, or went away, while they waited.
    uint64_t errors[16];     // Pulses per error bit.
};

static const int SETTLE = 64;  // Cycles after idle in which nothing more may come.

struct Bench {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vtop> top{new Vtop{context.get()}};
    std::vector<uint64_t> data;
    std::vector<uint8_t> last;
    uint64_t state = 1;
    uint64_t time  = 0;
#if VM_TRACE
    VerilatedVcdC vcd;
#endif

    uint32_t random() {  // splitmix64
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30))*0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27))*0x94d049bb133111ebu;
        return uint32_t(z >> 32);
    }
    bool chance(double probability) { return probability > 0 && random() < probability*4294967296.0; }
    void edge(int clk) {
        top->sys_clk = clk;
        top->eval();
#if VM_TRACE
        vcd.dump(time);
#endif
        time += 4;
    }
    void cycle() { edge(1); edge(0); }
    void reset() {
        top->sink_valid = top->sink_last = top->source_ready = 0;
        top->sink_data = 0;
        top->sys_rst = 1;
        for (int i = 0; i < 4; i++) cycle();
        top->sys_rst = 0;
        edge(0);
    }
};

EXPORT Bench *bench_open(const char *vcd) {
    Bench *bench = new Bench;
#if VM_TRACE
    bench->context->traceEverOn(true);
    bench->top->trace(&bench->vcd, 99);
    bench->vcd.open(vcd);
#else
    (void)vcd;
#endif
    bench->reset();
    return bench;
}

EXPORT void bench_close(Bench *bench) {
#if VM_TRACE
    bench->vcd.close();
#endif
    delete bench;
}

EXPORT void bench_reset(Bench *bench) { bench->reset(); }

// Streams `count` beats and waits for idle. Returns 0, or 1 where max_cycles passed first.
EXPORT int bench_run(Bench *bench, const uint64_t *beats, const uint8_t *lasts, uint64_t count, double gap, double stall,
                     uint64_t seed, uint64_t max_cycles, Stats *stats) {
    Vtop &top = *bench->top;
    *stats = Stats{};
    bench->data.clear();
    bench->last.clear();
    bench->state = seed;
    uint64_t sent = 0, first_accept = 0, settled = 0, held_data = 0;
    uint8_t held_last = 0;
    bool offering = false, held = false;
    for (uint64_t cycle = 0; settled < SETTLE; cycle++) {
        if (cycle >= max_cycles) return 1;
        if (!offering && sent < count && !bench->chance(gap)) offering = true;  // Valid never falls before ready.
        top.sink_valid   = offering;
        top.sink_data    = offering ? beats[sent] : 0xdeaddeaddeaddeadu;
        top.sink_last    = offering ? lasts[sent] : 0;
        top.source_ready = !bench->chance(stall);
        top.eval();

        if (held && (!top.source_valid || top.source_data != held_data || top.source_last != held_last)) stats->unstable++;
        held      = top.source_valid && !top.source_ready;
        held_data = top.source_data;
        held_last = top.source_last;
        const bool idle = sent == count && top.idle && !top.source_valid;
        for (int bit = 0; bit < 16; bit++)
            if ((uint32_t(top.error) >> bit) & 1) {
                stats->errors[bit]++;
                if (settled) stats->late++;
            }
        if (settled && !idle) stats->late++;
        if (idle || settled) settled++;
        else stats->cycles = cycle + 1;
        if (top.source_valid && top.source_ready) {
            bench->data.push_back(top.source_data);
            bench->last.push_back(top.source_last);
        }
        if (offering && top.sink_ready) {
            if (!sent) first_accept = cycle;
            stats->accept_cycles = cycle - first_accept + 1;
            sent++;
            offering = false;
        } else if (offering) {
            stats->stalls++;
        }
        bench->cycle();
    }
    stats->accepted = sent;
    return 0;
}

EXPORT uint64_t bench_count(Bench *bench) { return bench->data.size(); }
EXPORT const uint64_t *bench_data(Bench *bench) { return bench->data.data(); }
EXPORT const uint8_t *bench_last(Bench *bench) { return bench->last.data(); }
