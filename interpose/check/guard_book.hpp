// SPDX-License-Identifier: MIT
// GuardBook: the guarded blocks in use and the last that were freed, with their call sites, and
// the last work that was submitted. It answers which block an address belongs to. Pure; its
// owner's lock guards it.
#pragma once

#include "interpose/history/stacks.hpp"
#include "interpose/observe/observe.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace custash::guards {

using Words = std::vector<stacks::Word>;

// The default streams by the handles that name them.
CUstream handle_of(const observe::Stream& stream);

// Whether wrong addresses bring about this error of the device. (Not: memory that is broken, a
// time limit, an assertion of the program's.)
constexpr bool is_of_memory(CUresult code) {
  return code == CUDA_ERROR_ILLEGAL_ADDRESS ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED);
}

// Numbers count allocations, frees and submissions together, from 1 on.
struct Block {
  Address address = 0;
  Bytes bytes = 0;
  observe::MemoryKind memory = observe::MemoryKind::Device;
  int device = 0;
  CUcontext context = nullptr;
  observe::Stream stream;  // of the allocation
  std::uint64_t allocated = 0;
  std::uint64_t freed = 0;  // 0: in use
  Words allocated_by;
  Words freed_by;

  [[nodiscard]] Address end() const { return address + bytes; }
};

// A launch, a copy or a memset.
struct Work {
  static constexpr std::size_t kAddresses = 12;

  std::uint64_t number = 0;
  const char* name = "";  // the kernel's, or the driver call's; stays for ever
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  bool captured = false;  // runs whenever its graph does
  bool graph = false;     // the launch of a graph
  bool over = false;
  Words by;  // the call that submitted it, if that was requested
  std::array<Address, kAddresses> addresses{};
  std::size_t count = 0;

  void note(Address address);
};

// How an access lies to a block.
enum class Place { Inside, PastEnd, BeforeBeginning };

struct Near {
  Block block;
  Place place = Place::Inside;
  Bytes distance = 0;    // of its farthest byte; inside: of its first from the beginning
  bool touches = false;  // it has bytes in common with the block
};

class GuardBook {
 public:
  void allocated(Block block);
  // False: no block in use begins there.
  bool freed(Address address, Words by);
  // Its blocks are forgotten: others may get their addresses.
  void ended(CUcontext context);
  void submitted(Work&& work);
  // What the stream's (all of the context's) work up to `number` has done is over.
  void over(CUcontext context, std::optional<CUstream> stream, std::uint64_t number);

  [[nodiscard]] std::uint64_t now() const { return number_; }

  // The block in use, or else the freed one, to which these bytes are nearest.
  [[nodiscard]] std::optional<Near> nearest(Address address, Bytes bytes = 1) const;
  [[nodiscard]] const Block* living(Address address) const;

  // Oldest first.
  [[nodiscard]] const std::deque<Work>& work() const { return work_; }

 private:
  static constexpr std::size_t kFreed = 16'384;
  static constexpr std::size_t kWork = 64;
  using Blocks = std::map<Address, Block>;

  void forget(Blocks& blocks, const Block& under);

  std::uint64_t number_ = 0;
  Blocks living_;
  Blocks freed_;
  std::deque<Address> oldest_;  // of those freed
  std::deque<Work> work_;
};

}  // namespace custash::guards
