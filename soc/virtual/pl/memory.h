//
// This file is part of LiteTern.
//
// Copyright (c) 2026 LiteTern developers
// SPDX-License-Identifier: BSD-2-Clause

// The memory behind the HP ports, cycle by cycle: one DDR whose bandwidth everybody shares, the on-chip memory, which moves a
// beat a cycle beside it, and per port the FIFOs of the processing system, which also check that their master keeps the rules of AXI3.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

// Parameters --------------------------------------------------------------------------------------

// Mirrors soc/virtual/pl/verilated.py; every member is 8 bytes.
struct Parameters {
    double   bytes_per_cycle;  // What the DDR moves in a PL cycle, all ports and directions together.
    uint64_t read_latency;     // Cycles from an accepted address to its first beat.
    uint64_t write_latency;    // Cycles from the last beat in the DDR to the answer.
    uint64_t fifo_beats;       // Per port and direction.
    uint64_t outstanding;      // Bursts per port and direction.
    uint64_t seed;
    double   stall_ar, stall_r, stall_aw, stall_w, stall_b;  // Probabilities of a withheld ready or valid.
};

struct Counters {
    uint64_t cycles;           // Time: clocked and skipped.
    uint64_t clocked;
    uint64_t read_beats[4];    // On the R channel.
    uint64_t write_beats[4];   // On the W channel.
};

// Called once per burst: before it is read from memory, after it has been written there.
typedef void (*Hook)(int write, uint32_t address, uint32_t bytes);

// Random ------------------------------------------------------------------------------------------

struct Random {
    uint64_t state = 1;
    bool chance(double probability) {
        if (probability <= 0)
            return false;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state >> 11)*0x1p-53 < probability;
    }
};

// Memory ------------------------------------------------------------------------------------------

// OCM_BASE comes from soc/zynq/memory_map.py, as a macro of the build.

enum Target { NOTHING, DDR, OCM };

struct Memory {
    uint8_t    *data;           // DDR.
    uint64_t    size, base;
    uint8_t    *ocm = nullptr;  // On-chip memory, where there is one.
    Parameters  parameters;
    Counters    counters = {};
    Random      random;
    Hook        hook = nullptr;
    std::string fault;          // The first broken rule.
    double      credit = 0;     // Bytes that the DDR could have moved and may still move.
    // Answered with SLVERR: [first, last) of reads and of writes.
    uint32_t    bad_read[2] = {0, 0}, bad_write[2] = {0, 0};
    uint32_t    silent = 0;     // Bit per port: no answers, nothing accepted.

    // On-chip addresses are known by themselves: a burst never leaves its 4 KB.
    Target target(uint32_t address) const {
        return ocm && address >= OCM_BASE ? OCM : DDR;
    }

    // Where an access lands; nullptr where there is no memory.
    uint8_t *at(uint32_t address, uint32_t bytes) const {
        if (target(address) == OCM)
            return ocm + (address - OCM_BASE);
        return address >= base && address - base + bytes <= size ? data + (address - base) : nullptr;
    }

    void fail(int port, const char *channel, const char *rule, uint32_t address) {
        if (!fault.empty())
            return;
        char text[200];
        snprintf(text, sizeof(text), "cycle %llu, port %d, %s: %s (address 0x%08x)", (unsigned long long)counters.cycles, port,
            channel, rule, address);
        fault = text;
    }
};

// Channel check -----------------------------------------------------------------------------------

// A valid that waits for its ready stays, and so does what it carries.
struct Stable {
    bool     waiting = false;
    uint64_t a = 0, b = 0;

    bool check(bool valid, bool ready, uint64_t new_a, uint64_t new_b) {
        bool good = !waiting || (valid && a == new_a && b == new_b);
        waiting = valid && !ready;
        a       = new_a;
        b       = new_b;
        return good;
    }
};

// Port --------------------------------------------------------------------------------------------

// References to the pins of one HP port of the Verilated design.
struct Pins {
    uint8_t  &ar_valid, &ar_ready; uint32_t &ar_addr; uint8_t &ar_len, &ar_size, &ar_burst, &ar_lock, &ar_id;
    uint8_t  &r_valid, &r_ready, &r_last, &r_resp, &r_id; uint64_t &r_data;
    uint8_t  &aw_valid, &aw_ready; uint32_t &aw_addr; uint8_t &aw_len, &aw_size, &aw_burst, &aw_lock, &aw_id;
    uint8_t  &w_valid, &w_ready, &w_last, &w_strb, &w_id; uint64_t &w_data;
    uint8_t  &b_valid, &b_ready, &b_resp, &b_id;
};

