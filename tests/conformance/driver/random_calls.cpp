// SPDX-License-Identifier: MIT
// Random programs over the ways to get device memory: plain and pitched memory, pools of the
// program's own. Some pools have a maximum size or lose a reuse policy, and some end before
// their blocks. Each block is filled, and read at both of its ends whenever a later step asks.
// What is said (pitches, what pools have in use, wrong bytes) must be the same bare and
// preloaded, but for the lines that begin with #.
//
//   random_calls COUNT SEED
#include "tests/conformance/driver/driver.hpp"
#include "tests/conformance/properties.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

using namespace semantics;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kMostBlocks = 24;

struct Block {
  CUdeviceptr at = 0;
  std::size_t bytes = 0;
  std::size_t pool = 0;   // 0: none; else one more than its number
  bool outlives = false;  // its pool is destroyed
  unsigned char byte = 0;
};

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) {}

  void run() {
    for (Pool& pool : pools_)
      make_pool(pool);
    for (CUstream& stream : streams_)
      note(call("cuStreamCreate", &stream, unsigned{CU_STREAM_NON_BLOCKING}));
    for (int step = 0; step < 300; ++step)
      one();
    while (!blocks_.empty())
      free_one();
    for (CUstream stream : streams_) {
      note(call("cuStreamSynchronize", stream));
      note(call("cuStreamDestroy_v2", stream));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      say_use(i);
      note(call("cuMemPoolDestroy", pools_[i].handle));
    }
    std::printf("sum %zu wrong %d\n", sum_, wrong_);
    std::printf("# served %zu\n", served_);
  }

 private:
  struct Pool {
    CUmemoryPool handle = nullptr;
    std::size_t most = 0;  // 0: no limit
    std::size_t in_use = 0;
  };

  void make_pool(Pool& pool) {
    CUmemPoolProps wanted = properties::of_pool();
    pool = {.most = below(2) * 8 * kMiB};
    // maxSize, which older toolkits do not name.
    std::memcpy(reinterpret_cast<char*>(&wanted.win32SecurityAttributes) + sizeof(void*),
                &pool.most,
                sizeof pool.most);
    note(call("cuMemPoolCreate", &pool.handle, static_cast<const CUmemPoolProps*>(&wanted)));
  }

  // Another takes its place, or it loses a policy. Not where it is limited: custash and the
  // driver would then each allow as much.
  void change_pool(std::size_t number) {
    Pool& pool = pools_[number];
    if (pool.most == 0 && below(2) == 0) {
      int no = 0;
      note(call("cuMemPoolSetAttribute",
                pool.handle,
                CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                static_cast<void*>(&no)));
      return;
    }
    note(call("cuMemPoolDestroy", pool.handle));
    for (Block& block : blocks_)
      block.outlives |= block.pool == number + 1;
    make_pool(pool);
  }

  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

  void add(std::size_t value) { sum_ = sum_ * 31 + value; }

  void note(CUresult result) {
    add(static_cast<std::size_t>(result));
    wrong_ += result != CUDA_SUCCESS ? 1 : 0;
  }

  void one() {
    switch (below(7)) {
      case 0:
        return plain();
      case 1:
      case 2:
        return pitched();
      case 3:
        return from_pool();
      case 4:
        return free_one();
      case 5:
        return below(4) == 0 ? change_pool(below(2)) : free_one();
      default:
        return check_all();
    }
  }

  void enter(Block block, std::size_t before) {
    if (allocated() > before) ++served_;
    block.byte = static_cast<unsigned char>(1 + below(250));
    note(call("cuMemsetD8_v2", block.at, block.byte, block.bytes));
    note(call("cuStreamSynchronize", CUstream{nullptr}));
    blocks_.push_back(block);
  }

  void plain() {
    if (blocks_.size() >= kMostBlocks) return;
    Block block{.bytes = 1 + below(3 * kMiB)};
    const std::size_t before = allocated();
    note(call("cuMemAlloc_v2", &block.at, block.bytes));
    enter(block, before);
  }

  void pitched() {
    if (blocks_.size() >= kMostBlocks) return;
    constexpr std::size_t kWidths[] = {1, 100, 513, 1000, 4096, 70000};
    constexpr unsigned kElements[] = {4, 8, 16};
    const std::size_t width = kWidths[below(6)];
    const std::size_t height = 1 + below(12);
    Block block;
    std::size_t pitch = 0;
    const std::size_t before = allocated();
    note(call("cuMemAllocPitch_v2", &block.at, &pitch, width, height, kElements[below(3)]));
    add(pitch);
    block.bytes = pitch * (height - 1) + width;
    CUdeviceptr base = 0;
    std::size_t size = 0;
    note(call("cuMemGetAddressRange_v2",
              &base,
              &size,
              block.at + below(static_cast<unsigned>(width))));
    add(base - block.at);
    add(size);
    enter(block, before);
  }

  // Whole granules: drivers round what is in use, each in its way.
  void from_pool() {
    if (blocks_.size() >= kMostBlocks) return;
    const std::size_t number = below(2);
    // Mostly the pool's own: only then is it answered without a look at other streams.
    CUstream stream = streams_[below(4) == 0 ? 1 - number : number];
    Block block{.bytes = (below(4) == 0 ? 4 : 2) * kMiB, .pool = number + 1};
    Pool& pool = pools_[number];
    const std::size_t before = allocated();
    const CUresult result =
        call("cuMemAllocFromPoolAsync", &block.at, block.bytes, pool.handle, stream);
    if (pool.most != 0 && pool.in_use + block.bytes > pool.most) {
      wrong_ += result != CUDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
      return;
    }
    note(result);
    note(call("cuStreamSynchronize", stream));
    enter(block, before);
    pool.in_use += block.bytes;
    say_use(number);
  }

  void say_use(std::size_t number) {
    std::uint64_t used = 0;
    note(call("cuMemPoolGetAttribute",
              pools_[number].handle,
              CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
              static_cast<void*>(&used)));
    add(used);
    wrong_ += used != pools_[number].in_use ? 1 : 0;
  }

  void free_one() {
    if (blocks_.empty()) return;
    const std::size_t number = below(static_cast<unsigned>(blocks_.size()));
    const Block block = blocks_[number];
    check(block);
    blocks_[number] = blocks_.back();
    blocks_.pop_back();
    CUstream stream = streams_[block.pool == 2 ? 1 : 0];
    if (block.pool == 0) {
      note(call("cuMemFree_v2", block.at));
    } else {
      note(call("cuMemFreeAsync", block.at, stream));
      note(call("cuStreamSynchronize", stream));
      if (block.outlives) return;
      pools_[block.pool - 1].in_use -= block.bytes;
      say_use(block.pool - 1);
    }
  }

  void check(const Block& block) {
    for (const std::size_t at : {std::size_t{0}, block.bytes - 1}) {
      unsigned char byte = 0;
      note(call("cuMemcpyDtoH_v2", static_cast<void*>(&byte), block.at + at, std::size_t{1}));
      wrong_ += byte != block.byte ? 1 : 0;
    }
  }

  void check_all() {
    for (const Block& block : blocks_)
      check(block);
  }

  std::minstd_rand random_;
  std::vector<Block> blocks_;
  Pool pools_[2];
  CUstream streams_[2] = {};
  std::size_t sum_ = 0;
  std::size_t served_ = 0;
  int wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  start();
  const unsigned seed = static_cast<unsigned>(std::atoi(argv[2]));
  for (unsigned i = 0; i < static_cast<unsigned>(std::atoi(argv[1])); ++i)
    Program(seed + i).run();
  return 0;
}
