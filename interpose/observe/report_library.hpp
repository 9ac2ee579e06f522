// SPDX-License-Identifier: MIT
// ReportLibrary: what libcustash-check.so does for libcustash.so once history, a record, a
// snapshot or a report is wanted. State: the library in use.
#pragma once

#include "interpose/api/custash.h"
#include "interpose/observe/observe.hpp"

#include <atomic>
#include <functional>
#include <string>

namespace custash {

class JsonWriter;

namespace passed {

enum class Kind : unsigned char;

}  // namespace passed

namespace history {

enum class Action : unsigned char {
  Alloc,
  Free,
  SegmentAlloc,
  SegmentFree,
  SegmentMap,
  SegmentUnmap,
  Oom,
};

enum class Events { With, Without };

}  // namespace history

// An internal variable of the environment: `custash run` waits for this process. It holds
// letters for what the launcher reports (h: history, l: leaks, s: summary, f: findings of the
// checkers; c: counters, read at a usual exit only, so that no call of the program is watched;
// r: none of these), the launcher's process and when that started (live_page.hpp), and the
// folder of the ledgers (ledger.hpp), with blanks between them.
inline constexpr const char* kLauncher = "CUSTASH_LAUNCHER";

struct ReportLibrary {
  // The sources it was built from: they must be libcustash.so's, as both share C++ types.
  const char* build;
  void (*out_of_memory)();  // core_table.hpp
  // Option record, from now on. False, with the reason, where no file can be made.
  bool (*record)(const std::string& path,
                 void (*say)(const std::string& line),
                 std::string* why);
  // Once the core runs. `launcher`: the value of kLauncher, or null.
  void (*begin)(Allocator& core, const char* launcher, void (*say)(const std::string& line));
  // For the launcher's report: why nothing was checked.
  void (*unchecked)(const std::string& why);
  // At exit: for the launcher, then what this process reports itself.
  void (*finish)(Allocator& core) noexcept;
  void (*print)(Allocator& core) noexcept;

  // Starts history, or continues with another depth; false where there is no memory for it.
  bool (*start_history)(std::size_t events, unsigned depth) noexcept;
  void (*stop_history)() noexcept;
  // While history is on. What the program gets from the driver by a handle.
  void (*made)(passed::Kind kind, std::uint64_t object, Bytes bytes) noexcept;
  void (*ended)(passed::Kind kind, std::uint64_t object) noexcept;
  // custash's own calls of the driver, after they have succeeded. A map has a handle.
  void (*driver_call)(history::Action action,
                      Address address,
                      Bytes bytes,
                      CUmemGenericAllocationHandle handle) noexcept;

  // Option nvtx; false where custash was built without NVTX's headers. Then a range of this
  // thread, named by a literal; false: it has not begun.
  bool (*start_nvtx)() noexcept;
  bool (*begin_range)(const char* name) noexcept;
  void (*end_range)() noexcept;

  // Writes a snapshot. `message`: the reason of an error, or what the user should know.
  custash_status_t (*snapshot)(Allocator& core, const char* path, std::string* message);
  // Takes one, and returns what makes JSON of it, with the names of the functions. Without
  // events: the counters and call sites alone.
  std::function<std::string()> (*snapshot_json)(Allocator& core, history::Events events);
  std::string (*leaks_text)(Allocator& core);
  // Members "callers" and "lifetimes_up_to_ns".
  void (*write_callers)(JsonWriter& json, int device);
};

// Null: it was not needed yet. Order: released once it is open.
inline constinit std::atomic<const ReportLibrary*> report_library_in_use{nullptr};

inline const ReportLibrary* report_library() noexcept {
  return report_library_in_use.load(std::memory_order_acquire);
}

// Opens it where it is not open; null: why.
const ReportLibrary* open_report_library(std::string* why);

// Null while history is off.
inline const ReportLibrary* history_library() noexcept {
  return observe::watched_by(observe::Watcher::History) ? report_library() : nullptr;
}

namespace reports {

inline void made(passed::Kind kind, std::uint64_t object, Bytes bytes) noexcept {
  if (const ReportLibrary* const library = history_library())
    library->made(kind, object, bytes);
}

inline void ended(passed::Kind kind, std::uint64_t object) noexcept {
  if (const ReportLibrary* const library = history_library()) library->ended(kind, object);
}

}  // namespace reports

}  // namespace custash
