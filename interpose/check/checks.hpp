// SPDX-License-Identifier: MIT
// Checks: how libcustash-check.so begins and ends. State: the core's table.
#pragma once

#include "interpose/check/core_table.hpp"

namespace custash {

// libcustash.so's, which outlives the library.
inline const CoreTable* core_table = nullptr;

}  // namespace custash

extern "C" __attribute__((visibility("default"))) const custash::CheckLibrary*
custash_open_checks(const custash::CoreTable* core);
