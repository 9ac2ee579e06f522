// SPDX-License-Identifier: MIT
// Right: graphs, and words and calls that look like uses.
#include "tests/process/streams/bed.hpp"

#include <utility>
#include <vector>

namespace check_streams {
namespace {

// Launches that name a block and its end, where a freed block begins.
void ranges(bool reversed) {
  constexpr std::size_t kWhole = 1 << 20;
  const CUstream a = stream();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 8; ++i)
    blocks.push_back(on(a, kWhole));
  for (std::size_t i = 1; i < blocks.size(); i += 2)
    free_on(blocks[i], a);
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    CUdeviceptr first = blocks[i];
    CUdeviceptr second = blocks[i] + kWhole;
    if (reversed) std::swap(first, second);
    launch(function("touch"), a, {&first, &second});
  }
}

}  // namespace

const Programs kRight = {
    {"right_graph", before_free([](const Two& two) {
       const CUgraph graph = captured([&](CUstream s) { use(two.block, s); }, two.b);
       run(executable(graph), two.b);
       order(two.b, two.a);
     })},
    {"right_memory_of_a_graph",
     [] {
       const CUstream a = stream();
       const auto whole_life = [](CUstream s) {
         const CUdeviceptr block = on(s);
         use(block, s);
         free_on(block, s);
       };
       const CUgraphExec exec = executable(captured(whole_life, a));
       for (int i = 0; i < 3; ++i)
         run(exec, a);
       CALL(cuCtxSynchronize);
     }},
    {"right_beside_a_capture",
     [] {
       Two two;
       const CUstream c = stream();
       CUdeviceptr again = 0;
       const auto beside = [&](CUstream captures) {
         use(two.block, two.b);
         order(two.b, two.a);
         free_on(two.block, two.a);
         again = on(two.b);
         use(again, two.b);
         use(again, captures);
       };
       captured(beside, c);
       free_on(again, two.b);
     }},
    {"right_graph_that_waits", before_free([](const Two& two) {
       CUgraph graph = nullptr;
       CUgraphNode node = nullptr;
       const CUgraphNode* const none = nullptr;
       use(two.block, two.b);
       CUevent const event = recorded(two.b);
       CALL(cuGraphCreate, &graph, 0U);
       CALL(cuGraphAddEventWaitNode, &node, graph, none, std::size_t{0}, event);
       run(executable(graph), two.a);
     })},
    // Two numbers may look like an address within a block, or within one that was freed.
    {"right_numbers_in_structures", before_free([](const Two& two) {
       const CUdeviceptr freed = on(two.a);
       const CUdeviceptr other = on(two.a);
       free_on(freed, two.a);
       const unsigned number = 1;
       ByValue value{};
       value.nested[0] = reinterpret_cast<void*>(freed + 4096);  // as sizes of a matrix
       value.nested[1] =
           reinterpret_cast<void*>(freed + 0x493);  // a factor in place of a division
       value.nested[2] = reinterpret_cast<void*>(two.block);
       value.nested[3] = reinterpret_cast<void*>(other + 0x2493);
       launch(function("by_value"), two.b, {&number, &value});
       free_on(other, two.a);
       order(two.b, two.a);
     })},
    {"right_reuse",
     [] {
       Two two;
       for (int i = 0; i < 20; ++i) {
         use(two.block, two.b);
         order(two.b, two.a);
         free_on(two.block, two.a);
         two.block = on(two.a);
         order(two.a, two.b);
       }
     }},
    {"right_ends_of_ranges", [] { ranges(false); }},
    {"right_reversed_ranges", [] { ranges(true); }},
    {"right_nothing_is_copied", after_free([](const Two& two) {
       CALL(cuMemcpyDtoDAsync_v2, two.block, two.block + 8, std::size_t{0}, two.b);
       const unsigned char value = 0;
       CALL(cuMemsetD8Async, two.block, value, std::size_t{0}, two.b);
     })},
    // A place that the program does not fill holds what was on the stack.
    {"right_leftovers_in_structures",
     [] {
       Two two;
       const CUdeviceptr next = on(two.a);
       free_on(two.block, two.a);
       for (const CUdeviceptr left : {two.block, next, CUdeviceptr{0x7ff012345678}}) {
         by_struct(left, two.a);
         by_struct_often(next, two.a);
         by_struct(two.block, two.a);
       }
     }},
    {"right_junk_before_addresses",
     [] {
       Two two;
       by_struct(0x7ff012345678, two.a);
       by_struct_often(two.block, two.a);
       free_on(two.block, two.a);
       by_struct(two.block, two.a);
     }},
    {"right_large_structures",
     [] {
       Two two;
       std::vector<CUdeviceptr> words(512, two.block);
       free_on(two.block, two.a);
       launch(function("large"), two.b, {words.data()});
     }},
};

}  // namespace check_streams
