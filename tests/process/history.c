/* SPDX-License-Identifier: MIT
 * A program whose allocations are known by call site. Arguments: what to do, where snapshots
 * go. */
#define _GNU_SOURCE
#include "interpose/api/custash.h"
#include "tests/process/driver.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct driver cu;
static __typeof__(&custash_snapshot) snapshot;
static __typeof__(&custash_history_start) history;
static __typeof__(&custash_history_stop) history_stop;
static __typeof__(&custash_leaks_text) leaks_text;
static __typeof__(&custash_last_error_message) last_error_message;
static device_address kept[4096];
static size_t kept_count;

static void start(void) {
  start_driver(&cu);
  *(void**)&snapshot = dlsym(RTLD_DEFAULT, "custash_snapshot");
  *(void**)&history = dlsym(RTLD_DEFAULT, "custash_history_start");
  *(void**)&history_stop = dlsym(RTLD_DEFAULT, "custash_history_stop");
  *(void**)&leaks_text = dlsym(RTLD_DEFAULT, "custash_leaks_text");
  *(void**)&last_error_message = dlsym(RTLD_DEFAULT, "custash_last_error_message");
}

/* Names that a reader of the stacks finds: exported, not inlined or cloned, no call in the last
 * place. */
#if __has_attribute(noipa)
#define PLACE __attribute__((noipa, visibility("default")))
#else
#define PLACE __attribute__((noinline, visibility("default")))
#endif

PLACE device_address allocate(size_t bytes) {
  device_address out = 0;
  MUST(cu.cuMemAlloc_v2(&out, bytes));
  return out;
}

PLACE void keep_weights(void) {
  for (int i = 0; i < 3; ++i)
    kept[kept_count++] = allocate(4 << 20);
}

PLACE void leak_a_little(void) {
  kept[kept_count++] = allocate(1000);
}

PLACE void use_scratch(void) {
  device_address a = allocate(2 << 20), b = allocate(6 << 20);
  MUST(cu.cuMemFree_v2(a));
  MUST(cu.cuMemFree_v2(b));
}

static void work(int rounds) {
  keep_weights();
  for (int i = 0; i < rounds; ++i) {
    leak_a_little();
    use_scratch();
  }
}

static void write_each(const char* folder) {
  static const char* const names[] = {"s.json", "s.html", "s.pickle", "s.trace.json"};
  char path[4096];
  for (int i = 0; i < 4; ++i) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    MUST(snapshot(path));
  }
}

/* Two streams work on, so that what is freed waits. */
static void busy(void) {
  void* streams[2] = {NULL, NULL};
  device_address large = allocate(4 << 20), waits = allocate(6 << 20), small = allocate(3000);
  for (int i = 0; i < 2; ++i) {
    MUST(cu.cuStreamCreate(&streams[i], 1));
    MUST(cu.cuMemsetD8Async(waits, 0, 6 << 20, streams[i]));
  }
  MUST(cu.cuMemFree_v2(waits));
  MUST(cu.cuMemFree_v2(small));
  MUST(cu.cuMemFree_v2(large));
}

/* A block that is made of the pages of freed ones. Living ones lie between them. */
static void move_pages(void) {
  device_address pieces[16];
  for (int i = 0; i < 16; ++i)
    pieces[i] = allocate(4 << 20);
  for (int i = 0; i < 16; i += 2)
    MUST(cu.cuMemFree_v2(pieces[i]));
  MUST(cu.cuMemFree_v2(allocate(32 << 20)));
}

int main(int argc, char** argv) {
  const char *what = argc > 1 ? argv[1] : "", *where = argc > 2 ? argv[2] : ".";
  start();
  if (strcmp(what, "work") == 0) {
    work(200);
    write_each(where);
  } else if (strcmp(what, "busy") == 0) {
    device_address first = allocate(5 << 20);
    MUST(cu.cuMemFree_v2(first));
    busy();
    write_each(where);
  } else if (strcmp(what, "moves") == 0) {
    move_pages();
    write_each(where);
  } else if (strcmp(what, "quiet") == 0) {
    work(200);
  } else if (strcmp(what, "late") == 0) {
    work(10);
    MUST(history(1000, 8));
    MUST(cu.cuMemFree_v2(kept[0])); /* older than the history */
    use_scratch();
    MUST(history_stop());
    use_scratch();
    write_each(where);
  } else if (strcmp(what, "oom") == 0) {
    device_address out = 0;
    while (cu.cuMemAlloc_v2(&out, 256 << 20) == 0)
      continue;
  } else if (strcmp(what, "errors") == 0) {
    const int by_ending = snapshot("a.txt"), by_null = snapshot(NULL),
              written = snapshot(where);
    printf("%d %d %d %s\n", by_null, by_ending, written, last_error_message());
    size_t size = 0, room = 3;
    char text[64];
    printf("%d %d\n",
           leaks_text(NULL, NULL),
           leaks_text(text, &room) == CUSTASH_ERROR_BUFFER_TOO_SMALL);
    MUST(leaks_text(NULL, &size));
    printf("%zu\n", size);
  } else if (strcmp(what, "serve") == 0) {
    work(10);
    puts("ready");
    fflush(stdout);
    for (char line[16]; fgets(line, sizeof line, stdin) != NULL;) {
      use_scratch();
      puts("done");
      fflush(stdout);
    }
  } else {
    return 2;
  }
  return 0;
}
