// SPDX-License-Identifier: MIT
// The packed form of a snapshot in a report: base64 of what zlib deflates. Inside is the
// snapshot's JSON without events, a line break, and the events in columns. A number takes seven
// bits a byte, the lowest first, and the top bit says that more follow.
//
//   how many events; the addresses, sizes and streams that occur: each list is a count and the
//   steps from value to value; then for all events the time (steps, twice the step or twice its
//   negative less 1), action, device and memory (places in the words of snapshot.hpp), the
//   places of the addresses in their list, those of sizes and streams (+1), the stack (+2), and
//   the stack that freed (+1). For size, stream and stack, 0 is that of the latest earlier
//   alloc of the same address: a free has mostly the same.
//
// page/unpack.js reads the same. Pure.
#pragma once

#include "tools/command/snapshot/read.hpp"

#include <string>
#include <string_view>

namespace custash::snapshot {

// The elements of a page begin so; their attributes go on up to '>'.
inline constexpr std::string_view kPackedBegin =
    R"(<script type="application/x-custash-packed" id="data")";
inline constexpr std::string_view kPackedBefore =
    R"(<script type="application/x-custash-packed" id="before")";

// A snapshot that check_snapshot() lets through.
std::string packed(const Json& snapshot);

// Throws BadSnapshot; what comes out is yet to be checked.
Json unpacked(const std::string& name, std::string_view text, const Told& progress);

// Deflated, in base64.
std::string packed_bytes(const std::string& bytes);

std::string base64(std::string_view bytes);

}  // namespace custash::snapshot
