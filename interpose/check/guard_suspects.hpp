// SPDX-License-Identifier: MIT
// GuardSuspects: which blocks a fault of a kernel may be about. Pure.
#pragma once

#include "interpose/check/guard_finding.hpp"

#include <cstdint>
#include <vector>

namespace custash::guards {

// How the address lies to the block.
Kind kind_at(const Near& near);

// The blocks that work in flight names. One that was freed before comes first.
std::vector<Suspect> suspects_in_flight(const GuardBook& book);

// For a fault at one of these bytes: the freed block that lay there. Else the nearest block of
// those that work in flight names, and one that lies nearer still.
std::vector<Suspect> suspects_at(const GuardBook& book, Address address, Bytes bytes);

}  // namespace custash::guards
