/* SPDX-License-Identifier: MIT
 * The C API from C11: with LINKED called as declared, otherwise found by dlsym in a preloaded
 * program. Prints a line for each expectation that does not hold. */
#include "interpose/api/custash.h"

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// clang-format off
#define API(X)                                                                                 \
  X(custash_malloc) X(custash_free) X(custash_malloc_async) X(custash_free_async)              \
  X(custash_record_stream)                                                    \
  X(custash_empty_cache) X(custash_allocated_bytes) X(custash_reserved_bytes)                  \
  X(custash_reset_peak_memory_stats) X(custash_memory_stats) X(custash_version)                \
  X(custash_get_device_stats) X(custash_stats_text)                                            \
  X(custash_error_name) X(custash_error_string) X(custash_last_error_message)

// clang-format on

static struct {
#define MEMBER(name) __typeof__(&name) name;
  API(MEMBER)
#undef MEMBER
} api;

static int failures;

static void expect(int ok, const char* what) {
  if (ok) return;
  printf("wrong: %s\n", what);
  ++failures;
}

#define EXPECT(condition) expect((condition), #condition)

static void find(void) {
#ifdef LINKED
#define FIND(name) api.name = name;
#else
#define FIND(name)                                 \
  *(void**)&api.name = dlsym(RTLD_DEFAULT, #name); \
  if (api.name == NULL) printf("missing: %s\n", #name), ++failures;
#endif
  API(FIND)
#undef FIND
}

static size_t allocated(void) {
  custash_counter_t bytes = {0};
  EXPECT(api.custash_allocated_bytes(0, &bytes) == CUSTASH_SUCCESS);
  EXPECT(bytes.current == bytes.allocated - bytes.freed && bytes.current <= bytes.peak);
  return (size_t)bytes.current;
}

static void memory(void) {
  void *a = NULL, *b = NULL, *none = (void*)1;
  custash_counter_t bytes = {0};
  EXPECT(api.custash_malloc_async(&a, 0, 5000, NULL) == CUSTASH_SUCCESS && a != NULL);
  EXPECT((uintptr_t)a % 512 == 0);
  EXPECT(allocated() >= 5000);
  EXPECT(api.custash_reserved_bytes(0, &bytes) == CUSTASH_SUCCESS &&
         (size_t)bytes.current >= allocated());
  EXPECT(api.custash_malloc_async(&b, CUSTASH_CURRENT_DEVICE, 3 << 20, NULL) ==
             CUSTASH_SUCCESS &&
         b != NULL);
  EXPECT(api.custash_record_stream(b, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_record_stream((char*)b + (1 << 30), NULL) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_free_async(b, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc(&b, CUSTASH_CURRENT_DEVICE, 4096) == CUSTASH_SUCCESS && b != NULL);
  EXPECT(api.custash_free(b) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc(&b, 99, 4096) == CUSTASH_ERROR_INVALID_VALUE && b == NULL);
  EXPECT(api.custash_free(a) == CUSTASH_SUCCESS);
  EXPECT(api.custash_free(a) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_free(&failures) == CUSTASH_ERROR_NOT_OURS);
  EXPECT(api.custash_free(NULL) == CUSTASH_SUCCESS &&
         api.custash_free_async(NULL, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc_async(&none, 0, 0, NULL) == CUSTASH_SUCCESS && none == NULL);
  EXPECT(allocated() == 0);
  EXPECT(api.custash_allocated_bytes(0, &bytes) == CUSTASH_SUCCESS &&
         bytes.peak >= 5000 + (3 << 20));
  EXPECT(api.custash_reset_peak_memory_stats(0) == CUSTASH_SUCCESS);
  EXPECT(api.custash_allocated_bytes(0, &bytes) == CUSTASH_SUCCESS && bytes.peak == 0);
  EXPECT(api.custash_reserved_bytes(0, &bytes) == CUSTASH_SUCCESS && bytes.peak > 0);
  EXPECT(api.custash_empty_cache() == CUSTASH_SUCCESS);
  EXPECT(api.custash_reserved_bytes(0, &bytes) == CUSTASH_SUCCESS && bytes.current == 0);
  if (bytes.current != 0) printf("reserved %lld\n", (long long)bytes.current);
}

static void another_device(void) {
  void* a = NULL;
  custash_counter_t bytes = {0};
  EXPECT(api.custash_malloc_async(&a, 1, 70000, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_allocated_bytes(1, &bytes) == CUSTASH_SUCCESS && bytes.current >= 70000);
  EXPECT(allocated() == 0);
  EXPECT(api.custash_free(a) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc_async(&a, 99, 512, NULL) == CUSTASH_ERROR_INVALID_VALUE &&
         a == NULL);
  EXPECT(api.custash_allocated_bytes(99, &bytes) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_allocated_bytes(0, NULL) == CUSTASH_ERROR_INVALID_VALUE);
}

static void stats(void) {
  custash_stat_t values[256];
  size_t count = 0, room = 2;
  EXPECT(api.custash_memory_stats(0, NULL, &count) == CUSTASH_SUCCESS && count > 40 &&
         count < 256);
  EXPECT(api.custash_memory_stats(0, values, &room) == CUSTASH_ERROR_BUFFER_TOO_SMALL &&
         room == count);
  EXPECT(api.custash_memory_stats(0, values, &room) == CUSTASH_SUCCESS && room == count);
  EXPECT(api.custash_memory_stats(0, values, NULL) == CUSTASH_ERROR_INVALID_VALUE);
  int seen = 0;
  for (size_t i = 0; i < count; ++i)
    seen += strcmp(values[i].name, "allocated_bytes.all.peak") == 0 ||
            strcmp(values[i].name, "num_ooms") == 0;
  EXPECT(seen == 2);
}

static void stats_structure(void) {
  custash_device_stats_t all, some;
  void *a = NULL, *b = NULL;
  memset(&some, 0x55, sizeof some);
  EXPECT(api.custash_malloc_async(&a, 0, 5000, NULL) == CUSTASH_SUCCESS);
  EXPECT(api.custash_malloc_async(&b, 0, 3 << 20, NULL) == CUSTASH_SUCCESS);
  all.size = sizeof all;
  EXPECT(api.custash_get_device_stats(0, &all) == CUSTASH_SUCCESS && all.size == sizeof all);
  EXPECT(all.device == 0 && all.max_split_size == -1 && all.total_bytes > 0);
  EXPECT(all.allocation[CUSTASH_SMALL].current == 1 &&
         all.allocation[CUSTASH_LARGE].current == 1);
  EXPECT(all.requested_bytes[CUSTASH_ALL].current == 5000 + (3 << 20));
  EXPECT(all.allocated_bytes[CUSTASH_ALL].current == (int64_t)allocated());
  EXPECT(all.free_bytes ==
         all.reserved_bytes[CUSTASH_ALL].current - all.active_bytes[CUSTASH_ALL].current);
  EXPECT(all.largest_free_block > 0 && all.largest_free_block <= all.free_bytes);
  /* A program that knows less of the structure. */
  some.size = offsetof(custash_device_stats_t, segment);
  EXPECT(api.custash_get_device_stats(0, &some) == CUSTASH_SUCCESS);
  EXPECT(some.allocation[CUSTASH_ALL].current == 2 &&
         some.segment[CUSTASH_ALL].current == 0x5555555555555555);
  some.size = 4;
  EXPECT(api.custash_get_device_stats(0, &some) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_get_device_stats(0, NULL) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_get_device_stats(99, &all) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_free(a) == CUSTASH_SUCCESS && api.custash_free(b) == CUSTASH_SUCCESS);
}

static void stats_texts(void) {
  static char text[1 << 16];
  size_t need = 0, size = 1;
  EXPECT(api.custash_stats_text(0, CUSTASH_TEXT_JSON, NULL, &need) == CUSTASH_SUCCESS &&
         need > 100);
  text[0] = 'x';
  EXPECT(api.custash_stats_text(0, CUSTASH_TEXT_JSON, text, &size) ==
             CUSTASH_ERROR_BUFFER_TOO_SMALL &&
         size >= need && text[0] == 'x');
  size = sizeof text;
  EXPECT(api.custash_stats_text(0, CUSTASH_TEXT_JSON, text, &size) == CUSTASH_SUCCESS &&
         strlen(text) + 1 == size);
  EXPECT(strstr(text, "\"allocated_bytes.all.peak\":") != NULL);
  /* The command makes the other forms. */
  static const int refused[] = {CUSTASH_TEXT_PROMETHEUS, CUSTASH_TEXT_TABLE};
  for (int i = 0; i < 2; ++i) {
    size = sizeof text;
    text[0] = 'x';
    EXPECT(api.custash_stats_text(0, refused[i], text, &size) == CUSTASH_ERROR_INVALID_VALUE &&
           text[0] == 'x');
    EXPECT(strstr(api.custash_last_error_message(), "custash stat PID") != NULL);
  }
  EXPECT(api.custash_stats_text(0, 3, text, &size) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(api.custash_stats_text(0, 0, text, NULL) == CUSTASH_ERROR_INVALID_VALUE);
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
  stats();
  stats_structure();
  stats_texts();
  if (failures == 0) printf("all right\n");
  return failures != 0;
}
