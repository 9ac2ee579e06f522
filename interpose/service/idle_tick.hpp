// SPDX-License-Identifier: MIT
// The service's look at memory that idles: it returns what is due (decay:, pinned_decay:) and
// tells neighbours what they could get.
#pragma once

#include "interpose/service/service.hpp"

namespace custash::idle {

// Milliseconds until the next look: ten seconds at most.
int tick(Allocator& core);

}  // namespace custash::idle
