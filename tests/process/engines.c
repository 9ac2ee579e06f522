/* SPDX-License-Identifier: MIT
 * A program that loads a library for video or rays, and may begin work with it. Arguments: the
 * library; which engine; "looked up", "begun", "begun in the program's scope" (found there) or
 * "begun after a probe" (the library came, was asked and went). With -DWITH_STUB it is linked
 * with the library. Lines with # tell what custash does. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern int cuvidCreateDecoder(void*, void*);
extern int NvEncodeAPICreateInstance(void*);

typedef int two_call(void*, void*);
typedef int one_call(void*);
typedef int optix_call(int, unsigned, void*, void*, void*, unsigned long);

__attribute__((unused)) static int global;

__attribute__((unused)) static int begin_by_look_up(void* library,
                                                    const char* engine,
                                                    int begun) {
  char a = 0, b = 0;
  if (strcmp(engine, "NVDEC") == 0) {
    two_call* call = NULL;
    *(void**)&call = dlsym(library, "cuvidCreateDecoder");
    return begun ? call(&a, &b) : call == NULL;
  }
  if (strcmp(engine, "NVENC") == 0) {
    one_call* call = NULL;
    *(void**)&call = dlsym(library, "NvEncodeAPICreateInstance");
    return begun ? call(&a) : call == NULL;
  }
  optix_call* call = NULL;
  *(void**)&call = dlsym(library, "optixQueryFunctionTable");
  return begun ? call(87, 1, &a, &b, &a, 8) : call == NULL;
}

static void probe(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  printf("%d probed\n", dlsym(library, "cuvidCreateDecoder") != NULL);
  dlclose(library);
}

static int begin(const char* path, const char* engine, int begun) {
#ifdef WITH_STUB
  char a = 0, b = 0;
  (void)path;
  if (!begun) return 0;
  return strcmp(engine, "NVDEC") == 0 ? cuvidCreateDecoder(&a, &b)
                                      : NvEncodeAPICreateInstance(&a);
#else
  void* library = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library != NULL && global) library = dlopen(NULL, RTLD_NOW);
  return library == NULL ? -1 : begin_by_look_up(library, engine, begun);
#endif
}

int main(int argc, char** argv) {
  struct driver driver;
  device_address block = 0;
  int (*sleep)(int) = NULL;
  if (argc < 4) return 2;
  const int begun = strncmp(argv[3], "begun", 5) == 0;
  global = strstr(argv[3], "scope") != NULL;
  if (strstr(argv[3], "probe") != NULL) probe(argv[1]);
  const int early = argc > 4; /* before CUDA is in use */
  if (early) printf("%d begin\n", begin(argv[1], argv[2], begun));
  start_driver(&driver);
  MUST(driver.cuMemAlloc_v2(&block, 4 << 20));
  if (!early) printf("%d begin\n", begin(argv[1], argv[2], begun));
  *(void**)&sleep = dlsym(RTLD_DEFAULT, "custash_sleep");
  printf("# sleep %d\n", sleep == NULL ? -1 : sleep(0));
  MUST(driver.cuMemFree_v2(block));
  return 0;
}
