// SPDX-License-Identifier: MIT
// Ledger: the data for a report, flat and without pointers. Where `custash run` waits for the
// process, both share its memory; otherwise the memory is private. A row is published once it
// is complete, so the ledger of a killed process can be read. Library and command must come
// from the same build, which `magic` and the sizes check.
#pragma once

#include "allocator/base/inventory.hpp"
#include "interpose/api/custash.h"
#include "interpose/counters/passed_counts.hpp"
#include "interpose/history/history.hpp"
#include "pinned/host_stats.hpp"

#include <cstdint>
#include <span>

namespace custash::ledger {

inline constexpr std::uint64_t kMagic = 0x3172656764656c63;  // "cledger1"
inline constexpr std::size_t kDevices = 64;                  // more share the last
inline constexpr std::size_t kCounted = 16;                  // devices with counters

// A ledger is called PID-N, N counted from 0 for the programs that one process runs by exec. At
// its exit a process gives it this ending: from then on the launcher reports. If the launcher
// has ended or has removed the file, the process reports itself. It also reports itself if the
// memory cannot be shared, and says so by the other ending.
inline constexpr const char* kDone = ".done";
inline constexpr const char* kOwn = ".own";

// A link in the folder, followed by PID-N: it names a snapshot's JSON of which the launcher is
// to make the form that the user asked for.
inline constexpr const char* kRender = "render-";

// The rows of one kind are in one of two extents of the file, chosen by `which`. A larger
// extent is filled before `which` changes.
struct Extent {
  std::uint64_t offset;
  std::uint64_t capacity;  // in rows
};

struct Area {
  Extent places[2];
  std::uint64_t which;
  std::uint64_t count;
  std::uint64_t row;  // sizeof
};

struct LiveRow {
  Address address;  // 0: unused
  Bytes bytes;
  Nanoseconds since;
  std::uint32_t site;
  std::uint32_t reserved;
};

struct SegmentRow {
  Address address;  // 0: nothing stands here
  Bytes bytes;
  std::uint32_t device;
  std::uint32_t mapped;
};

struct TextPlace {
  std::uint32_t begin;  // in the area of texts
  std::uint32_t size;
};

// Addresses of code.
struct ModuleRow {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t bias;  // address in the process, less address in the file
  TextPlace path;      // empty: code of no file
  TextPlace build_id;
};

// A function of Python.
struct CodeRow {
  TextPlace function;
  TextPlace file;
};

// A segment that the pools held at a usual exit.
struct HeldRow {
  Address base;
  Bytes size;
  std::uint64_t stream;
  std::uint32_t device;
  std::uint16_t pool;
  std::uint16_t mapped;
  std::uint64_t pages_end;   // in the area of pages; they begin where the last row's end
  std::uint64_t pieces_end;  // likewise
};

// Driver calls that custash itself made, and how long they took.
struct CallTime {
  std::uint64_t count;
  Nanoseconds time;
};

struct Counters {
  std::uint64_t devices;
  custash_device_stats_t device[kCounted];
  HostStats host;
  passed::PassedCounts passed;
  // The header's counts of calls when these counters were read.
  std::uint64_t allocated[kCounted];
  std::uint64_t freed[kCounted];
  // At a usual exit: all calls for memory and waits, and of these two entries.
  CallTime driver_calls;
  CallTime mem_alloc;
  CallTime mem_free;
};

// What the checkers have looked at, and found. Order: none, each is read by itself.
struct Checks {
  std::uint64_t found;
  std::uint64_t guarded;    // allocations with guards
  std::uint64_t unguarded;  // that should have had them
  std::uint64_t uses;       // of device memory whose order was checked
};

struct Header {
  std::uint64_t magic;
  std::uint64_t size;  // sizeof(Header)
  std::uint32_t version;
  std::uint32_t partial;    // there was no more memory to share: newer rows are missing
  std::uint32_t own;        // the process has reported itself
  std::int32_t rank;        // in its environment; -1: none
  TextPlace oom_path;       // of the snapshot that was written when memory ran out
  TextPlace oom_reason;     // of the first time
  TextPlace findings_path;  // the checkers' report
  TextPlace unchecked;      // why allocations have no guards
  Checks checks;
  std::int64_t pid;
  Nanoseconds started;  // CLOCK_REALTIME, when CUDA was first used
  Nanoseconds ended;    // at a usual exit
  TextPlace program;
  // History (history.cpp).
  std::uint32_t history_on;
  std::uint32_t depth;
  std::uint64_t capacity;
  Nanoseconds since;
  std::uint64_t events_seen;
  std::uint64_t oldest;  // in a full ring
  std::uint64_t stacks_lost;
  std::uint64_t stretch_length;
  std::uint64_t allocations;
  std::uint64_t stretch;
  history::DeviceTrack tracks[kDevices];
  // Counted at each call, while the launcher waits.
  std::uint64_t allocated[kCounted];
  std::uint64_t freed[kCounted];
  std::uint64_t counters_which;
  Area events, sites, live, segments, words, ends, modules, codes, texts;
  Area counters;  // two rows; counters_which is the whole one
  Area held, pages, pieces;
};

}  // namespace custash::ledger

// ---- The arithmetic of call sites: history_sites.cpp.
namespace custash::history {

// Brings the site up to date for stretches that ended while it did not change.
void catch_up(const ledger::Header& head, Site& site);

// An allocation is going to be counted.
void next_allocation(ledger::Header& head, std::span<Site> sites);

// A block of the site begins (sign 1) or ends (-1).
void change(ledger::Header& head, Site& site, std::int64_t bytes, int sign);

void count_lifetime(ledger::Header& head, const Site& site, Nanoseconds age);

// Whether its living bytes grow. To be called after catch_up().
bool grows(const ledger::Header& head, const Site& site);

}  // namespace custash::history
