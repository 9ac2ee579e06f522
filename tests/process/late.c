/* SPDX-License-Identifier: MIT
 * libcustash.so opened by a program that has begun without it, as PyTorch's pluggable allocator
 * does: custash sees none of the program's submissions, and its memory must be ordered all the
 * same. The simulator's race detector judges. Argument: the library; with a second argument
 * frees name no stream. */
#include "tests/process/driver.h"

#define _GNU_SOURCE
#include "interpose/api/custash.h"
#include "tests/sim/detector_abi.h"

#include <dlfcn.h>
#include <stdio.h>

static struct {
  __typeof__(&custash_malloc_async) custash_malloc_async;
  __typeof__(&custash_free) custash_free;
  __typeof__(&custash_free_async) custash_free_async;
  __typeof__(&custash_memory_stats) custash_memory_stats;
} api;

static int failures;

static void expect(int ok, const char* what) {
  if (ok) return;
  printf("wrong: %s\n", what);
  ++failures;
}

#define EXPECT(condition) expect((condition), #condition)

static long long stat_of(const char* name) {
  custash_stat_t values[400];
  size_t count = 400;
  EXPECT(api.custash_memory_stats(0, values, &count) == CUSTASH_SUCCESS);
  for (size_t i = 0; i < count; ++i) {
    const char *a = values[i].name, *b = name;
    while (*a != 0 && *a == *b)
      ++a, ++b;
    if (*a == *b) return values[i].value;
  }
  return -1;
}

int main(int argc, char** argv) {
  struct driver cu;
  void *context = NULL, *streams[2] = {NULL, NULL};
  if (argc < 2 || !find_driver(&cu, "open")) return 2;
  EXPECT(cu.cuInit(0) == 0 && cu.cuDevicePrimaryCtxRetain(&context, 0) == 0);
  EXPECT(cu.cuCtxSetCurrent(context) == 0);
  EXPECT(cu.cuStreamCreate(&streams[0], 1) == 0 && cu.cuStreamCreate(&streams[1], 1) == 0);
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return printf("%s\n", dlerror()), 2;
#define FIND(name) *(void**)&api.name = dlsym(library, #name)
  FIND(custash_malloc_async), FIND(custash_free), FIND(custash_free_async),
      FIND(custash_memory_stats);
  const custash_sim_detector_calls* (*find_detector)(void);
  *(void**)&find_detector = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "custash_sim_detector");
  const custash_sim_detector_calls* const detector = find_detector();
  EXPECT(detector != NULL);
  if (failures != 0) return 1;

  const size_t bytes = 40 << 20;
  const int named = argc < 3;
  for (int i = 0; i < 60; ++i) {
    void* const stream = streams[(i / 3) % 2];
    void* memory = NULL;
    EXPECT(api.custash_malloc_async(&memory, 0, bytes, stream) == CUSTASH_SUCCESS);
    detector->allocated(memory, bytes, 1, stream);
    EXPECT(cu.cuMemsetD8Async((device_address)memory, (unsigned char)i, bytes, stream) == 0);
    detector->freed(memory, named, stream);
    EXPECT((named ? api.custash_free_async(memory, stream) : api.custash_free(memory)) ==
           CUSTASH_SUCCESS);
  }
  EXPECT(cu.cuCtxSynchronize() == 0);
  if (detector->count(NULL) != 0) printf("%s\n", detector->text()), ++failures;
  /* Otherwise nothing was handed out twice, and nothing shown. */
  EXPECT(stat_of("segment.all.allocated") < 60 && stat_of("allocation.all.allocated") == 60);
  /* A runtime keeps our addresses for ever: closed, it stays. */
  void* memory = NULL;
  EXPECT(dlclose(library) == 0);
  EXPECT(api.custash_malloc_async(&memory, 0, bytes, streams[0]) == CUSTASH_SUCCESS);
  EXPECT(api.custash_free(memory) == CUSTASH_SUCCESS);
  if (failures == 0) printf("all right\n");
  return failures != 0;
}
