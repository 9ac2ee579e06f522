// SPDX-License-Identifier: MIT
// LivePage: a process's current numbers, in shared memory that only its user may open, for
// `custash top`, neighbours and other readers. Its one writer is the service's thread, on
// request and every few seconds.
// A reader copies the file and compares `sequence` before and after. The verb "live" answers
// the same. Plain data: both sides must come from the same build, which `magic` and `size`
// check.
#pragma once

#include "interpose/process/service_wire.hpp"

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace custash::live {

inline constexpr std::uint64_t kMagic = 0x3165676170687563;  // "cuhpage1"
inline constexpr std::size_t kDevices = 16;                  // more have no room
inline constexpr std::size_t kPassedKinds = 12;

struct DevicePart {
  char bus[16];   // PCI address: the same device in processes that number devices otherwise
  char uuid[40];  // the same, apart for parts of a device; hexadecimal
  std::int64_t device;
  std::int64_t total_bytes;
  std::int64_t allocated_bytes;
  std::int64_t allocated_peak;
  std::int64_t reserved_bytes;
  std::int64_t limbo_bytes;
  // Since the start, for rates:
  std::int64_t allocations;
  std::int64_t requested_bytes;  // of these
  std::int64_t frees;
  std::int64_t driver_calls;  // that made device memory or released it
  std::int64_t pages_moved;   // mapped at another address instead of made
  std::int64_t gpu_waits;     // inserted on the GPU before a submission
  std::int64_t stalls_avoided;
  std::int64_t free_waits;
  std::int64_t ooms;
  std::int64_t asleep_bytes;     // of reserved_bytes
  std::int64_t by_driver_bytes;  // now: handles, arrays and the like that the driver serves
  std::int64_t imported_bytes;   // now: other processes have allocated it
  std::int64_t spare_bytes;      // now: a neighbour gets them on request
};

// Of one kind of calls that the driver served itself (passed_counts.hpp).
struct PassedPart {
  std::int64_t allocations;
  std::int64_t allocated_bytes;
  std::int64_t live;
  std::int64_t live_bytes;
};

struct Page {
  std::uint64_t magic;
  std::uint64_t size;  // sizeof(Page)
  std::int64_t pid;
  std::uint64_t nonce;          // of the service
  std::uint64_t pid_namespace;  // its inode: elsewhere the number means another process
  std::uint64_t started;   // of the process, as /proc/PID/stat has it: numbers are used again
  char name[64];           // of the program
  std::uint64_t sequence;  // odd while what follows is written
  std::int64_t updated;    // CLOCK_MONOTONIC, nanoseconds; 0: never
  std::int64_t pinned_bytes;  // of host memory held
  PassedPart by_driver[kPassedKinds];
  std::int64_t sleep;       // SleepState: 0 awake, 1 going to sleep, 2 asleep, 3 waking
  std::int64_t idle_since;  // without work, CLOCK_MONOTONIC; 0: it does not yield its memory
  std::int64_t device_count;
  DevicePart devices[kDevices];
};

// A page from untrusted bytes; nothing where they are torn or no page of this build.
std::optional<Page> parse(std::string_view bytes);

// The folder of the pages, which are called custash.USER.PID.NONCE.
inline constexpr const char* kFolder = "/dev/shm";
std::string path_of(uid_t user, const service::Identity& who);

// The complete pages of a user. Removes those of this user's ended processes, torn ones after
// an hour. Foreign ones stay.
std::vector<Page> read_all(uid_t user);

// As the kernel reports them; 0 where it does not.
std::uint64_t start_of(pid_t process);
// The process is gone, or its number means another one than that which started then (0: any).
// A process that its parent has not waited for holds nothing any more, and is gone.
bool has_ended(pid_t process, std::uint64_t started);
std::uint64_t pid_namespace();

inline std::int64_t monotonic_now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace custash::live
