// SPDX-License-Identifier: MIT
// Device memory and its numbers, through custash where the process has it (found by dlsym, as
// in a preloaded program), else through the driver's own stream-ordered pool: one binary, both
// ways.
#pragma once

#include "tests/harness/stream.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace custash::harness {

bool custash_loaded();  // and serving this process

// For use on the stream, at once; an OutOfMemory that says how full the device is.
void* allocate(Bytes bytes, const Stream& stream);
// Behind what `stream`, which allocated it, and the `recorded` ones hold now.
void release(void* memory, const Stream& stream, const std::vector<Stream>& recorded) noexcept;
// Tells custash at once of a stream that uses the memory; release() says it to the driver.
void note_use(void* memory, const Stream& stream);

// Pinned host memory, by the runtime's call, which custash answers where it is.
void* allocate_pinned(Bytes bytes);
// Behind the copies on the `users`, or on any stream where none is named.
void release_pinned(void* memory, const std::vector<Stream>& users) noexcept;

// ---- PyTorch's numbers, of a device

Bytes memory_allocated(int device = current_device());
Bytes memory_reserved(int device = current_device());
Bytes max_memory_allocated(int device = current_device());
Bytes max_memory_reserved(int device = current_device());
void reset_peak_memory_stats(int device = current_device());
void empty_cache();
std::map<std::string, std::int64_t> memory_stats(int device = current_device());
std::string memory_summary(int device = current_device());

struct DriverMemory {
  Bytes free = 0;
  Bytes total = 0;
};

// As any program sees it (under custash: what is cached counts as free).
DriverMemory memory_info(int device = current_device());

// What somebody outside the process sees in use (nvidia-smi); every process counts, contexts
// too. Nothing where NVML is not there.
std::optional<Bytes> bytes_in_use_from_outside(int device = current_device());

// What this process occupies of the host's memory, the simulated device's not counted.
Bytes resident_host_bytes();

// ---- history: every allocation and free of the harness while it is on

enum class History { Off, On };
void record_memory_history(History history);
std::string memory_snapshot();  // JSON: {"events": [{"action", "address", "bytes", …}]}

// ---- leaks: a baseline, and whether what is allocated has grown beyond 1.5 times that

class LeakCheck {
 public:
  explicit LeakCheck(int device = current_device());
  [[nodiscard]] bool leaks() const;

 private:
  int device_;
  Bytes baseline_;
};

}  // namespace custash::harness
