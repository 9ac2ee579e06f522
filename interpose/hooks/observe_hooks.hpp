// SPDX-License-Identifier: MIT
// Which hooks allocate and free, and which of their arguments say how much and where. No state.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "interpose/observe/observe.hpp"

#include <tuple>
#include <type_traits>

namespace custash::observe {

// Whether watchers see the call.
constexpr bool is_watched(Role role) {
  return is_between(role, Role::Alloc, Role::HostFree);
}

// The last argument is the stream, if there is one.
template <Entry kEntry, NullStream kNull, typename... Args>
Call call_of(const std::tuple<const Args&...>& all, CUresult result) {
  constexpr Role kRole = role_of(kEntry);
  constexpr bool kOfHost = kRole == Role::HostAlloc || kRole == Role::HostFree;
  constexpr std::size_t kLast = sizeof...(Args) - 1;
  const auto address = [](auto value) {
    if constexpr (kOfHost)
      return reinterpret_cast<Address>(value);
    else
      return Address{value};
  };
  Call call{.name = name_of(kEntry)};
  if constexpr (kOfHost) call.memory = MemoryKind::Pinned;
  if constexpr (kRole == Role::Free || kRole == Role::HostFree) {
    call.is_free = true;
    call.address = address(std::get<0>(all));
  } else {
    if (result == CUDA_SUCCESS) call.address = address(*std::get<0>(all));
    if constexpr (kRole != Role::AllocPitch)
      call.bytes = std::get<1>(all);
    else
      call.bytes =
          (result == CUDA_SUCCESS ? *std::get<1>(all) : std::get<2>(all)) * std::get<3>(all);
  }
  if constexpr (std::is_same_v<std::tuple_element_t<kLast, std::tuple<Args...>>, CUstream>)
    call.stream = {true, std::get<kLast>(all), kNull};
  return call;
}

// Runs `make()`, and shows it to the watchers if the entry allocates or frees.
template <Entry kEntry, NullStream kNull, typename Make, typename... Args>
CUresult around(Make make, const Args&... args) noexcept {
  if constexpr (!is_watched(role_of(kEntry))) {
    return make();
  } else {
    const std::tuple<const Args&...> all(args...);
    return around([&](CUresult result) { return call_of<kEntry, kNull>(all, result); }, make);
  }
}

}  // namespace custash::observe