struct Burst {
    uint32_t address;
    uint8_t  beats, id, resp;
    uint8_t  moved;             // Beats between memory and FIFO.
    uint8_t  arrived;           // Beats that the master has sent (writes).
    uint64_t due;               // Cycle of the first beat (reads) or of the answer (writes).
};

class Port {
public:
    Port(int index, Memory &memory, Pins pins) : index(index), memory(memory), pins(pins) {}

    // Nothing waits or moves.
    bool idle() const {
        return reads.empty() && read_count == 0 && writes.empty() && !pins.ar_valid && !pins.aw_valid && !pins.w_valid;
    }

    // Sets what the port drives in the coming cycle.
    void drive() {
        Parameters &p = memory.parameters;
        Random &random = memory.random;
        bool silent = memory.silent >> index & 1;
        pins.ar_ready = !silent && read_bursts < p.outstanding && !random.chance(p.stall_ar);
        pins.aw_ready = !silent && writes.size() < p.outstanding && !random.chance(p.stall_aw);
        pins.w_ready  = !silent && expecting() && write_count < p.fifo_beats && !random.chance(p.stall_w);
        if (!(pins.r_valid && !r_taken)) {
            pins.r_valid = !silent && read_count && !random.chance(p.stall_r);
            if (pins.r_valid) {
                const Beat &beat = read_fifo[read_first];
                pins.r_data = beat.data;
                pins.r_last = beat.last;
                pins.r_resp = beat.extra;
                pins.r_id   = beat.id;
            }
        }
        if (!(pins.b_valid && !b_taken)) {
            const Burst *burst = writes.empty() ? nullptr : &writes.front();
            bool ready   = burst && burst->moved == burst->beats && burst->due <= memory.counters.cycles;
            pins.b_valid = !silent && ready && !random.chance(p.stall_b);
            if (pins.b_valid) {
                pins.b_resp = burst->resp;
                pins.b_id   = burst->id;
            }
        }
    }

    // Looks at all settled signals just before the clock edge.
    void sample() {
        Counters &counters = memory.counters;
        if (!ar.check(pins.ar_valid, pins.ar_ready, pins.ar_addr, pack(pins.ar_len, pins.ar_size, pins.ar_burst, pins.ar_id)))
            memory.fail(index, "AR", "valid or payload changed before ready", pins.ar_addr);
        if (!aw.check(pins.aw_valid, pins.aw_ready, pins.aw_addr, pack(pins.aw_len, pins.aw_size, pins.aw_burst, pins.aw_id)))
            memory.fail(index, "AW", "valid or payload changed before ready", pins.aw_addr);
        if (!w.check(pins.w_valid, pins.w_ready, pins.w_data, pack(pins.w_last, pins.w_strb, 0, pins.w_id)))
            memory.fail(index, "W", "valid or payload changed before ready", 0);

        if (pins.ar_valid) {
            check_address("AR", pins.ar_addr, pins.ar_len, pins.ar_size, pins.ar_burst, pins.ar_lock);
            if (pins.ar_ready) {
                uint8_t beats = pins.ar_len + 1;
                reads.push_back({pins.ar_addr, beats, pins.ar_id, response(pins.ar_addr, beats, memory.bad_read), 0, 0,
                    counters.cycles + memory.parameters.read_latency - 1});
                read_bursts++;
            }
        }
        r_taken = pins.r_valid && pins.r_ready;
        if (r_taken) {
            read_bursts -= pins.r_last;
            read_first = (read_first + 1) % FIFO;
            read_count--;
            counters.read_beats[index]++;
        }
        // Data first: it belongs to an address that was accepted earlier.
        if (pins.w_valid && pins.w_ready) {
            Burst &burst = *expecting();
            burst.arrived++;
            if ((burst.arrived == burst.beats) != bool(pins.w_last))
                memory.fail(index, "W", "last is not on the burst's last beat", burst.address);
            if (pins.w_id != burst.id)
                memory.fail(index, "W", "WID differs from AWID", burst.address);
            write_fifo[(write_first + write_count++) % FIFO] = {pins.w_data, pins.w_last, pins.w_id, pins.w_strb};
            counters.write_beats[index]++;
        }
        if (pins.aw_valid) {
            check_address("AW", pins.aw_addr, pins.aw_len, pins.aw_size, pins.aw_burst, pins.aw_lock);
            if (pins.aw_ready) {
                uint8_t beats = pins.aw_len + 1;
                writes.push_back({pins.aw_addr, beats, pins.aw_id, response(pins.aw_addr, beats, memory.bad_write), 0, 0, 0});
            }
        }
        b_taken = pins.b_valid && pins.b_ready;
        if (b_taken)
            writes.pop_front();
    }

