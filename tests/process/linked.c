/* SPDX-License-Identifier: MIT
 * A program with custash linked in that allocates through the C API, each from a function of
 * its own, and frees nothing. Argument: the snapshot to write. */
#include "interpose/api/custash.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) \
  if ((call) != CUSTASH_SUCCESS) exit(1)

__attribute__((noinline)) static void* by_malloc(void) {
  void* out = NULL;
  CHECK(custash_malloc(&out, 0, 3 << 20));
  return out;
}

__attribute__((noinline)) static void* on_a_stream(void) {
  void* out = NULL;
  CHECK(custash_malloc_async(&out, 0, 2 << 20, NULL));
  return out;
}

__attribute__((noinline)) static void* pinned(void) {
  void* out = NULL;
  CHECK(custash_host_malloc(&out, 1 << 20, 0));
  return out;
}

int main(int argc, char** argv) {
  char text[4096];
  size_t size = sizeof text;
  void* all[] = {by_malloc(), on_a_stream(), pinned()};
  if (argc < 2 || all[0] == NULL || all[1] == NULL || all[2] == NULL) return 1;
  CHECK(custash_snapshot(argv[1]));
  CHECK(custash_leaks_text(text, &size));
  puts(text);
  return 0;
}
