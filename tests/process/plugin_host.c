/* SPDX-License-Identifier: MIT
 * Loads the libraries named by its arguments, and with each its runtime, out of the global
 * scope; then runs them in turn. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

enum { kMost = 4 };

int main(int argc, char** argv) {
  void (*run[kMost])(void);
  if (argc < 2 || argc > kMost) return 2;
  for (int i = 1; i < argc; ++i) {
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    run[i] = NULL;
    if (plugin != NULL) *(void**)&run[i] = dlsym(plugin, "run_plugin");
    if (run[i] == NULL) {
      printf("no plug-in: %s\n", dlerror());
      return 1;
    }
  }
  for (int i = 1; i < argc; ++i)
    run[i]();
  return 0;
}
