// SPDX-License-Identifier: MIT
// Which hooks allocate and free, and which of their arguments say how much and where. No state.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "interpose/observe/nvtx.hpp"
#include "interpose/observe/observe.hpp"

#include <string_view>
#include <tuple>

namespace custash::observe {

enum class CallKind : unsigned char {
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

constexpr CallKind kind_of(std::string_view entry) {
  constexpr std::string_view kPerThread = "_ptsz";
  if (entry.size() > kPerThread.size() &&
      entry.substr(entry.size() - kPerThread.size()) == kPerThread)
    entry.remove_suffix(kPerThread.size());
  if (entry == "cuMemAlloc_v2") return CallKind::Alloc;
  if (entry == "cuMemAllocPitch_v2") return CallKind::AllocPitch;
  if (entry == "cuMemAllocAsync") return CallKind::AllocOn;
  if (entry == "cuMemAllocFromPoolAsync") return CallKind::AllocFrom;
  if (entry == "cuMemFree_v2") return CallKind::Free;
  if (entry == "cuMemFreeAsync") return CallKind::FreeOn;
  if (entry == "cuMemHostAlloc" || entry == "cuMemAllocHost_v2") return CallKind::HostAlloc;
  if (entry == "cuMemFreeHost") return CallKind::HostFree;
  return CallKind::No;
}

// The call failed for memory.
template <CallKind kKind, NullStream kNull, typename All>
void tell_refusal(const All& all) noexcept {
  if constexpr (kKind == CallKind::Alloc) {
    refused(MemoryKind::Device, std::get<1>(all), {});
  } else if constexpr (kKind == CallKind::AllocPitch) {
    refused(MemoryKind::Device, std::get<2>(all) * std::get<3>(all), {});
  } else if constexpr (kKind == CallKind::AllocOn) {
    refused(MemoryKind::Device, std::get<1>(all), {true, std::get<2>(all), kNull});
  } else if constexpr (kKind == CallKind::HostAlloc) {
    refused(MemoryKind::Pinned, std::get<1>(all), {});
  }
}

// `call()`, as a range of NVTX where a tool may look on. A free has no bytes.
template <Entry kEntry, CallKind kKind, typename All, typename Call>
CUresult in_range([[maybe_unused]] const All& all, Call call) noexcept {
  if constexpr (kKind != CallKind::No) {
    if (on()) {
      std::uint64_t bytes = 0;
      if constexpr (kKind == CallKind::Alloc || kKind == CallKind::AllocOn ||
                    kKind == CallKind::AllocFrom || kKind == CallKind::HostAlloc)
        bytes = std::get<1>(all);
      const nvtx::Served served(kEntryNames[static_cast<std::size_t>(kEntry)], bytes);
      return call();
    }
  }
  return call();
}

// Runs `call()`, and informs the watchers where the entry allocates or frees.
template <Entry kEntry, NullStream kNull, typename Call, typename... Args>
CUresult around(Call call, const Args&... args) noexcept {
  constexpr CallKind kKind = kind_of(kEntryNames[static_cast<std::size_t>(kEntry)]);
  [[maybe_unused]] const std::tuple<const Args&...> all(args...);
  if constexpr (kKind == CallKind::Free) {
    if (on()) freed(MemoryKind::Device, std::get<0>(all), {});
  } else if constexpr (kKind == CallKind::FreeOn) {
    if (on()) freed(MemoryKind::Device, std::get<0>(all), {true, std::get<1>(all), kNull});
  } else if constexpr (kKind == CallKind::HostFree) {
    if (on()) freed(MemoryKind::Pinned, reinterpret_cast<Address>(std::get<0>(all)), {});
  }
  const CUresult result = in_range<kEntry, kKind>(all, call);
  if constexpr (kKind != CallKind::No) {
    if (!on()) return result;  // asked after the call: the first one starts the watchers
    if (result != CUDA_SUCCESS) {
      if (result == CUDA_ERROR_OUT_OF_MEMORY) tell_refusal<kKind, kNull>(all);
      if constexpr (kKind == CallKind::Free || kKind == CallKind::FreeOn) {
        if (result == CUDA_ERROR_INVALID_VALUE) free_refused(std::get<0>(all));
      } else if constexpr (kKind == CallKind::HostFree) {
        if (result == CUDA_ERROR_INVALID_VALUE)
          free_refused(reinterpret_cast<Address>(std::get<0>(all)));
      }
      return result;
    }
  }
  if constexpr (kKind == CallKind::Alloc) {
    allocated(MemoryKind::Device, *std::get<0>(all), std::get<1>(all), {});
  } else if constexpr (kKind == CallKind::AllocPitch) {
    allocated(MemoryKind::Device, *std::get<0>(all), *std::get<1>(all) * std::get<3>(all), {});
  } else if constexpr (kKind == CallKind::AllocOn) {
    allocated(MemoryKind::Device,
              *std::get<0>(all),
              std::get<1>(all),
              {true, std::get<2>(all), kNull});
  } else if constexpr (kKind == CallKind::AllocFrom) {
    allocated(MemoryKind::Device,
              *std::get<0>(all),
              std::get<1>(all),
              {true, std::get<3>(all), kNull});
  } else if constexpr (kKind == CallKind::HostAlloc) {
    allocated(
        MemoryKind::Pinned, reinterpret_cast<Address>(*std::get<0>(all)), std::get<1>(all), {});
  }
  return result;
}

}  // namespace custash::observe
