// SPDX-License-Identifier: MIT
// What the programs of check_streams share: streams, blocks and events in few words.
#pragma once

#include "tests/process/calls.hpp"
#include "tests/process/parameters.hpp"

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>

namespace check_streams {

using namespace calls;

using Program = std::function<void()>;
using Programs = std::map<std::string, Program>;

// ---- The programs. Of those whose name begins with right_ nothing is to be found.
extern const Programs kFrees;
extern const Programs kGraphs;
extern const Programs kOutside;
extern const Programs kPools;
extern const Programs kOrders;
extern const Programs kRight;
void random_program(unsigned seed);

// ---- Memory.
constexpr std::size_t kBytes = 100'000;  // no multiple of 512: nothing begins at its end

CUdeviceptr plain(std::size_t bytes = kBytes);
CUdeviceptr on(CUstream s, std::size_t bytes = kBytes);
void free_on(CUdeviceptr block, CUstream s);
void* pinned();

// ---- Streams and their order.
CUevent event();
CUevent recorded(CUstream s);
void wait(CUstream s, CUevent e);
// `to` comes after all that `from` has.
void order(CUstream from, CUstream to);

// What most begin with: a block of stream a that stream b may use.
struct Two {
  CUstream a = stream();
  CUstream b = stream();
  CUdeviceptr block = on(a);

  Two() { order(a, b); }
};

// Programs that do something with the block before it is freed on its stream, or afterwards.
template <typename Body>
Program before_free(Body body) {
  return [body] {
    Two two;
    body(two);
    free_on(two.block, two.a);
  };
}

template <typename Body>
Program after_free(Body body) {
  return [body] {
    Two two;
    free_on(two.block, two.a);
    body(two);
  };
}

// ---- Kernels.
CUfunction function(const char* name);
void launch(CUfunction what, CUstream s, std::initializer_list<const void*> params);
void use(CUdeviceptr block, CUstream s);
void by_struct(CUdeviceptr block, CUstream s);
// So often that the place in the structure is an address for certain.
void by_struct_often(CUdeviceptr block, CUstream s);

// ---- Graphs.
// Of the calls on a stream that `body` makes.
template <typename Body>
CUgraph captured(Body body, CUstream s = stream()) {
  CUgraph graph = nullptr;
  CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  body(s);
  CALL(cuStreamEndCapture, s, &graph);
  return graph;
}

CUgraphExec executable(CUgraph graph);
void run(CUgraphExec graph, CUstream s);

// A host function.
inline void nothing(void*) {
}

template <typename Body>
void in_thread(Body body) {
  std::thread([&] {
    CALL(cuCtxSetCurrent, context);
    body();
  }).join();
}

}  // namespace check_streams
