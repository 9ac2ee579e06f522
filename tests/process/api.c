/* SPDX-License-Identifier: MIT
 * The C API from C11: with LINKED called as declared, otherwise found by dlsym in a preloaded
 * program. Prints a line for each expectation that does not hold. */
#include "interpose/custash.h"

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define API(X)                                                                                 \
  X(custash_malloc) X(custash_free) X(custash_malloc_async) X(custash_free_async)              \
  X(custash_record_stream) X(custash_pluggable_malloc) X(custash_pluggable_free)               \
  X(custash_empty_cache) X(custash_memory_allocated) X(custash_memory_reserved)                \
  X(custash_max_memory_allocated) X(custash_max_memory_reserved)                               \
  X(custash_reset_peak_memory_stats) X(custash_memory_stats) X(custash_version)                \
  X(custash_error_name) X(custash_error_string)

static struct {
#define MEMBER(name) __typeof__(&name) name;
  API(MEMBER)
#undef MEMBER
} api;

static int failures;

static void expect(int ok, const char *what) {
  if (ok) return;
  printf("wrong: %s\n", what);
  ++failures;
}

#define EXPECT(condition) expect((condition), #condition)

static void find(void) {
#ifdef LINKED
#define FIND(name) api.name = name;
#else
#define FIND(name)                              \
  *(void **)&api.name = dlsym(RTLD_DEFAULT, #name); \
  if (api.name == NULL) printf("missing: %s\n", #name), ++failures;
#endif
  API(FIND)
#undef FIND
}

static size_t allocated(void) {
  size_t bytes = 0;
  EXPECT(api.custash_memory_allocated(0, &bytes) == CUSTASH_SUCCESS);
  return bytes;
}

static void memory(void) {
  void *a = NULL, *b = NULL, *none = (void *)1;
  size_t reserved = 0, peak = 0;
  EXPECT(api.custash_malloc(&a, 0, 5000, NULL) == CUSTASH_SUCCESS && a != NULL);
  EXPECT((uintptr_t)a % 512 == 0);
  EXPECT(allocated() >= 5000);
  EXPECT(api.custash_memory_reserved(0, &reserved) == CUSTASH_SUCCESS && reserved >= allocated());
  EXPECT(api.custash_malloc_async(&b, 3 << 20, NULL) == CUSTASH_SUCCESS && b != NULL);
  EXPECT(api.custash_record_stream(b, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_record_stream((char *)b + (1 << 30), NULL) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_free_async(b, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_free(a) == CUSTASH_SUCCESS);
  EXPECT(api.custash_free(a) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_free(&failures) == CUSTASH_ERROR_NOT_OURS);
  EXPECT(api.custash_free(NULL) == CUSTASH_SUCCESS && api.custash_free_async(NULL, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc(&none, 0, 0, NULL) == CUSTASH_SUCCESS && none == NULL);
  EXPECT(allocated() == 0);
  EXPECT(api.custash_max_memory_allocated(0, &peak) == CUSTASH_SUCCESS && peak >= 5000 + (3 << 20));
  EXPECT(api.custash_reset_peak_memory_stats(0) == CUSTASH_SUCCESS);
  EXPECT(api.custash_max_memory_allocated(0, &peak) == CUSTASH_SUCCESS && peak == 0);
  EXPECT(api.custash_max_memory_reserved(0, &peak) == CUSTASH_SUCCESS && peak > 0);
  EXPECT(api.custash_empty_cache() == CUSTASH_SUCCESS);
  EXPECT(api.custash_memory_reserved(0, &reserved) == CUSTASH_SUCCESS && reserved == 0);
  if (reserved != 0) printf("reserved %zu\n", reserved);
}

static void another_device(void) {
  void *a = NULL;
  size_t bytes = 0;
  EXPECT(api.custash_malloc(&a, 1, 70000, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_memory_allocated(1, &bytes) == CUSTASH_SUCCESS && bytes >= 70000);
  EXPECT(allocated() == 0);
  EXPECT(api.custash_free(a) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc(&a, 99, 512, NULL) == CUSTASH_ERROR_INVALID_VALUE && a == NULL);
  EXPECT(api.custash_memory_allocated(99, &bytes) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_memory_allocated(0, NULL) == CUSTASH_ERROR_INVALID_VALUE);
}

static void pluggable(void) {
  void *a = api.custash_pluggable_malloc(1 << 20, 0, NULL);
  EXPECT(a != NULL && allocated() >= 1 << 20);
  api.custash_pluggable_free(a, 1 << 20, 0, NULL);
  EXPECT(allocated() == 0);
  EXPECT(api.custash_pluggable_malloc(512, 99, NULL) == NULL);
}

static void stats(void) {
  custash_stat_t values[256];
  size_t count = 0, room = 2;
  EXPECT(api.custash_memory_stats(0, NULL, &count) == CUSTASH_SUCCESS && count > 40 && count < 256);
  EXPECT(api.custash_memory_stats(0, values, &room) == CUSTASH_ERROR_BUFFER_TOO_SMALL && room == count);
  EXPECT(api.custash_memory_stats(0, values, &room) == CUSTASH_SUCCESS && room == count);
  EXPECT(api.custash_memory_stats(0, values, NULL) == CUSTASH_ERROR_INVALID_VALUE);
  int seen = 0;
  for (size_t i = 0; i < count; ++i)
    seen += strcmp(values[i].name, "allocated_bytes.all.peak") == 0 || strcmp(values[i].name, "num_ooms") == 0;
  EXPECT(seen == 2);
}

int main(void) {
  find();
  if (failures != 0) return 1;
  EXPECT(api.custash_version() == CUSTASH_VERSION);
  EXPECT(strcmp(api.custash_error_name(CUSTASH_ERROR_NOT_OURS), "CUSTASH_ERROR_NOT_OURS") == 0);
  EXPECT(strcmp(api.custash_error_name((custash_status_t)77), "CUSTASH_ERROR_UNKNOWN") == 0);
  EXPECT(strlen(api.custash_error_string(CUSTASH_ERROR_DRIVER)) > 0);
  memory();
  another_device();
  pluggable();
  stats();
  if (failures == 0) printf("all right\n");
  return failures != 0;
}
