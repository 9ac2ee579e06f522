/* SPDX-License-Identifier: MIT
 * scopes HOW PLUGIN: opens the plug-in, and with it a runtime, "local", with "deepbind" or in a
 * "new" namespace, and frees what the one side has allocated by the other. */
#define _GNU_SOURCE
#include "tests/process/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct driver cu;

static void* open_plugin(const char* how, const char* path) {
  if (strcmp(how, "new") == 0) return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  return dlopen(path,
                RTLD_NOW | RTLD_LOCAL | (strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND : 0));
}

int main(int argc, char** argv) {
  void* context = NULL;
  device_address a = 0;
  void* (*plugin_malloc)(size_t) = NULL;
  int (*plugin_free)(void*) = NULL;
  void (*run)(void) = NULL;
  if (argc < 3 || !find_driver(&cu, "open")) return 3;
  printf("%d\n",
         cu.cuInit(0) + cu.cuDevicePrimaryCtxRetain(&context, 0) + cu.cuCtxSetCurrent(context));
  printf("host allocates %d\n", cu.cuMemAlloc_v2(&a, 5000));
  void* plugin = open_plugin(argv[1], argv[2]);
  if (plugin != NULL) {
    *(void**)&run = dlsym(plugin, "run_plugin");
    *(void**)&plugin_malloc = dlsym(plugin, "plugin_malloc");
    *(void**)&plugin_free = dlsym(plugin, "plugin_free");
  }
  if (run == NULL || plugin_malloc == NULL || plugin_free == NULL) {
    printf("no plug-in: %s\n", dlerror());
    return 1;
  }
  run();
  printf("plug-in frees the host's %d\n", plugin_free((void*)a));
  printf("host frees it %d\n", cu.cuMemFree_v2(a));
  void* b = plugin_malloc(5000);
  printf("host frees the plug-in's %d %d\n", b != NULL, cu.cuMemFree_v2((device_address)b));
  printf("plug-in frees it %d\n", plugin_free(b));
  printf("# served %lld\n", served());
  return 0;
}
