// SPDX-License-Identifier: MIT
// A snapshot's JSON in the other forms that a file may have. Pure.
#pragma once

#include "interpose/observe/frame.hpp"
#include "tools/command/snapshot/read.hpp"

#include <string>
#include <string_view>

namespace custash::snapshot {

// A frame as check_snapshot() lets it through.
Frame frame_of(const Json& frame);

// As json, html, pickle or trace.
std::string text_of(const Json& snapshot, std::string_view form);

}  // namespace custash::snapshot
