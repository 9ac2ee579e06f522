/* SPDX-License-Identifier: MIT
 * A preloaded library in which malloc fails: while custash is called, so that custash throws
 * and catches an exception, or on custash's own thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

void* __libc_malloc(size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
static int without_memory;
static _Thread_local int has_memory;
static int others_have_none;

enum { kMost = 8 };

static uintptr_t begins[kMost], ends[kMost]; /* code of custash's libraries */
static _Thread_local int ranges;
static _Thread_local long custash_calls, failing, most;

SHOWN void* malloc(size_t bytes);

static int note_code_of_custash(struct dl_phdr_info* module, size_t size, void* data) {
  (void)size;
  (void)data;
  if (strstr(module->dlpi_name, "libcustash") == NULL) return 0;
  for (int i = 0; i < module->dlpi_phnum && ranges < kMost; ++i) {
    const ElfW(Phdr)* const part = &module->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    begins[ranges] = module->dlpi_addr + part->p_vaddr;
    ends[ranges++] = module->dlpi_addr + part->p_vaddr + part->p_memsz;
  }
  return 0;
}

static int must_fail(uintptr_t caller) {
  for (int i = 0; i < ranges; ++i)
    if (caller >= begins[i] && caller < ends[i]) {
      const long call = custash_calls++;
      return failing >= 0 && call >= failing && call < failing + most;
    }
  return 0;
}

static int fails(uintptr_t caller) {
  return without_memory || (others_have_none && !has_memory) ||
         (ranges != 0 && must_fail(caller));
}

/* libc++'s exceptions. */
SHOWN void* aligned_alloc(size_t alignment, size_t bytes);

SHOWN void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails((uintptr_t)__builtin_return_address(0)) ? NULL
                                                       : __libc_memalign(alignment, bytes);
}

SHOWN void* malloc(size_t bytes) {
  return fails((uintptr_t)__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

/* From then on malloc fails on every thread but the caller's. */
SHOWN void only_this_thread_has_memory(void);

SHOWN void only_this_thread_has_memory(void) {
  has_memory = 1;
  others_have_none = 1;
}

/* From then on `count` mallocs that custash's libraries call on this thread fail, beginning
 * with the Nth; a negative one: none does. Returns how many there were since the last time. */
SHOWN long fail_mallocs_of_custash(long which, long count);

SHOWN long fail_mallocs_of_custash(long which, long count) {
  const long calls = custash_calls;
  ranges = 0;
  if (which >= 0) dl_iterate_phdr(note_code_of_custash, NULL);
  custash_calls = 0;
  failing = which;
  most = count;
  return calls;
}

/* The status of custash_history_start. */
SHOWN int start_history_without_memory(void);

SHOWN int start_history_without_memory(void) {
  int (*start)(size_t, unsigned);
  *(void**)&start = dlsym(RTLD_DEFAULT, "custash_history_start");
  without_memory = 1;
  const int status = start(1000, 8);
  without_memory = 0;
  return status;
}
