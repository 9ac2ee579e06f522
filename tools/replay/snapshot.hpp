// SPDX-License-Identifier: MIT
// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot) as traces. No state.
#pragma once

#include "tools/replay/trace.hpp"

namespace custash::replay {

[[nodiscard]] bool looks_like_pickle(std::string_view bytes);

// The events of the device that has most of them; blocks that were there before recording began
// are allocated first. Throws BadTrace, also for pickles that would run code.
Trace parse_snapshot(const std::string& name, std::string_view bytes);

}  // namespace custash::replay
