// SPDX-License-Identifier: MIT
// The preload library's half of resolve.cpp: the real dlsym is found at the first look-up, by
// version (other preloaded libraries look names up before our constructor has run).
#include "interpose/resolve.hpp"

extern "C" {
constinit custash::Dlsym* custash_real_dlsym = nullptr;
}
