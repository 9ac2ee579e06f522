// SPDX-License-Identifier: MIT
// The simulator's race detector, where the process runs on the simulator and has it switched on
// (tests/sim/detector_abi.h). Everywhere else announcements go nowhere and nothing is reported.
#pragma once

#include "tests/harness/stream.hpp"

#include <cstddef>
#include <string>

namespace custash::harness::detector {

bool on();

// Storage tells of its memory; null `stream`: for all streams.
void allocated(const void* memory, std::size_t bytes, const Stream* stream);
void freed(const void* memory, const Stream* stream);
void recorded(const void* memory, const Stream& stream);

enum class Touch { Read, Write };
void touched_by_host(const void* memory, std::size_t bytes, Touch touch);

// Order among host threads: what `from` did until now comes before what `to` does from now on.
// A number of nobody's, above 1,000, is a letter that waits in between.
unsigned this_thread();
void thread_sync(unsigned from, unsigned to);

std::size_t reports();  // of all kinds
std::size_t reports(
    const std::string& kind);  // "conflict", "free unordered", "ALLOCATOR FAULT", …
std::string text();
void clear();  // while nothing runs

std::size_t device_bytes(int device);  // what the simulated device has given away

}  // namespace custash::harness::detector
