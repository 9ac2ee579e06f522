// SPDX-License-Identifier: MIT
// Each is right on bare CUDA (custash_host_free taken for cudaFreeHost). One idea each.
#include "tests/fault/scenarios.hpp"

namespace custash::property {
namespace {

constexpr Scenario kScenarios[] = {
    {"one small buffer", "alloc 0 100; write 0; free 0"},
    {"one large buffer", "alloc 0 1100K; write 0; free 0"},
    {"one of each kind",
     "falloc 0 4K 0; falloc 1 4K 1; falloc 2 4K 4; falloc 3 100 7; write 0; free 3; free 1; "
     "free 0; free 2"},
    {"a buffer that comes back", "alloc 0 4K; write 0; free 0; alloc 1 4K; write 1; free 1"},
    {"a copy in flight",
     "stream 3; alloc 0 4K; write 0; in 0 3; free 0; alloc 1 4K; write 1; in 1 3; free 1"},
    {"copies in flight on two streams",
     "stream 3; stream 4; alloc 0 4K; alloc 1 4K; write 0; write 1; in 0 3; in 1 4; free 0; "
     "free 1; alloc 2 4K; alloc 3 8K; write 2; write 3; run 9; free 2; alloc 4 4K; write 4"},
    {"the default streams",
     "alloc 0 4K; write 0; in 0 0; free 0; alloc 1 4K; write 1; in 1 2; free 1; alloc 2 4K; "
     "write 2; in 2 1; free 2; csync; alloc 3 4K; write 3"},
    {"a stream that ends with a copy",
     "stream 3; alloc 0 4K; write 0; in 0 3; unstream 3; free 0; alloc 1 4K; write 1"},
    {"a copy to the host, read after a free",
     "stream 3; alloc 0 4K; alloc 1 4K; out 0 3; free 1; read 0; free 0"},
    {"a kernel on pinned memory",
     "stream 3; alloc 0 4K; write 0; kernel 3 r0; free 0; alloc 1 4K; kernel 3 w1; sync 3; "
     "read 1"},
    {"named streams",
     "stream 3; stream 4; alloc 0 4K; write 0; in 0 3; in 0 4; name 0 3; name 0 4; release 0; "
     "alloc 1 4K; write 1; sync 3; sync 4; alloc 2 4K; write 2; release 1; release 2"},
    {"a named stream, freed as by cudaFreeHost",
     "stream 3; alloc 0 4K; write 0; name 0 3; in 0 3; free 0; alloc 1 4K; write 1"},
    {"streams that take no event",
     "alloc 0 4K; write 0; in 0 0; name 0 0; release 0; alloc 1 4K; write 1; in 1 2; name 1 2; "
     "release 1; alloc 2 4K; write 2"},
    {"released without a name", "stream 3; alloc 0 4K; write 0; in 0 3; release 0; alloc 1 4K"},
    {"empty with all free", "alloc 0 4K; alloc 1 1100K; free 0; free 1; trim; alloc 2 4K"},
    {"empty with work in flight",
     "stream 3; alloc 0 4K; write 0; in 0 3; free 0; trim; alloc 1 4K; write 1; csync; trim"},
    {"what idles goes",
     "alloc 0 4K; free 0; idle 100; alloc 1 100; free 1; idle 100; alloc 2 100; free 2; "
     "idle 100; alloc 3 100; free 3"},
    {"two contexts of a device",
     "newctx 2; stream 3; alloc 0 4K; write 0; in 0 3; ctx 0; stream 4; kernel 4 r0; "
     "alloc 1 4K; in 1 4; free 1; free 0; alloc 2 4K; write 2"},
    {"two devices",
     "stream 3; alloc 0 4K; write 0; in 0 3; ctx 1; stream 4; alloc 1 4K; write 1; in 1 4; "
     "free 1; alloc 2 4K; write 2; ctx 0; free 0; alloc 3 4K; write 3"},
    {"a context that ends with buffers",
     "newctx 2; stream 3; alloc 0 4K; alloc 1 4K; alloc 2 100; write 0; write 1; in 0 3; "
     "in 1 3; name 1 3; free 0; release 1; endctx 2; alloc 3 4K; write 3"},
    {"a device reset with buffers",
     "stream 3; alloc 0 4K; alloc 1 100; write 0; in 0 3; free 0; endctx 0; alloc 2 4K; "
     "write 2; free 2"},
    {"beside a relaxed capture",
     "stream 3; stream 4; alloc 0 4K; write 0; begin 3; kernel 3 w0; alloc 1 4K; write 1; "
     "in 1 4; free 1; alloc 2 4K; write 2; end 3 0; launch 0 4; csync; ungraph 0; free 0"},
    {"beside a global capture",
     "stream 3; stream 4; alloc 0 4K; alloc 1 4K; write 1; gbegin 3; in 1 4; kernel 3 r0; "
     "end 3 0; free 1; alloc 2 4K; write 2; launch 0 4; csync; ungraph 0"},
    {"kernels that need each other",
     "stream 3; stream 4; alloc 0 4K; write 0; in 0 3; free 0; need 3 1; alloc 1 4K; write 1; "
     "in 1 4; set 4 1; csync; free 1"},
};

}  // namespace

std::span<const Scenario> scenarios() {
  return kScenarios;
}

}  // namespace custash::property
