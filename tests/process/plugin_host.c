/* SPDX-License-Identifier: MIT
 * Loads the libraries named by its arguments, and with each its runtime, out of the global
 * scope; then runs them in turn.
 *
 *   plugin_host PLUGIN...            all are loaded before the first one runs
 *   plugin_host in-turn PLUGIN...    each runs before the next is loaded
 *   plugin_host closed PLUGIN...     the same, in the global scope, and each is closed. Where
 * its runtime was, no other library can be loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kMost = 8 };

static void* loaded(const char* path, int scope) {
  void* plugin = dlopen(path, RTLD_NOW | scope);
  if (plugin != NULL) return plugin;
  printf("no plug-in: %s\n", dlerror());
  exit(1);
}

typedef void (*run_t)(void);

/* NULL: it does its work when it is loaded. */
static run_t run_of(void* plugin) {
  run_t run;
  *(void**)&run = dlsym(plugin, "run_plugin");
  return run;
}

static void run_and_close(const char* path) {
  void* plugin = loaded(path, RTLD_GLOBAL);
  Dl_info runtime = {0};
  run_of(plugin)();
  dladdr(dlsym(plugin, "cudaGetLastError"), &runtime);
  dlclose(plugin);
  mmap(runtime.dli_fbase,
       1 << 16,
       PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
       -1,
       0);
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > kMost) return 2;
  if (strcmp(argv[1], "closed") == 0) {
    for (int i = 2; i < argc; ++i)
      run_and_close(argv[i]);
    return 0;
  }
  if (strcmp(argv[1], "in-turn") == 0) {
    for (int i = 2; i < argc; ++i) {
      const run_t run = run_of(loaded(argv[i], RTLD_LOCAL));
      if (run != NULL) run();
    }
    return 0;
  }
  run_t run[kMost];
  for (int i = 1; i < argc; ++i)
    run[i] = run_of(loaded(argv[i], RTLD_LOCAL));
  for (int i = 1; i < argc; ++i)
    if (run[i] != NULL) run[i]();
  return 0;
}
