// SPDX-License-Identifier: MIT
// Reports to the history what the program gets from the driver by a handle: so call sites and
// calling libraries show it. State: the history's.
#pragma once

#include "interpose/counters/passed_counts.hpp"

#include <cstdint>

namespace custash::passed {

void tell_made(Kind kind, std::uint64_t object, Bytes bytes) noexcept;
void tell_ended(Kind kind, std::uint64_t object) noexcept;

}  // namespace custash::passed
