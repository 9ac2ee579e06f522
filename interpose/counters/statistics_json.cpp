// SPDX-License-Identifier: MIT
// All statistics of a device as JSON (docs/observing.md).
#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/driver_calls.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/counters/passed_counts.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/process/check_library.hpp"
#include "interpose/process/json.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace custash::device_stats {
namespace {

struct Use {
  Bytes held = 0;
  std::array<Bytes, 3> bytes{};  // by PieceState
  std::array<std::uint64_t, 3> blocks{};
  Bytes largest_free = 0;

  void add(const Piece& piece) {
    const auto state = static_cast<std::size_t>(piece.state);
    held += piece.size;
    bytes[state] += piece.size;
    ++blocks[state];
    if (piece.state == PieceState::Free) largest_free = std::max(largest_free, piece.size);
  }
};

void write_use(JsonWriter& json, const Use& use) {
  constexpr auto kFree = static_cast<std::size_t>(PieceState::Free);
  constexpr auto kLimbo = static_cast<std::size_t>(PieceState::Limbo);
  constexpr auto kUsed = static_cast<std::size_t>(PieceState::Used);
  json.member("held_bytes", use.held);
  json.member("in_use", use.blocks[kUsed]);
  json.member("in_use_bytes", use.bytes[kUsed]);
  json.member("limbo", use.blocks[kLimbo]);
  json.member("limbo_bytes", use.bytes[kLimbo]);
  json.member("free", use.blocks[kFree]);
  json.member("free_bytes", use.bytes[kFree]);
  json.member("largest_free_block", use.largest_free);
}

// One row for each stream, in the order of the handles; 0 stands for calls that name no stream.
void write_streams(JsonWriter& json, const Inventory& held) {
  std::map<std::uint64_t, Use> streams;
  for (const HeldSegment& segment : held) {
    Use& use = streams[reinterpret_cast<std::uint64_t>(segment.stream)];
    for (const Piece& piece : segment.pieces)
      use.add(piece);
  }
  json.objects("streams", streams, [&](const auto& row) {
    json.member("stream", row.first);
    write_use(json, row.second);
  });
}

// Small blocks by their class, large ones by powers of two.
void write_sizes(JsonWriter& json, const Inventory& held) {
  std::map<std::pair<StatPool, Bytes>, Use> sizes;
  for (const HeldSegment& segment : held) {
    for (const Piece& piece : segment.pieces) {
      const Bytes up_to = segment.pool == StatPool::Small
                              ? piece.size
                              : std::bit_ceil(std::max<Bytes>(piece.size, 1));
      sizes[{segment.pool, up_to}].add(piece);
    }
  }
  json.objects("sizes", sizes, [&](const auto& row) {
    const auto& [pool, up_to] = row.first;
    json.text_member("pool", kPoolNames[static_cast<std::size_t>(pool)]);
    json.member("up_to_bytes", up_to);
    write_use(json, row.second);
  });
}

void write_driver_calls(JsonWriter& json) {
  json.objects("driver_calls", driver_calls::read(), [&](const driver_calls::Timing& timing) {
    json.text_member("name", timing.name);
    json.member("count", timing.count);
    json.member("failed", timing.failed);
    json.member("total_ns", timing.total_ns);
    json.member("max_ns", timing.max_ns);
    json.buckets("up_to_ns", timing.buckets);
  });
}

void write_check_streams(JsonWriter& json) {
  json.key("check_streams");
  json.open('{');
  const CheckLibrary* const checks = check_library();
  json.member("time_ns", checks == nullptr ? 0 : checks->nanoseconds());
  json.member("sampled_calls", checks == nullptr ? 0 : checks->sampled_calls());
  json.close('}');
}

// Members of a history that was never on.
void write_no_callers(JsonWriter& json) {
  json.key("callers");
  json.open('[');
  json.close(']');
  json.key("lifetimes_up_to_ns");
  json.open('{');
  json.close('}');
}

}  // namespace

std::function<std::string()> as_json(Allocator& core, int device) {
  Inventory held;
  const custash_device_stats_t stats = read(core, device, &held);
  JsonWriter json;
  json.open('{');
  json.text_member("format", "custash statistics 1");
  json.member("device", stats.device);
  json.numbers("stats", flatten(stats));
  json.numbers("host_stats", process::pinned().stats().flatten());
  write_streams(json, held);
  write_sizes(json, held);
  write_driver_calls(json);
  passed::write_passed(json, passed::table().read());
  write_check_streams(json);
  return [json, device]() mutable {
    if (const ReportLibrary* const reports = report_library()) {
      reports->write_callers(json, device);
    } else {
      write_no_callers(json);
    }
    json.close('}');
    return json.take();
  };
}

}  // namespace custash::device_stats
