/* SPDX-License-Identifier: MIT
 * A function's code with a jump to another function in its place, as UCX and Open MPI's patcher
 * write it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kJump = 16 };

struct patch {
  unsigned char* at;
  unsigned char old[kJump], jump[kJump];
};

/* Arm processors may still run the instructions that they fetched before the write. */
static inline void write_code(const struct patch* patch, const unsigned char* code) {
  memcpy(patch->at, code, kJump);
  __builtin___clear_cache((char*)patch->at, (char*)patch->at + kJump);
}

static inline void patch_function(struct patch* patch, void* function, void* hook) {
  const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t page = (uintptr_t)function & ~(size - 1);
  mprotect((void*)page, 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC);
  patch->at = (unsigned char*)function;
  memcpy(patch->old, function, kJump);
  memcpy(patch->jump, function, kJump);
#if defined(__aarch64__)
  static const uint32_t kLoadAndBranch[] = {0x58000050, 0xd61f0200}; /* ldr x16, .+8; br x16 */
  memcpy(patch->jump, kLoadAndBranch, 8);
  memcpy(patch->jump + 8, &hook, 8);
#else
  static const unsigned char kMove[] = {0x49, 0xbb}, kGo[] = {0x41, 0xff, 0xe3}; /* by %r11 */
  memcpy(patch->jump, kMove, 2);
  memcpy(patch->jump + 2, &hook, 8);
  memcpy(patch->jump + 10, kGo, 3);
#endif
  write_code(patch, patch->jump);
}
