// SPDX-License-Identifier: MIT
// The files whose code is mapped now, as the kernel lists them. This avoids the loader's lock,
// which another thread may hold while it waits for this one. No state.
#pragma once

#include "interpose/history/ledger.hpp"

#include <string>
#include <utility>
#include <vector>

namespace custash::history {

// Each file with its texts, to which the row's text places refer: the path, then the build id.
std::vector<std::pair<ledger::ModuleRow, std::string>> mapped_code();

}  // namespace custash::history
