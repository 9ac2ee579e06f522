// SPDX-License-Identifier: MIT
// The preload library's half of resolve.cpp: the dlsym behind ours is libc's, found by version at the
// first look-up (other preloaded libraries look names up before our constructor has run).
#include "interpose/resolve.hpp"

namespace custash {

Dlsym* next_dlsym() noexcept {
  return libc_dlsym();
}

bool stands_in_front() noexcept {
  return is_first_dlsym();
}

}  // namespace custash
