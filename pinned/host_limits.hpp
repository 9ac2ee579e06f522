// SPDX-License-Identifier: MIT
// How much host memory the system still has, and a description of the limits that may have
// refused a request. Linux: /proc and control groups. No state.
#pragma once

#include "allocator/base/units.hpp"

#include <string>
#include <string_view>

namespace custash {

// Bytes that can be allocated before the system, or the control group of the process, runs out
// of memory. The largest number where that is unknown.
Bytes available_host_memory();

// The part of it that control groups decide: the least of a group and those above it. `groups`
// is the text of /proc/self/cgroup, `root` where they are mounted.
Bytes group_room(const std::string& groups, const std::string& root);

// "system_available=… …": for a log line.
std::string describe_host_limits();

// The number after `key` in a text like /proc/meminfo's ("MemAvailable:   123 kB"), in bytes;
// the largest number if there is no such key.
Bytes meminfo_field(std::string_view text, std::string_view key);

}  // namespace custash
