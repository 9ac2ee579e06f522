// SPDX-License-Identifier: MIT
// Each is right on bare CUDA; the test checks that, too. One idea each.
#include "tests/fault/scenarios.hpp"

namespace custash::property {
namespace {

constexpr Scenario kScenarios[] = {
    {"one small block", "malloc 0 100; free 0"},
    {"one large block", "malloc 0 3M; free 0"},
    {"a very large block", "malloc 0 300M; kernel 0 w0; free 0"},
    {"a block of each kind",
     "malloc 0 1; malloc 1 1M; malloc 2 5M; kernel 0 w0 w1 w2; free 1; free 0; free 2"},
    {"a free behind a kernel", "malloc 0 4K; kernel 0 w0; free 0; malloc 1 4K; kernel 0 w1"},
    {"a large free behind a kernel",
     "malloc 0 9M; kernel 0 w0; free 0; malloc 1 9M; kernel 0 w1"},
    {"many small blocks of one class",
     "malloc 0 300K; malloc 1 300K; malloc 2 300K; malloc 3 300K; malloc 4 300K; malloc 5 "
     "300K; malloc 6 300K;"
     "kernel 0 w0 w6; free 0; free 1; free 2; free 3; free 4; free 5; free 6; trim"},
    {"reuse on a second stream",
     "stream 3; stream 4; malloc 0 4K; kernel 3 w0; free 0; malloc 1 4K; kernel 4 w1"},
    {"large reuse on a second stream",
     "stream 3; stream 4; malloc 0 21M; kernel 3 w0; free 0; malloc 1 21M; kernel 4 w1"},
    {"debt with two streams at work",
     "stream 3; stream 4; malloc 0 21M; malloc 1 21M; malloc 2 21M; kernel 3 w0; kernel 4 w1 "
     "w2; free 0; free 1; free 2;"
     "malloc 3 21M; malloc 4 21M; malloc 5 21M; kernel 4 w3; kernel 3 w4 w5"},
    {"debt towards the legacy stream",
     "stream 3; malloc 0 1M; kernel 3 w0; free 0; malloc 1 1M; kernel 0 w1; kernel 1 w1"},
    {"the per-thread stream",
     "malloc 0 4K; kernel 2 w0; free 0; malloc 1 4K; kernel 0 w1; free 1; malloc 2 4K; kernel "
     "2 w2"},
    {"blocking streams",
     "bstream 3; bstream 4; malloc 0 1M; kernel 3 w0; kernel 0 w0; kernel 4 w0; free 0; malloc "
     "1 1M; kernel 4 w1"},
    {"stream-ordered on one stream",
     "stream 3; amalloc 0 4K 3; kernel 3 w0; afree 0 3; amalloc 1 4K 3; kernel 3 w1; afree 1 "
     "3"},
    {"stream-ordered across streams",
     "stream 3; stream 4; kernel 4; amalloc 0 4K 3; kernel 3 w0; afree 0 3; amalloc 1 4K 4; "
     "kernel 4 w1; afree 1 4"},
    {"large and stream-ordered across streams",
     "stream 3; stream 4; kernel 4; amalloc 0 21M 3; amalloc 1 21M 3; amalloc 2 21M 3; kernel "
     "3 w0 w1 w2; afree 0 3; afree 1 3; afree 2 3;"
     "amalloc 3 21M 4; amalloc 4 21M 4; kernel 4 w3 w4; afree 3 4; afree 4 4"},
    {"allocated on a stream, freed plainly",
     "stream 3; amalloc 0 3M 3; kernel 3 w0; free 0; malloc 1 3M; kernel 0 w1"},
    {"allocated plainly, freed on a stream",
     "stream 3; malloc 0 3M; kernel 3 w0; afree 0 3; malloc 1 3M; kernel 0 w1"},
    {"freed on the legacy stream behind a blocking one",
     "bstream 3; malloc 0 4K; kernel 3 w0; afree 0 0; malloc 1 4K; stream 4; kernel 4 w1"},
    {"record_stream",
     "stream 3; stream 4; amalloc 0 4K 3; sync 3; kernel 4 w0; share 0 4; afree 0 3; amalloc 1 "
     "4K 3; kernel 3 w1"},
    {"a stream that ends with work",
     "stream 3; stream 4; malloc 0 4K; kernel 3 w0; unstream 3; free 0; malloc 1 4K; kernel 4 "
     "w1"},
    {"a stream that ends with memory",
     "stream 3; amalloc 0 3M 3; kernel 3 w0; afree 0 3; unstream 3; stream 4; amalloc 1 3M 4; "
     "kernel 4 w1"},
    {"a copy to the host, then its source freed",
     "malloc 0 4K; kernel 0 w0; tohost 0 0 0; free 0; hostread 0"},
    {"copies to the host on two streams",
     "stream 3; stream 4; malloc 0 4K; malloc 1 4K; tohost 3 0 0; tohost 4 1 1; free 1; "
     "hostread 0; hostread 1; free 0"},
    {"a host function", "stream 3; malloc 0 4K; hostfn 3; free 0; kernel 3"},
    {"copies and fills",
     "malloc 0 1M; malloc 1 1M; fromhost 0 0 0; copy 0 1 0; memset 0 0; tohost 0 1 1; free 0; "
     "hostread 1; free 1"},
    {"events between streams",
     "stream 3; stream 4; malloc 0 4K; kernel 3 w0; record 0 3; wait 0 4; kernel 4 w0; afree 0 "
     "4; malloc 1 4K; kernel 3 w1"},
    {"waits of the host",
     "stream 3; malloc 0 4K; kernel 3 w0; sync 3; free 0; malloc 1 4K; kernel 0 w1; csync; "
     "free 1"},
    {"empty_cache with all free",
     "malloc 0 3M; malloc 1 100; free 0; free 1; trim; malloc 2 3M"},
    {"empty_cache with work in flight",
     "stream 3; malloc 0 3M; malloc 1 3M; kernel 3 w0; free 0; trim; malloc 2 3M; kernel 3 w2 "
     "w1; trim"},
    {"empty_cache between live blocks",
     "malloc 0 40M; malloc 1 40M; malloc 2 40M; free 1; trim; malloc 3 40M; kernel 0 w0 w2 w3"},
    {"holes that grow again",
     "malloc 0 9M; malloc 1 9M; free 0; csync; trim; malloc 2 12M; malloc 3 5M; kernel 0 w2 "
     "w3"},
    {"a capture",
     "stream 3; malloc 0 4K; begin 3; kernel 3 w0; end 3 0; launch 0 3; launch 0 3; sync 3; "
     "ungraph 0; free 0"},
    {"memory in a capture",
     "stream 3; begin 3; malloc 0 4K; kernel 3 w0; end 3 0; launch 0 3; sync 3; ungraph 0; "
     "free 0"},
    {"a free in a capture",
     "stream 3; stream 4; malloc 0 3M; kernel 4 w0; begin 3; kernel 3; free 0; malloc 1 3M; "
     "end 3 0; kernel 4 w1; ungraph 0"},
    {"debt before a capture",
     "stream 3; stream 4; malloc 0 4K; kernel 4 w0; free 0; malloc 1 4K; begin 3; kernel 3 w1; "
     "end 3 0; launch 0 3; sync 3; ungraph 0"},
    {"work beside a global capture",
     "stream 3; stream 4; malloc 0 4K; gbegin 3; kernel 4 w0; kernel 3 w0; end 3 0; free 0; "
     "malloc 1 4K; kernel 4 w1; ungraph 0"},
    {"two contexts of a device",
     "newctx 2; malloc 0 4K; kernel 0 w0; ctx 0; malloc 1 4K; kernel 0 w1; free 1; ctx 2; free "
     "0; malloc 2 3M"},
    {"a context that ends",
     "newctx 2; malloc 0 3M; malloc 1 100; kernel 0 w0 w1; free 1; endctx 2; malloc 2 3M; "
     "kernel 0 w2"},
    {"two devices",
     "malloc 0 3M; kernel 0 w0; ctx 1; malloc 1 3M; kernel 0 w1; free 1; malloc 2 3M; kernel 0 "
     "w2; ctx 0; free 0"},
    {"kernels that need each other",
     "stream 3; stream 4; malloc 0 4K; kernel 3 w0; free 0; need 3 1; malloc 1 4K; set 4 1 w1; "
     "sync 3"},
    {"kernels that need each other, large",
     "stream 3; stream 4; malloc 0 21M; malloc 1 21M; malloc 2 21M; kernel 3 w0 w1 w2; free 0; "
     "free 1; free 2; need 3 1; malloc 3 21M; malloc 4 21M;"
     "set 4 1 w3 w4; sync 3"},
    {"sleep with all kinds of blocks",
     "stream 3; malloc 0 3M; malloc 1 100; malloc 2 5M; kernel 3 w0 w1 w2; free 2; sleep; kernel 3 "
     "r0 r1; sync 3; free 0"},
    {"sleep, and blocks come and go meanwhile",
     "malloc 0 3M; malloc 1 9M; kernel 0 w0 w1; sleep; free 0; malloc 2 3M; malloc 3 30M; trim; "
     "kernel 0 w1 w2 w3"},
    {"sleep twice, beside another context",
     "newctx 2; malloc 0 3M; kernel 0 w0; ctx 0; malloc 1 3M; kernel 0 w1; sleep; ctx 2; kernel 0 "
     "r0; ctx 0; sleep; free 1; kernel 0"},
    {"sleep again with more memory",
     "malloc 0 3M; kernel 0 w0; sleep; malloc 1 9M; kernel 0 r0 w1; sleep; malloc 2 5M; kernel 0 r1 "
     "w2; sleep; kernel 0 r0 r1 r2"},
    {"sleep in two portions, and the rest",
     "malloc 0 3M; malloc 1 30M; malloc 2 9M; kernel 0 w0 w1 w2; nod 1; nod 3000000; sleep; free 1; "
     "kernel 0 r0 r2"},
    {"sleep in part, and pages come and go between the portions",
     "malloc 0 30M; malloc 1 40M; kernel 0 w0 w1; nod 1; free 0; trim; malloc 0 30M; nod 1; kernel 0 "
     "w0 r1"},
    {"a context that ends while it sleeps",
     "newctx 2; malloc 0 3M; kernel 0 w0; ctx 0; malloc 1 3M; kernel 0 w1; sleep; endctx 2; "
     "malloc 2 3M; kernel 0 r1 w2"},
    {"sleep, and part of a page does not come back",
     "malloc 1 30M; free 1; malloc 0 3M; kernel 0 w0; sleep; malloc 2 9M; kernel 0 r0 w2; sleep; "
     "free 0"},
    {"a deep trim with all kinds of blocks",
     "stream 3; malloc 4 40M; free 4; malloc 0 3M; malloc 1 100; malloc 2 9M; malloc 3 3M; kernel 3 "
     "w0 w1 w3; free 2; deep; kernel 3 r0 r1 r3; sync 3; malloc 5 9M; kernel 0 w5; free 0"},
    {"a deep trim beside another context, then sleep",
     "newctx 2; malloc 1 30M; free 1; malloc 0 3M; kernel 0 w0; ctx 0; malloc 2 20M; free 2; malloc 3 "
     "3M; kernel 0 w3; deep; ctx 2; kernel 0 r0; ctx 0; sleep; kernel 0 r3"},
    {"a context that ends after a deep trim",
     "newctx 2; malloc 1 30M; free 1; malloc 0 3M; kernel 0 w0; deep; endctx 2; malloc 3 3M; kernel "
     "0 w3"},
    {"little memory: what is cached goes",
     "malloc 0 20M; free 0; malloc 1 30M; kernel 0 w1; free 1; malloc 2 40M; kernel 0 w2",
     64_MiB},
    {"little memory: what is in limbo goes",
     "stream 3; malloc 0 20M; kernel 3 w0; free 0; malloc 1 50M; kernel 0 w1",
     64_MiB},
    {"little memory: another stream's",
     "stream 3; stream 4; amalloc 0 30M 3; kernel 3 w0; afree 0 3; amalloc 1 50M 4; kernel 4 "
     "w1",
     64_MiB},
    {"little memory: small blocks",
     "malloc 0 1M; malloc 1 1M; malloc 2 1M; free 0; free 1; free 2; malloc 3 60M",
     64_MiB},
    {"little memory: another context's",
     "newctx 2; malloc 0 40M; kernel 0 w0; free 0; ctx 0; malloc 1 40M; kernel 0 w1",
     64_MiB},
};

}  // namespace

std::span<const Scenario> scenarios() {
  return kScenarios;
}

}  // namespace custash::property
