/* SPDX-License-Identifier: MIT
 * The version of the first glibc for this processor, with which libc's own dlsym is found by
 * dlvsym. */
#pragma once

#if defined(__aarch64__)
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#define OLDEST_GLIBC "GLIBC_2.2.5"
#endif
