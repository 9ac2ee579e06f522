// SPDX-License-Identifier: MIT
// Which doors allocate and free, and where their arguments say what. No state.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "interpose/observe/observe.hpp"

#include <string_view>
#include <tuple>

namespace custash::observe {

enum class Watched : unsigned char {
  No,
  Alloc,
  AllocPitch,
  AllocOn,
  AllocFrom,
  Free,
  FreeOn,
  HostAlloc,
  HostFree
};

constexpr Watched watched(std::string_view entry) {
  constexpr std::string_view kPerThread = "_ptsz";
  if (entry.size() > kPerThread.size() &&
      entry.substr(entry.size() - kPerThread.size()) == kPerThread)
    entry.remove_suffix(kPerThread.size());
  if (entry == "cuMemAlloc_v2") return Watched::Alloc;
  if (entry == "cuMemAllocPitch_v2") return Watched::AllocPitch;
  if (entry == "cuMemAllocAsync") return Watched::AllocOn;
  if (entry == "cuMemAllocFromPoolAsync") return Watched::AllocFrom;
  if (entry == "cuMemFree_v2") return Watched::Free;
  if (entry == "cuMemFreeAsync") return Watched::FreeOn;
  if (entry == "cuMemHostAlloc" || entry == "cuMemAllocHost_v2") return Watched::HostAlloc;
  if (entry == "cuMemFreeHost") return Watched::HostFree;
  return Watched::No;
}

// The door failed for memory.
template <Watched kWatched, NullStream kNull, typename All>
void tell_refusal(const All& all) noexcept {
  if constexpr (kWatched == Watched::Alloc) {
    refused(Memory::Device, std::get<1>(all), {});
  } else if constexpr (kWatched == Watched::AllocOn) {
    refused(Memory::Device, std::get<1>(all), {true, std::get<2>(all), kNull});
  } else if constexpr (kWatched == Watched::HostAlloc) {
    refused(Memory::Pinned, std::get<1>(all), {});
  }
}

// What a door does: `call()`, told to the watchers where the entry is one that allocates or
// frees.
template <Entry kEntry, NullStream kNull, typename Call, typename... Args>
CUresult around(Call call, const Args&... args) noexcept {
  constexpr Watched kWatched = watched(kEntryNames[static_cast<std::size_t>(kEntry)]);
  [[maybe_unused]] const std::tuple<const Args&...> all(args...);
  if constexpr (kWatched == Watched::Free) {
    if (on()) freed(Memory::Device, std::get<0>(all), {});
  } else if constexpr (kWatched == Watched::FreeOn) {
    if (on()) freed(Memory::Device, std::get<0>(all), {true, std::get<1>(all), kNull});
  } else if constexpr (kWatched == Watched::HostFree) {
    if (on()) freed(Memory::Pinned, reinterpret_cast<Address>(std::get<0>(all)), {});
  }
  const CUresult result = call();
  if constexpr (kWatched != Watched::No) {
    if (!on()) return result;
    if (result != CUDA_SUCCESS) {
      if (result == CUDA_ERROR_OUT_OF_MEMORY) tell_refusal<kWatched, kNull>(all);
      return result;
    }
  }
  if constexpr (kWatched == Watched::Alloc) {
    allocated(Memory::Device, *std::get<0>(all), std::get<1>(all), {});
  } else if constexpr (kWatched == Watched::AllocPitch) {
    allocated(Memory::Device, *std::get<0>(all), *std::get<1>(all) * std::get<3>(all), {});
  } else if constexpr (kWatched == Watched::AllocOn) {
    allocated(
        Memory::Device, *std::get<0>(all), std::get<1>(all), {true, std::get<2>(all), kNull});
  } else if constexpr (kWatched == Watched::AllocFrom) {
    allocated(
        Memory::Device, *std::get<0>(all), std::get<1>(all), {true, std::get<3>(all), kNull});
  } else if constexpr (kWatched == Watched::HostAlloc) {
    allocated(
        Memory::Pinned, reinterpret_cast<Address>(*std::get<0>(all)), std::get<1>(all), {});
  }
  return result;
}

}  // namespace custash::observe
