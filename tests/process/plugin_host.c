/* SPDX-License-Identifier: MIT
 * Loads the library named by its argument, and with it the runtime, out of the global scope. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  void (*run)(void) = NULL;
  if (plugin != NULL) *(void**)&run = dlsym(plugin, "run_plugin");
  if (run == NULL) {
    printf("no plug-in: %s\n", dlerror());
    return 1;
  }
  run();
  return 0;
}
