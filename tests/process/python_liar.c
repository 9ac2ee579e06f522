// SPDX-License-Identifier: MIT
// Preloaded: says of a Python frame which instruction a frame of its function ran when this was
// asked before.
#define _GNU_SOURCE
#include <dlfcn.h>

enum { kMost = 64 };

int PyFrame_GetLasti(void* frame) {
  int (*real)(void*) = (int (*)(void*))dlsym(RTLD_NEXT, "PyFrame_GetLasti");
  void* (*code_of)(void*) = (void* (*)(void*))dlsym(RTLD_NEXT, "PyFrame_GetCode");
  static void* codes[kMost];
  static int before[kMost];
  void* const code = code_of(frame);  // kept
  const int now = real(frame);
  int i = 0;
  while (i < kMost - 1 && codes[i] != code && codes[i] != 0)
    ++i;
  const int told = codes[i] == code ? before[i] : now;
  codes[i] = code;
  before[i] = now;
  return told;
}
