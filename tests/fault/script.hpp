// SPDX-License-Identifier: MIT
// Short programs written as text, one command a semicolon:
//   stream S (non-blocking) | bstream S | unstream S | ctx C (commands after it are in context
//   C) | newctx C | endctx C malloc B SIZE | free B | amalloc B SIZE S | afree B S | share B S
//   (record_stream) kernel S uses… | need S FLAG uses… | set S FLAG uses…   uses: wB or rB, the
//   whole block tohost S B H | fromhost S B H | copy S TO FROM | memset S B | hostfn S |
//   hostread H record E S | wait E S | esync E | sync S | csync | trim | sleep | nod N (about
//   so many bytes of the process) | run N begin S (relaxed) | gbegin S (global) | end S G |
//   launch G S | ungraph G (and its executable)
// With pinned memory, whose buffers are freed by `free`, too:
//   alloc B SIZE | falloc B SIZE FLAGS | release B | name B S | write B | read B | in B S |
//   out B S | idle SECONDS
// Streams 0, 1 and 2 are the default ones (program.hpp). Sizes: 100, 4K, 3M. Pure.
#pragma once

#include "tests/property/program.hpp"

#include <string_view>

namespace custash::property {

// Throws std::runtime_error for what it cannot read.
Program parse(std::string_view text);

}  // namespace custash::property
