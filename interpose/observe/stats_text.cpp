// SPDX-License-Identifier: MIT
#include "interpose/observe/stats_text.hpp"

#include "interpose/observe/device_stats.hpp"
#include "interpose/observe/driver_calls.hpp"
#include "interpose/observe/history.hpp"
#include "interpose/observe/symbols.hpp"
#include "interpose/process/json.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>

namespace custash::stats_text {
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
    json.text_member("pool", device_stats::kPoolNames[static_cast<std::size_t>(pool)]);
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

// By the calling library, where history or stats:detailed records callers.
void write_callers(JsonWriter& json, const history::Reading& history, int device) {
  struct Sum {
    std::int64_t blocks = 0, bytes = 0, allocations = 0, allocated_bytes = 0;
  };

  Symbols symbols;
  std::map<std::string, Sum> callers;
  for (const history::Site& site : history.sites) {
    if (site.device != device || site.memory == observe::MemoryKind::Pinned) continue;
    std::string caller;
    if (site.stack != stacks::kNone)
      caller = caller_of(symbols.frames(), symbols.frames_of(history.stacks[site.stack]));
    Sum& sum = callers[caller];
    sum.blocks += site.blocks;
    sum.bytes += site.bytes;
    sum.allocations += site.allocations;
    sum.allocated_bytes += site.allocated_bytes;
  }
  json.objects("callers", callers, [&](const auto& row) {
    const Sum& sum = row.second;
    json.text_member("module", row.first);
    json.member("in_use", sum.blocks);
    json.member("in_use_requested_bytes", sum.bytes);
    json.member("allocations", sum.allocations);
    json.member("allocated_requested_bytes", sum.allocated_bytes);
  });
}

void write_lifetimes(JsonWriter& json, const history::Reading& history, int device) {
  const auto index = static_cast<std::size_t>(device);
  const bool known = index < history.devices.size();
  json.buckets(
      "lifetimes_up_to_ns",
      known ? history.devices[index].lifetimes : decltype(history::DeviceTrack::lifetimes){});
}

// "custash.limbo_bytes" -> "custash_limbo_bytes", "num_ooms" -> "custash_num_ooms".
std::string metric_name(std::string_view name) {
  constexpr std::string_view kOwn = "custash.";
  if (name.substr(0, kOwn.size()) == kOwn) name.remove_prefix(kOwn.size());
  return "custash_" + std::string(name);
}

void add_header(std::string& out, const std::string& name, const char* type) {
  out += "# TYPE " + name + " " + type + "\n";
}

void add_sample(std::string& out,
                const std::string& name,
                const std::string& labels,
                std::int64_t value) {
  out += name + "{" + labels + "} " + std::to_string(value) + "\n";
}

void add_counters(std::string& out,
                  const custash_device_stats_t& stats,
                  const std::string& device) {
  using Part = std::int64_t custash_counter_t::*;

  struct Row {
    const char* ending;
    Part part;
    const char* type;
  };

  constexpr Row kRows[] = {{"", &custash_counter_t::current, "gauge"},
                           {"_peak", &custash_counter_t::peak, "gauge"},
                           {"_allocated_total", &custash_counter_t::allocated, "counter"},
                           {"_freed_total", &custash_counter_t::freed, "counter"}};
  for (const auto& member : device_stats::kCounterMembers) {
    for (const Row& row : kRows) {
      const std::string name = metric_name(member.name) + row.ending;
      add_header(out, name, row.type);
      for (std::size_t pool = 0; pool < member.pools; ++pool) {
        add_sample(out,
                   name,
                   device + ",pool=\"" + device_stats::kPoolNames[pool] + "\"",
                   device_stats::counter(stats, member, pool).*row.part);
      }
    }
  }
}

std::string seconds(std::uint64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

void add_driver_calls(std::string& out) {
  const std::string name = "custash_driver_call_seconds";
  add_header(out, name, "histogram");
  for (const driver_calls::Timing& timing : driver_calls::read()) {
    const std::string call = std::string("call=\"") + timing.name + "\"";
    std::uint64_t sum = 0;
    for (std::size_t b = 0; b < timing.buckets.size(); ++b) {
      if (timing.buckets[b] == 0) continue;
      sum += timing.buckets[b];
      add_sample(out,
                 name + "_bucket",
                 call + ",le=\"" + seconds(std::uint64_t{1} << b) + "\"",
                 static_cast<std::int64_t>(sum));
    }
    add_sample(
        out, name + "_bucket", call + ",le=\"+Inf\"", static_cast<std::int64_t>(timing.count));
    add_sample(out, name + "_count", call, static_cast<std::int64_t>(timing.count));
    out += name + "_sum{" + call + "} " + seconds(timing.total_ns) + "\n";
  }
}

}  // namespace

std::string json(Allocator& core, int device) {
  Inventory held;
  const custash_device_stats_t stats = device_stats::read(core, device, &held);
  JsonWriter json;
  json.open('{');
  json.text_member("format", "custash statistics 1");
  json.member("device", stats.device);
  json.numbers("stats", device_stats::flatten(stats));
  json.numbers("host_stats", process::pinned().stats().flatten());
  write_streams(json, held);
  write_sizes(json, held);
  write_driver_calls(json);
  const history::Reading history = history::read(history::Events::Without);
  write_callers(json, history, device);
  write_lifetimes(json, history, device);
  json.close('}');
  return json.take();
}

std::string prometheus(Allocator& core, int device) {
  const custash_device_stats_t stats = device_stats::read(core, device);
  const std::string label = "device=\"" + std::to_string(device) + "\"";
  std::string out;
  add_counters(out, stats, label);
  for (const auto& member : device_stats::kNumberMembers) {
    const std::string name = metric_name(member.name);
    add_header(out, name, "gauge");
    add_sample(out, name, label, device_stats::number(stats, member));
  }
  for (const auto& [name, value] : process::pinned().stats().flatten()) {
    std::string metric = "custash_host_" + name;
    std::replace(metric.begin(), metric.end(), '.', '_');
    add_header(out, metric, "gauge");
    out += metric + " " + std::to_string(value) + "\n";
  }
  add_driver_calls(out);
  return out;
}

}  // namespace custash::stats_text