    // The memory whose beat can enter the read FIFO next.
    Target next_read() const {
        if (reads.empty() || read_count >= memory.parameters.fifo_beats || reads.front().due > memory.counters.cycles)
            return NOTHING;
        return memory.target(reads.front().address);
    }

    // Moves that beat.
    void read_beat() {
        Burst &burst = reads.front();
        if (burst.moved == 0 && memory.hook)
            memory.hook(0, burst.address, 8*burst.beats);
        Beat &beat = read_fifo[(read_first + read_count++) % FIFO];
        uint32_t address = burst.address + 8*burst.moved++;
        beat.data = 0xDEADBEEFDEADBEEF;
        if (const uint8_t *from = memory.at(address, 8))
            memcpy(&beat.data, from, 8);
        beat.last  = burst.moved == burst.beats;
        beat.id    = burst.id;
        beat.extra = burst.resp;
        if (beat.last)
            reads.pop_front();
    }

    // The memory that the next beat of the write FIFO goes to.
    Target next_write() {
        return write_count ? memory.target(landing()->address) : NOTHING;
    }

    // Moves that beat.
    void write_beat() {
        Burst &burst = *landing();
        const Beat &beat = write_fifo[write_first];
        write_first = (write_first + 1) % FIFO;
        write_count--;
        uint8_t *to = memory.at(burst.address + 8*burst.moved++, 8);
        if (burst.resp == OKAY)
            for (int i = 0; i < 8; i++)
                if (beat.extra >> i & 1)
                    to[i] = beat.data >> 8*i;
        if (burst.moved == burst.beats) {
            burst.due = memory.counters.cycles + memory.parameters.write_latency;
            if (memory.hook && burst.resp == OKAY)
                memory.hook(1, burst.address, 8*burst.beats);
        }
    }

private:
    static const int     FIFO = 256;
    static const uint8_t OKAY = 0, SLVERR = 2, DECERR = 3;

    struct Beat {
        uint64_t data;
        uint8_t  last, id, extra;  // Response of a read, strobes of a write.
    };

    int               index;
    Memory           &memory;
    Pins              pins;
    Stable            ar, aw, w;
    bool              r_taken = false, b_taken = false;
    std::deque<Burst> reads;            // Accepted, not all in the FIFO.
    std::deque<Burst> writes;           // Accepted, not answered.
    uint64_t          read_bursts = 0;  // Accepted, not all taken by the master.
    Beat              read_fifo[FIFO], write_fifo[FIFO];
    unsigned          read_first = 0, read_count = 0, write_first = 0, write_count = 0;

    static uint64_t pack(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
        return a | b << 16 | c << 32 | d << 48;
    }

    // The first burst whose data is not complete.
    Burst *expecting() {
        for (Burst &burst : writes)
            if (burst.arrived < burst.beats)
                return &burst;
        return nullptr;
    }

    // The first burst whose data is not all in memory.
    Burst *landing() {
        for (Burst &burst : writes)
            if (burst.moved < burst.beats)
                return &burst;
        return nullptr;
    }

    uint8_t response(uint32_t address, uint32_t beats, const uint32_t bad[2]) const {
        if (!memory.at(address, 8*beats))
            return DECERR;
        return address < bad[1] && address + 8*beats > bad[0] ? SLVERR : OKAY;
    }

    void check_address(const char *channel, uint32_t address, uint32_t len, uint32_t size, uint32_t burst, uint32_t lock) {
        if (size != 3)
            memory.fail(index, channel, "size is not 8 bytes", address);
        if (burst != 1)
            memory.fail(index, channel, "burst is not INCR", address);
        if (lock != 0)
            memory.fail(index, channel, "locked access", address);
        if (len > 15)
            memory.fail(index, channel, "burst is longer than 16 beats", address);
        if (address & 7)
            memory.fail(index, channel, "address is not a multiple of 8", address);
        if ((address & 4095) + 8*(len + 1) > 4096)
            memory.fail(index, channel, "burst crosses 4 KB", address);
    }
};
