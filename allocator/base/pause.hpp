// SPDX-License-Identifier: MIT
// pause: for threads that wait for another one's next few instructions. Pure.
#pragma once

namespace custash {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // waits for tens of cycles; most cores take yield for no instruction
#endif
}

}  // namespace custash
