// SPDX-License-Identifier: MIT
// Random programs.
#include "tests/process/streams/bed.hpp"
#include "tests/sim/detector_abi.h"

#include <iterator>
#include <random>
#include <vector>

namespace check_streams {

// Blocks on several streams, each step at random. Some steps forget to order streams. Bare, the
// race detector says how many frees and uses were in no order.
void random_program(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) { return std::size_t{random()} % count; };
  const CUstream streams[] = {
      stream(), stream(), stream(CU_STREAM_DEFAULT), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  const auto any = [&] { return streams[below(std::size(streams))]; };

  struct Block {
    CUdeviceptr address;
    std::vector<CUstream> users;
  };

  std::vector<Block> blocks;
  auto* const find = reinterpret_cast<const custash_sim_detector_calls* (*)()>(
      dlsym(library, "custash_sim_detector"));
  const custash_sim_detector_calls* const detector = find();
  const bool careful = seed % 2 == 0;
  const auto order_unless_forgotten = [&](CUstream from, CUstream to) {
    if (!careful && below(12) == 0) return;
    // check_streams takes a wait for the legacy stream for one for blocking streams, too. The
    // simulator does not.
    if (below(8) == 0 && from != CU_STREAM_LEGACY) return CALL(cuStreamSynchronize, from);
    order(from, to);
  };
  const auto give_back = [&](std::size_t index) {
    const Block block = blocks[index];
    const CUstream s = any();
    for (const CUstream each : block.users)
      order_unless_forgotten(each, s);
    const auto* const memory = reinterpret_cast<const void*>(block.address);
    if (detector != nullptr)
      detector->freed(memory, 1, s);  // no more: the driver's pool would order its reuse
    else
      free_on(block.address, s);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (int step = 0; step < 60; ++step) {
    const CUstream s = any();
    if (blocks.empty() || below(4) == 0) {
      blocks.push_back({on(s), {s}});
      (void)recorded(s);  // so that the detector sees the allocation's place on its stream
      const auto* const memory = reinterpret_cast<const void*>(blocks.back().address);
      if (detector != nullptr) detector->allocated(memory, kBytes, 1, s);
    } else if (below(4) == 0) {
      give_back(below(blocks.size()));
    } else if (below(20) == 0) {
      CALL(cuCtxSynchronize);
    } else {
      Block& block = blocks[below(blocks.size())];
      const unsigned char value = 1;
      order_unless_forgotten(block.users.front(), s);
      const auto fill = [&](CUstream on_it) {
        CALL(cuMemsetD8Async, block.address, value, kBytes, on_it);
      };
      if (below(3) == 0)
        run(executable(captured(fill)), s);
      else
        fill(s);
      block.users.push_back(s);
    }
  }
  while (!blocks.empty())
    give_back(0);
  CALL(cuCtxSynchronize);
  if (detector != nullptr)
    std::printf(
        "%zu %zu\n", detector->count("free unordered"), detector->count("before allocation"));
}

}  // namespace check_streams
