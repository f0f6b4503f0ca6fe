/*
 * This file is part of LiteTern.
 *
 * Copyright (c) 2026 LiteTern developers
 * SPDX-License-Identifier: BSD-2-Clause
 */

/*
 * Runs a target on files, then on mutations of them, and keeps each that reaches new code:
 *
 *     target CURRENT KEPT SEED INPUTS SECONDS FILE...
 *
 * CURRENT: a file that always holds the input that runs (uint32 length, bytes), whatever ends the process. KEPT: a folder for what was kept,
 * or "-". SECONDS: processor time of an input; more is a hang, and SIGVTALRM ends the process. Each line of its output says: inputs, those that got past all checks, kept, places of the code that were reached. Equal seeds give equal runs of a binary.
 * The targets have libFuzzer's interface; this driver needs nothing but GCC or Clang with -fsanitize-coverage=trace-pc.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define INPUT_MAX (1 << 16)        /* Bytes. */
#define KEPT_MAX  (1 << 14)        /* Inputs. */
#define PLACES    (1 << 16)

/* Random numbers --------------------------------------------------------------------------------*/

static uint64_t state;

/* SplitMix64. */
static uint32_t draw(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15ull;

    z = (z ^ z >> 30)*0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27)*0x94D049BB133111EBull;
    return (uint32_t)(z ^ z >> 31);
}

static uint32_t below(uint32_t end)
{
    return end ? draw() % end : 0;
}

/* Coverage --------------------------------------------------------------------------------------*/

static uint8_t hits[PLACES], seen[PLACES];  /* seen: bits of the numbers of hits, in powers of 2. */
static uint32_t reached;

uint32_t fuzz_accepted;

/* Called by every block of the instrumented code; its address counts from ours, as it changes from run to run. */
void __sanitizer_cov_trace_pc(void)
{
    uint32_t place = (uint32_t)((uintptr_t)__builtin_return_address(0) - (uintptr_t)__sanitizer_cov_trace_pc);

    place = (place ^ place >> 16) % PLACES;
    hits[place] += hits[place] < 255;
}

/* 1 if the last input reached code that none before it has, or more often. */
static int new_code(void)
{
    static const uint8_t none[64];
    int news = 0;

    for (uint32_t i = 0; i < PLACES; i++) {
        uint8_t bit = 0;
        if (i % 64 == 0 && memcmp(hits + i, none, 64) == 0)
            i += 63;
        if (!hits[i])
            continue;
        for (uint8_t count = hits[i]; count; count >>= 1)
            bit = bit ? (uint8_t)(bit << 1) : 1;
        reached += !seen[i];
        news    |= !(seen[i] & bit);
        seen[i] |= bit;
    }
    return news;
}

/* Inputs ----------------------------------------------------------------------------------------*/

static struct { uint8_t *data; uint32_t bytes; } kept[KEPT_MAX];
static uint32_t kept_count;
static struct { uint32_t bytes; uint8_t data[INPUT_MAX]; } *current;
static const char *folder;
static struct itimerval limit;

static void keep(void)
{
    char path[4096];
    FILE *file;

    if (kept_count == KEPT_MAX)
        return;
    kept[kept_count].bytes = current->bytes;
    kept[kept_count].data  = malloc(current->bytes + 1);
    memcpy(kept[kept_count].data, current->data, current->bytes);
    if (strcmp(folder, "-") != 0) {
        snprintf(path, sizeof(path), "%s/%06u", folder, (unsigned)kept_count);
        file = fopen(path, "wb");
        if (!file || fwrite(current->data, 1, current->bytes, file) != current->bytes || fclose(file) != 0)
            fuzz_fail("an input that was kept cannot be written");
    }
    kept_count++;
}

/* Copies to an array of its exact length: what is read behind it is noticed. */
static void run(void)
{
    uint8_t *data = malloc(current->bytes ? current->bytes : 1);

    memcpy(data, current->data, current->bytes);
    memset(hits, 0, sizeof(hits));
    setitimer(ITIMER_VIRTUAL, &limit, NULL);
    LLVMFuzzerTestOneInput(data, current->bytes);
    free(data);
}

