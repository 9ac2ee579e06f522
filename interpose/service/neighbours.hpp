// SPDX-License-Identifier: MIT
// Neighbours: other processes of this user under custash whose memory lies on the same device.
// Asked, all at once, when this one runs short; they give back what they cache.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/service/service.hpp"

#include <string_view>

namespace custash::neighbours {

// How many bytes they gave, of `bytes` that each was asked for. Waits for a second at most; who
// does not answer is left alone for ten seconds. Never throws.
Bytes ask(CUdevice device, Bytes bytes) noexcept;

// The verb: "give UUID BYTES", the device as 32 hexadecimal digits.
void give(Allocator& core,
          service::Session& session,
          std::string_view arguments,
          service::Answer* answer);

}  // namespace custash::neighbours
