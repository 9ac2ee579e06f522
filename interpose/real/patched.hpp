// SPDX-License-Identifier: MIT
// Whether another library has patched the code of an exported entry to hear of memory, as UCX's
// UCM and Open MPI's patcher do. What the runtime's fast path and custash.h answer by
// themselves then goes by that entry, as without custash. State: an entry's first bytes, read
// when the library is loaded. Order: none. A thread that patches code synchronises by itself.
#pragma once

#include "interpose/real/entry_points.hpp"

#include <cstdint>

namespace custash::patched {

// A jump is at least five bytes, and may begin behind an instruction of four (endbr64).
using Code [[gnu::may_alias, gnu::aligned(4)]] = volatile std::uint64_t;

template <auto* kHook>
std::uint64_t code_of() noexcept {
  return *reinterpret_cast<const Code*>(kHook);
}

template <auto* kHook>
inline const std::uint64_t kAsLoaded = code_of<kHook>();

// Before the library's constructors have run: true.
template <auto* kHook>
[[nodiscard]] bool is() noexcept {
  return code_of<kHook>() != kAsLoaded<kHook>;
}

}  // namespace custash::patched