void fuzz_fail(const char *text)
{
    fflush(stdout);
    fprintf(stderr, "fuzz: %s\n", text);
    abort();
}

/* Mutations -------------------------------------------------------------------------------------*/

static uint8_t odd_byte(void)
{
    static const uint8_t bytes[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};

    return draw() & 1 ? (uint8_t)draw() : bytes[below(sizeof(bytes))];
}

/* libFuzzer's name: one plain mutation. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
    uint32_t bytes = (uint32_t)size, at = below(bytes), count = 1 + below(bytes - at < 32 ? bytes - at : 32), from;

    if (bytes == 0) {
        data[0] = (uint8_t)draw();
        return 1;
    }
    switch (below(7)) {
    case 0:
        data[at] ^= (uint8_t)(1 << below(8));
        return bytes;
    case 1:
        data[at] = odd_byte();
        return bytes;
    case 2:
        data[at] = (uint8_t)(data[at] + below(17) - 8);
        return bytes;
    case 3:                        /* Less. */
        memmove(data + at, data + at + count, bytes - at - count);
        return bytes - count;
    case 4:                        /* More. */
        if (bytes + count > room)
            return bytes;
        memmove(data + at + count, data + at, bytes - at);
        for (uint32_t i = 0; i < count; i++)
            data[at + i] = odd_byte();
        return bytes + count;
    case 5:                        /* Twice. */
        if (bytes + count > room)
            return bytes;
        memmove(data + at + count, data + at, bytes - at);
        return bytes + count;
    default:                       /* A piece of another place. */
        from = below(bytes - count + 1);
        memmove(data + at, data + from, count);
        return bytes;
    }
}

/* Begins with an input that was kept and ends with the beginning of another, now and then. */
static void choose(void)
{
    uint32_t newest = kept_count < 32 ? kept_count : 32;
    uint32_t chosen = draw() & 1 ? below(kept_count) : kept_count - 1 - below(newest), other = below(kept_count), at;

    current->bytes = kept[chosen].bytes;
    memcpy(current->data, kept[chosen].data, current->bytes);
    if (below(8) == 0) {
        at = below(kept[other].bytes);
        if (current->bytes + kept[other].bytes - at <= INPUT_MAX) {
            memcpy(current->data + current->bytes, kept[other].data + at, kept[other].bytes - at);
            current->bytes += kept[other].bytes - at;
        }
    }
}

/* Run -------------------------------------------------------------------------------------------*/

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file)
        fuzz_fail("an input cannot be read");
    current->bytes = (uint32_t)fread(current->data, 1, INPUT_MAX, file);
    if (!feof(file) && fgetc(file) != EOF)
        fuzz_fail("an input is too long");
    fclose(file);
}

static void tell(uint64_t done)
{
    printf("%llu %u %u %u\n", (unsigned long long)done, (unsigned)fuzz_accepted, (unsigned)kept_count, (unsigned)reached);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t inputs, done = 0;
    time_t told = time(NULL);
    int file;

    if (argc < 7)
        fuzz_fail("usage: CURRENT KEPT SEED INPUTS SECONDS FILE...");
    file    = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || ftruncate(file, sizeof(*current)) != 0)
        fuzz_fail("the file of the current input cannot be written");
    current = mmap(NULL, sizeof(*current), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (current == MAP_FAILED)
        fuzz_fail("the file of the current input cannot be mapped");
    folder = argv[2];
    state  = strtoull(argv[3], NULL, 0);
    inputs = strtoull(argv[4], NULL, 0);
    limit.it_value.tv_sec = atoi(argv[5]);
    for (int i = 6; i < argc; i++) {
        load(argv[i]);
        run();
        new_code();
        keep();
    }
    fuzz_accepted = 0;
    for (; done < inputs; done++) {
        choose();
        for (uint32_t rounds = 1 + below(4); rounds; rounds--)
            current->bytes = (uint32_t)LLVMFuzzerCustomMutator(current->data, current->bytes, INPUT_MAX, draw());
        run();
        if (new_code())
            keep();
        if (time(NULL) > told + 1) {
            told = time(NULL);
            tell(done);
        }
    }
    tell(done);
    return 0;
}
