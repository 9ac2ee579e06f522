// SPDX-License-Identifier: MIT
// Which hooks allocate and free, and which of their arguments say how much and where. No state.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "interpose/observe/nvtx.hpp"
#include "interpose/observe/observe.hpp"

#include <tuple>

namespace custash::observe {

// Whether watchers hear of the call.
constexpr bool is_watched(Role role) {
  return is_between(role, Role::Alloc, Role::HostFree);
}

// The call failed for memory.
template <Role kRole, NullStream kNull, typename All>
void tell_refusal(const All& all) noexcept {
  if constexpr (kRole == Role::Alloc) {
    refused(MemoryKind::Device, std::get<1>(all), {});
  } else if constexpr (kRole == Role::AllocPitch) {
    refused(MemoryKind::Device, std::get<2>(all) * std::get<3>(all), {});
  } else if constexpr (kRole == Role::AllocOn) {
    refused(MemoryKind::Device, std::get<1>(all), {true, std::get<2>(all), kNull});
  } else if constexpr (kRole == Role::HostAlloc) {
    refused(MemoryKind::Pinned, std::get<1>(all), {});
  }
}

// `call()`, as a range of NVTX where a tool may look on. A free has no bytes.
template <Entry kEntry, Role kRole, typename All, typename Call>
CUresult in_range([[maybe_unused]] const All& all, Call call) noexcept {
  if constexpr (is_watched(kRole)) {
    if (on()) {
      std::uint64_t bytes = 0;
      if constexpr (kRole == Role::Alloc || kRole == Role::AllocOn ||
                    kRole == Role::AllocFrom || kRole == Role::HostAlloc)
        bytes = std::get<1>(all);
      const nvtx::Served served(name_of(kEntry), bytes);
      return call();
    }
  }
  return call();
}

// Runs `call()`, and informs the watchers where the entry allocates or frees.
template <Entry kEntry, NullStream kNull, typename Call, typename... Args>
CUresult around(Call call, const Args&... args) noexcept {
  constexpr Role kRole = role_of(kEntry);
  [[maybe_unused]] const std::tuple<const Args&...> all(args...);
  if constexpr (kRole == Role::Free) {
    if (on()) freed(MemoryKind::Device, std::get<0>(all), {});
  } else if constexpr (kRole == Role::FreeOn) {
    if (on()) freed(MemoryKind::Device, std::get<0>(all), {true, std::get<1>(all), kNull});
  } else if constexpr (kRole == Role::HostFree) {
    if (on()) freed(MemoryKind::Pinned, reinterpret_cast<Address>(std::get<0>(all)), {});
  }
  const CUresult result = in_range<kEntry, kRole>(all, call);
  if constexpr (is_watched(kRole)) {
    if (!on()) return result;  // asked after the call: the first one starts the watchers
    if (result != CUDA_SUCCESS) {
      if (result == CUDA_ERROR_OUT_OF_MEMORY) tell_refusal<kRole, kNull>(all);
      if constexpr (kRole == Role::Free || kRole == Role::FreeOn) {
        if (result == CUDA_ERROR_INVALID_VALUE) free_refused(std::get<0>(all));
      } else if constexpr (kRole == Role::HostFree) {
        if (result == CUDA_ERROR_INVALID_VALUE)
          free_refused(reinterpret_cast<Address>(std::get<0>(all)));
      }
      return result;
    }
  }
  if constexpr (kRole == Role::Alloc) {
    allocated(MemoryKind::Device, *std::get<0>(all), std::get<1>(all), {});
  } else if constexpr (kRole == Role::AllocPitch) {
    allocated(MemoryKind::Device, *std::get<0>(all), *std::get<1>(all) * std::get<3>(all), {});
  } else if constexpr (kRole == Role::AllocOn) {
    allocated(MemoryKind::Device,
              *std::get<0>(all),
              std::get<1>(all),
              {true, std::get<2>(all), kNull});
  } else if constexpr (kRole == Role::AllocFrom) {
    allocated(MemoryKind::Device,
              *std::get<0>(all),
              std::get<1>(all),
              {true, std::get<3>(all), kNull});
  } else if constexpr (kRole == Role::HostAlloc) {
    allocated(
        MemoryKind::Pinned, reinterpret_cast<Address>(*std::get<0>(all)), std::get<1>(all), {});
  }
  return result;
}

}  // namespace custash::observe
