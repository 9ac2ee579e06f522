// SPDX-License-Identifier: MIT
// What the system still has of host memory, and in words why a request may have been refused.
// Linux: /proc, control groups, resource limits. No state. Rank 0.
#pragma once

#include "allocator/base/units.hpp"

#include <string>
#include <string_view>

namespace custash {

// Bytes that can be taken without bringing the system, or the control group that the process is
// in, to its end; the largest number where that cannot be learnt.
Bytes available_host_memory();

// "available=… memlock=… …": for a log line.
std::string describe_host_limits();

// The number after `key` in a text like /proc/meminfo's ("MemAvailable:   123 kB"), in bytes;
// the largest number when it is not there.
Bytes meminfo_field(std::string_view text, std::string_view key);

}  // namespace custash
