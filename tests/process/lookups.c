/* SPDX-License-Identifier: MIT
 * How a program may look names up. Each check prints a line only when it fails; the argument is
 * the path of the driver. Preloaded, linked with custash or not: what must hold bare, too, is
 * checked in all. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LINKED
#define OURS "lookups_custash"
#else
#define OURS "libcustash"
#endif

static int failures;

static void check(int ok, const char* what) {
  if (ok) return;
  printf("wrong: %s\n", what);
  ++failures;
}

static const char* object_of(const void* address) {
  Dl_info info;
  if (address == NULL) return "(null)";
  return dladdr((void*)address, &info) != 0 ? info.dli_fname : "(none)";
}

static int in(const void* address, const char* library) {
  return strstr(object_of(address), library) != NULL;
}

int tick(void); /* lookups_first.c, whose RTLD_NEXT is lookups_next.c */
void* default_of_first(const char* name);

typedef int get_v1(const char*, void**, int, uint64_t);
typedef int get_v2(const char*, void**, int, uint64_t, void*);

static const char* const kServed[] = {
    "cuInit",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuLaunchKernel",
    "cuMemcpyDtoHAsync_v2",
    "cuGetProcAddress_v2",
    "cuMemcpyAsync_ptsz",
    "cuGetProcAddress",
    "cuMemAllocAsync_ptsz",
};
static const char* const kLeft[] = {"cuDriverGetVersion", "cuEventCreate", "cuCtxGetDevice"};

static void by_handle(void* driver, int served) {
  for (size_t i = 0; i < sizeof kServed / sizeof *kServed; ++i) {
    void* found = dlsym(driver, kServed[i]);
    check(in(found, served ? OURS : "libcuda"), kServed[i]);
    check(dlsym(driver, kServed[i]) == found, "a second look-up gives the same");
  }
  for (size_t i = 0; i < sizeof kLeft / sizeof *kLeft; ++i)
    check(in(dlsym(driver, kLeft[i]), "libcuda"), kLeft[i]);
}

static void errors(void* driver) {
  dlerror();
  check(dlsym(driver, "cuNoSuchThing") == NULL, "an unknown name");
  const char* message = dlerror();
  check(message != NULL && strstr(message, "cuNoSuchThing") != NULL, "its message");
  check(dlerror() == NULL, "the message is given once");
  check(dlsym(driver, "cuInit") != NULL && dlerror() == NULL, "a success leaves no message");
  void* other = dlopen("libm.so.6", RTLD_NOW);
  check(other != NULL && dlsym(other, "cuInit") == NULL, "a name of ours in another library");
  message = dlerror();
  check(message != NULL && strstr(message, "libm") != NULL, "the other library's message");
  check(other != NULL && dlsym(other, "cos") != NULL, "another library's own name");
}

static void own_name(void) {
  void* libc = dlopen("libc.so.6", RTLD_NOW);
  check(in(dlsym(libc, "dlsym"), "libc.so"), "dlsym asked for by libc's handle is libc's");
  check(dlsym(RTLD_DEFAULT, "dlsym") != NULL, "dlsym in the global scope");
  check(dlsym(RTLD_NEXT, "dlsym") != NULL, "the next dlsym");
  check(dlsym(RTLD_DEFAULT, "printf") == (void*)printf, "RTLD_DEFAULT");
}

static void next(void) {
  check(tick() == 42, "RTLD_NEXT begins behind its caller");
  check(tick() == 42, "also when asked again");
  check(default_of_first("main") == dlsym(RTLD_DEFAULT, "main"), "RTLD_DEFAULT from a library");
}

static void proc_address(void* driver, int served) {
  get_v1* v1 = (get_v1*)dlsym(driver, "cuGetProcAddress");
  get_v2* v2 = (get_v2*)dlsym(driver, "cuGetProcAddress_v2");
  const char* ours = served ? OURS : "libcuda";
  void* found = NULL;
  int status = -1;
  check(v1("cuMemAlloc", &found, 3020, 0) == 0 && found == dlsym(driver, "cuMemAlloc_v2"),
        "v1 by version");
  check(v2("cuMemAlloc", &found, 3020, 0, &status) == 0 &&
            found == dlsym(driver, "cuMemAlloc_v2"),
        "v2 by version");
  check(status == 0, "v2 gives the status");
  check(v2("cuMemAlloc", &found, 3020, 0, NULL) == 0 && in(found, ours), "v2 without status");
  check(v1("cuGetProcAddress", &found, 11030, 0) == 0 && found == (void*)v1, "itself, v1");
  check(v2("cuGetProcAddress", &found, 12000, 0, NULL) == 0 && found == (void*)v2,
        "itself, v2");
  check(v2("cuMemcpyAsync", &found, 7000, 2, NULL) == 0 &&
            found == dlsym(driver, "cuMemcpyAsync_ptsz"),
        "per-thread form");
  check(v2("cuMemcpyAsync", &found, 7000, 0, NULL) == 0 &&
            found == dlsym(driver, "cuMemcpyAsync"),
        "legacy form");
  check(v2("cuDriverGetVersion", &found, 2020, 0, NULL) == 0 && in(found, "libcuda"),
        "a name not ours");
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int served = dlsym(RTLD_DEFAULT, "custash_version") != NULL;
  check(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL,
        "the driver is not there uninvited");
  next();
  own_name();
  check(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL, "nor after look-ups");
  void* driver = dlopen(argv[1], RTLD_NOW);
  if (driver == NULL) {
    printf("no driver: %s\n", dlerror());
    return 1;
  }
  by_handle(driver, served);
  errors(driver);
  next();
  proc_address(driver, served);
  void* second = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
  if (second != NULL) {
    void* found = dlsym(second, "cuInit");
    check(found != NULL && found != dlsym(driver, "cuInit"),
          "another namespace's driver is left alone");
  }
  if (failures == 0) printf("all right\n");
  return failures != 0;
}
