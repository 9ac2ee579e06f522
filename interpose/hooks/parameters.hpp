// SPDX-License-Identifier: MIT
// Reads the parameters of a launch for addresses of host memory (host_ranges.hpp, and others
// where the caller can tell them). Launches and graph nodes of every kind use this. Addresses
// that a kernel finds in device memory, tensor maps or its module's variables are not seen. No
// state.
#pragma once

#include "allocator/allocator.hpp"

#include <optional>

namespace custash::parameters {

enum class HostAddresses {
  None,
  Some,
  Unknown,  // the driver does not know the layout
};

// Whether a word is an address of host memory that no range holds.
using IsOther = bool(const Allocator& core, Address word);

// `function`: a CUfunction, or a CUkernel in its place. The others as cuLaunchKernel takes
// them. `other`: asked for each word where no range holds one; null where kernels reach no
// other memory.
HostAddresses find_host_addresses(const Driver& driver,
                                  const void* function,
                                  void** params,
                                  void** extra,
                                  const Allocator* core = nullptr,
                                  IsOther* other = nullptr) noexcept;

// Calls `visit` for each 8-byte word of a launch's parameters, as far as their layout is known;
// but not for parameters of more than `most_words` words. `place`: 0 for a whole parameter; in
// structures, the word's number among those of the launch, from 1 on. Returns how many words
// the largest parameter has; none where the layout is unknown.
std::optional<std::size_t> visit_words(const Driver& driver,
                                       const void* function,
                                       void** params,
                                       void** extra,
                                       void (*visit)(void* state,
                                                     Address word,
                                                     std::size_t place),
                                       void* state,
                                       std::size_t most_words = ~std::size_t{0}) noexcept;

}  // namespace custash::parameters
