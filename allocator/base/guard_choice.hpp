// SPDX-License-Identifier: MIT
// GuardChoice: which allocations the option guard: gives pages of their own, and who serves
// them. Pure.
#pragma once

#include <cstdint>
#include <memory>

namespace custash {

class HostSampler;  // pinned/host_sampler.hpp
class Sampler;      // allocator/cache/sampler.hpp
struct HostParts;
struct SamplerParts;

// The first byte that was written beside a guarded block.
struct SlackWrite {
  std::uint64_t address = 0;  // of the block
  std::uint64_t bytes = 0;
  std::uint64_t distance = 0;  // 1: the next byte
  bool past = false;           // the block's end; else before its beginning
};

struct GuardChoice {
  std::uint32_t one_in = 0;  // so many; 0: none
  std::uint32_t seed = 0;    // which of them
  std::uint64_t least = 0;   // bytes that are asked for
  std::uint64_t most = ~0ULL;
  std::uint64_t slack = 4096;  // bytes looked at on each side of a block
  bool fill = false;           // guarded blocks begin as NaN
  // No options. Who makes a sampler for a context and for pinned memory; null: nothing is
  // checked.
  std::unique_ptr<Sampler> (*on_device)(const SamplerParts& parts) = nullptr;
  std::unique_ptr<HostSampler> (*on_host)(const HostParts& parts) = nullptr;
  // Receives what they find. Called without a lock.
  void (*report)(const SlackWrite& what) noexcept = nullptr;

  [[nodiscard]] bool any() const { return one_in != 0; }
};

}  // namespace custash
