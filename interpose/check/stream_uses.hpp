// SPDX-License-Identifier: MIT
// Stream uses: what one call on a stream means for StreamReport: the addresses that a kernel, a
// copy or a memset names, and the order that it makes. No state.
#pragma once

#include "interpose/check/stream_report.hpp"
#include "interpose/hooks/host_view.hpp"

#include <vector>

namespace custash::stream_uses {

using Addresses = std::vector<streams::Named>;

// What one kernel, copy or memset uses.
struct Use {
  const char* name = "";
  Addresses addresses;
  bool host_visible = false;  // the host may learn, without a call, that it is over
};

Use of_kernel(const void* function, void** params, void** extra);
Use of_copy(const CUDA_MEMCPY3D& copy);
Use of_fill(const CUDA_MEMSET_NODE_PARAMS& fill);

void launched(streams::Chain chain, const void* function, void** params, void** extra);
void used(streams::Chain chain, const char* call, const Addresses& addresses);
// The copy's target may be memory of the host that is pageable: then the call has waited.
bool has_waited(Allocator& core, Address target);

}  // namespace custash::stream_uses
