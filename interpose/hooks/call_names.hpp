// SPDX-License-Identifier: MIT
// Call names: the addresses that a call names, for the core, which asks where a capture takes
// the call in. A copy out of host memory may carry addresses itself, and so may what custash
// does not know: such a call may name any block. No state.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "allocator/submission.hpp"
#include "interpose/process/process.hpp"

#include <tuple>
#include <vector>

namespace custash::call_names {

using Reading = Captures::Reading;

Reading of_kernel(const void* function, void** params, void** extra, std::vector<Address>* out);

// `first`, `second`: as in entry_points.def, for a copy its target and its source.
template <Entry kEntry, typename... Args>
Reading read(std::vector<Address>* out, Address first, Address second, const Args&... args) {
  constexpr Role kRole = role_of(kEntry);
  [[maybe_unused]] const auto all = std::tie(args...);
  if constexpr (kRole == Role::Launch) {
    return of_kernel(std::get<0>(all), std::get<9>(all), std::get<10>(all), out);
  } else if constexpr (kRole == Role::LaunchCooperative) {
    return of_kernel(std::get<0>(all), std::get<9>(all), nullptr, out);
  } else {
    out->push_back(first);
    out->push_back(second);
    constexpr bool kOfDevice = is_set(kRole) || kRole == Role::CopyDeviceToHost ||
                               kRole == Role::CopyDeviceToDevice ||
                               kRole == Role::CopyDeviceToArray || kRole == Role::CopyPeer;
    constexpr bool kByAddress =
        kRole == Role::Copy || kRole == Role::CopyBox || kRole == Role::CopyBoxPeer;
    const Allocator* const core = process::core();
    const bool ours = kByAddress && core != nullptr && core->owns(second);
    return kOfDevice || ours ? Reading::Whole : Reading::None;
  }
}

// `names(addresses)`: as read().
template <typename Names>
CallNames ask(const Names& names) {
  return {
      .read = [](const void* call,
                 std::vector<Address>* out) { return (*static_cast<const Names*>(call))(out); },
      .call = &names};
}

}  // namespace custash::call_names
