// SPDX-License-Identifier: MIT
// Config: every option, immutable once read. One table (config.cpp) holds each option's name,
// type, default, range and help; parsing, `custash run --help` and docs/options.md come from
// it. No state, reads no environment.
#pragma once

#include "allocator/base/guard_choice.hpp"
#include "allocator/base/log.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace custash {

enum class Backing { Auto, Vmm, Whole, Driver };                  // backing:
enum class Caching { Auto, Always, Never };                       // caching:
enum class Pools { Auto, Default, Driver };                       // pools:
enum class FreeMode { Auto, Copies, Never, Strict, Parameters };  // free:

// limit: and limit_all: of a device, bytes or a share of it; 0: none.
struct SizeLimit {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 0;

  [[nodiscard]] bool any() const { return bytes != 0 || percent != 0; }
};

struct Config {
  bool enabled = true;                  // enabled:  false passes every call through
  Caching caching = Caching::Auto;      // Never: each allocation is the driver's own
  Backing backing = Backing::Auto;      // what segments are made of
  FreeMode free_mode = FreeMode::Auto;  // when a plain free waits
  Pools pools = Pools::Auto;            // who serves stream-ordered calls
  // Use stream order itself as the fence while one stream works. No option: off with
  // free:strict.
  bool single_stream = true;
  // Blocks kept ready by each thread. No option: tests set it.
  bool thread_caches = true;
  // A size class gets slabs of its own after this many requests. Until then its blocks share
  // pages with other classes. No option: tests set it.
  std::uint32_t slabs_after = 256;
  // Submissions with results for the host that get an event each. After this many without a
  // free, the next free waits for everything instead. No option: tests set it.
  std::uint32_t unasked_results = 1000;
  std::uint32_t run_ahead_percent =
      10;               // run_ahead: new memory preferred to debt, share of bytes in use
  SizeLimit limit;      // limit: what custash holds of a device
  SizeLimit limit_all;  // limit_all: what the process uses of it
  std::map<int, SizeLimit> limit_of;  // CUDA_DEVICE_MEMORY_LIMIT_N: the same of one device
  std::string limit_group;            // limit_group: who shares limit_all; empty: nobody
  std::uint32_t decay = 10;           // decay: seconds; 0: never
  std::uint32_t patience = 10;        // patience: seconds
  GuardChoice guard;                  // guard: allocations with pages of their own
  std::string guard_report;           // guard_report: findings as JSON; empty or "-": none
  bool guard_show = false;            // guard_report:-, or custash run: findings on stderr
  bool check_streams = false;         // check_streams: whether streams order uses and frees
  bool pinned = true;                 // pinned: false passes pinned memory through
  std::uint64_t pinned_limit = 0;     // pinned: or bytes; 0: no limit
  // Threads that touch new pinned memory; 0: one a core. No option: tests set it.
  std::uint32_t pinned_threads = 0;
  std::uint32_t pinned_decay = 60;    // pinned_decay: seconds; 0: never
  std::uint32_t deep_trim_after = 0;  // deep_trim_after: seconds; 0: never by itself
  std::uint32_t sleep_after = 0;      // sleep_after: seconds; 0: never by itself
  std::uint32_t yield_after = 0;      // yield_after: seconds; 0: it sleeps for no other process
  std::uint32_t priority = 0;         // priority: of two that work, the lower one yields
  std::uint64_t sleep_pinned = 0;     // sleep_pinned: bytes
  std::uint64_t sleep_memory =
      ~std::uint64_t{0};         // sleep_memory: bytes of pageable memory; all: what there is
  std::string sleep_dir;         // sleep_dir: a folder for the rest; empty: none
  bool neighbours = true;        // neighbours: give cache to other processes, and ask them
  bool control = true;           // control: the command may reach the process
  LogLevel log = LogLevel::Off;  // log:
  std::string log_file;          // log_file: empty is stderr
  bool summary = false;          // summary: print statistics to stderr at exit

  bool nvtx = false;            // nvtx: ranges and counters for NVIDIA's tools
  bool detailed_stats = false;  // stats: detailed counts by call site, lifetimes, all calls
  std::uint32_t history = 0;    // history: events kept; 0: none
  std::uint32_t history_depth = 16;  // history_depth: addresses of a stack
  std::string snapshot;  // snapshot: written at exit and when memory runs out; empty: none
  std::uint32_t snapshot_signal = 0;  // snapshot_signal: number; 0: none
  bool leaks = false;                 // leaks: say at exit what is still allocated

  std::string record;  // record: where allocations are written down; empty: nowhere
};

struct OptionRow {
  std::string_view name;
  std::string_view type;  // "flag", "choice", "percent", "count", "bytes", "limit", "guard",
                          // "pinned", "name", "seconds", "path"
  std::string_view default_value;
  std::string_view range;  // "true|false", "auto|vmm|driver", "0-1000", ""
  std::string_view help;
  // Who sets it and what it moves; empty: an option for everyone.
  std::string_view advanced = {};
};

// Every option, in the order of docs/options.md.
std::span<const OptionRow> option_rows();

struct ParsedConfig {
  Config config;
  std::vector<std::string>
      complaints;  // one clear line for each bad key or value, which is ignored
  std::vector<std::string> notices;  // one line for each removed option that is still set
  std::vector<std::pair<std::string_view, std::string>> given;  // what was taken, once a name
};

// Reads "key:value,key:value". Never fails: a bad entry leaves its option at the default and
// adds a complaint.
ParsedConfig parse_config(std::string_view text);

}  // namespace custash
