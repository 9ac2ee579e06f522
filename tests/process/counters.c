/* SPDX-License-Identifier: MIT
 * Random allocations and frees, and what a model of its own, which knows nothing of custash but
 * how sizes are rounded (docs/decisions 17), says of each of PyTorch's counters. Says what
 * differs. Argument: the seed. */
#define _GNU_SOURCE
#include "interpose/api/custash.h"
#include "tests/process/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlocks = 300, kSteps = 6000 };

static struct driver cu;
static __typeof__(&custash_get_device_stats) get_stats;
static int failures;

struct block {
  device_address address;
  long long requested, size;
  int pool;
};

struct value {
  long long current, peak, allocated, freed;
};

/* all, small, large */
static struct value count[3], bytes[3], requested[3];

static void rise(struct value* v, long long amount) {
  v->current += amount;
  v->allocated += amount;
  if (v->current > v->peak) v->peak = v->current;
}

static void fall(struct value* v, long long amount) {
  v->current -= amount;
  v->freed += amount;
}

static void change(const struct block* b, void (*how)(struct value*, long long)) {
  const int pools[] = {0, b->pool};
  for (int i = 0; i < 2; ++i) {
    how(&count[pools[i]], 1);
    how(&bytes[pools[i]], b->size);
    how(&requested[pools[i]], b->requested);
  }
}

/* Up to 1 MiB: four sizes to a doubling, from 512 on; above: to 512, from 2 MiB on to 64 KiB.
 */
static long long rounded(long long size) {
  if (size >= 2 << 20) return (size + 65535) / 65536 * 65536;
  if (size > 1 << 20) return (size + 511) / 512 * 512;
  if (size <= 2048) return (size + 511) / 512 * 512;
  long long doubling = 2048;
  while (doubling * 2 < size)
    doubling *= 2;
  const long long quarter = doubling / 4;
  return (size + quarter - 1) / quarter * quarter;
}

/* A peak is told too small at most by what hits of one thread can hold back, never too large.
 */
static void compare(const char* name,
                    const custash_counter_t* told,
                    const struct value* model) {
  for (int pool = 0; pool < 3; ++pool) {
    const custash_counter_t t = told[pool];
    const struct value m = model[pool];
    if (t.current == m.current && t.allocated == m.allocated && t.freed == m.freed &&
        t.peak <= m.peak && t.peak >= m.current && t.peak * 100 >= m.peak * 99)
      continue;
    if (failures++ < 10)
      printf("%s pool %d: told %lld %lld %lld %lld, model %lld %lld %lld %lld\n",
             name,
             pool,
             (long long)t.current,
             (long long)t.peak,
             (long long)t.allocated,
             (long long)t.freed,
             m.current,
             m.peak,
             m.allocated,
             m.freed);
  }
}

static void look(void) {
  custash_device_stats_t told;
  told.size = sizeof told;
  if (get_stats(0, &told) != CUSTASH_SUCCESS) exit(1);
  compare("allocation", told.allocation, count);
  compare("allocated_bytes", told.allocated_bytes, bytes);
  compare("requested_bytes", told.requested_bytes, requested);
  /* One stream, nothing submitted: no block waits. */
  compare("active", told.active, count);
  compare("active_bytes", told.active_bytes, bytes);
  for (int pool = 0; pool < 3; ++pool) {
    const custash_counter_t held = told.reserved_bytes[pool],
                            split = told.inactive_split_bytes[pool];
    /* Small blocks may lie in what large ones leave free: of the pools together only. */
    failures += pool == 0 && (held.current < told.active_bytes[pool].current ||
                              split.current > held.current - told.active_bytes[pool].current);
    failures +=
        held.current != held.allocated - held.freed || split.current < 0 ||
        told.segment[pool].current != told.segment[pool].allocated - told.segment[pool].freed;
  }
  failures += told.free_bytes != told.reserved_bytes[0].current - told.active_bytes[0].current;
  failures += told.num_device_alloc != told.segment[0].allocated ||
              told.num_device_free != told.segment[0].freed;
  failures +=
      told.num_ooms != 0 || told.limbo_bytes != 0 || told.largest_free_block > told.free_bytes;
}

/* The first 256 requests of a class share pages: rounded to 512 bytes as large ones are. */
static long long block_size(long long requested) {
  static unsigned whole[2048];
  const long long size = rounded(requested);
  if (size > 1 << 20 || whole[(size - 1) / 512]++ >= 256) return size;
  return (requested + 511) / 512 * 512;
}

static unsigned state;

static unsigned draw(unsigned below) {
  state = state * 1664525U + 1013904223U;
  return (state >> 8) % below;
}

int main(int argc, char** argv) {
  static struct block blocks[kBlocks];
  void* context = NULL;
  int used = 0;
  state = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
  *(void**)&get_stats = dlsym(RTLD_DEFAULT, "custash_get_device_stats");
  if (!find_driver(&cu, "open") || cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) ||
      cu.cuCtxSetCurrent(context))
    return 3;
  for (int step = 0; step < kSteps; ++step) {
    if (used < kBlocks && (used == 0 || draw(100) < 52)) {
      struct block* b = &blocks[used++];
      b->requested =
          draw(5) != 0 ? 1 + draw(1 << (6 + draw(15))) : (1 << 20) + 1 + draw(20 << 20);
      b->size = block_size(b->requested);
      b->pool = b->requested <= 1 << 20 ? CUSTASH_SMALL : CUSTASH_LARGE;
      if (cu.cuMemAlloc_v2(&b->address, (size_t)b->requested) != 0) return 4;
      change(b, rise);
    } else {
      const int i = (int)draw((unsigned)used);
      if (cu.cuMemFree_v2(blocks[i].address) != 0) return 5;
      change(&blocks[i], fall);
      blocks[i] = blocks[--used];
    }
    if (draw(40) == 0) look();
  }
  while (used > 0) {
    if (cu.cuMemFree_v2(blocks[--used].address) != 0) return 5;
    change(&blocks[used], fall);
  }
  look();
  printf("%d differ\n", failures);
  return 0;
}
