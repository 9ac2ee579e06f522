// SPDX-License-Identifier: MIT
// PassedCounts: the program's calls for device memory that the driver served itself, by kind.
// Plain values, for the ledger and the texts.
#pragma once

#include "allocator/base/units.hpp"

#include <array>
#include <cstdint>
#include <iterator>
#include <string>

namespace custash {

class JsonWriter;

}  // namespace custash

namespace custash::passed {

// Ordered: of a device's current pool. Handle: of cuMemCreate. Imported: other processes have
// allocated it. Graphs, Pools: what the driver holds for graphs and in its default pools. It is
// measured, and no call counts.
// Plain: with caching:never and limit_all.
enum class Kind : unsigned char {
  Ordered,
  Pool,
  Pitched,
  Managed,
  Handle,
  Array,
  Mipmap,
  External,
  Imported,
  Graphs,
  Pools,
  Plain
};

inline constexpr std::size_t kKinds = 12;
inline constexpr std::size_t kServable = 3;  // the first ones: custash may serve them

inline constexpr const char* kKindNames[] = {"stream-ordered",
                                             "from own pools",
                                             "pitched",
                                             "managed",
                                             "handles",
                                             "arrays",
                                             "mipmaps",
                                             "external",
                                             "imported",
                                             "graph memory",
                                             "driver pools",
                                             "plain"};
static_assert(std::size(kKindNames) == kKinds);

constexpr const char* name_of(Kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

struct PassedCount {
  std::uint64_t calls;
  Bytes bytes;
  std::uint64_t live;  // but of the first two kinds
  Bytes live_bytes;
};

using PassedCounts = std::array<PassedCount, kKinds>;

// What custash may serve: what it has served, and the rest.
struct Share {
  std::uint64_t calls;
  std::uint64_t all_calls;
  Bytes bytes;  // as the program asked for them
  Bytes all_bytes;
};

// `calls` and `bytes`: what custash served.
Share share_of(const PassedCounts& counts, std::uint64_t calls, Bytes bytes);

// "served 3 of 4 allocations ..."; empty where nothing passed by.
std::string share_text(const PassedCounts& counts, std::uint64_t calls, Bytes bytes);

// As a list in statistics and snapshots; of the process, since the driver's answers name no
// device.
void write_passed(JsonWriter& json, const PassedCounts& counts);

}  // namespace custash::passed
