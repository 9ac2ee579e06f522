// SPDX-License-Identifier: MIT
// A snapshot as JSON (docs/snapshot-schema.json).
#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/passed_counts.hpp"
#include "interpose/history/snapshot.hpp"
#include "interpose/process/json.hpp"

namespace custash::snapshot {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;

void write_stack(JsonWriter& json, stacks::Id id) {
  json.value(id == stacks::kNone ? std::int64_t{-1} : static_cast<std::int64_t>(id));
}

void write_segment(JsonWriter& json,
                   const HeldSegment& segment,
                   const std::vector<Block>& blocks) {
  json.open('{');
  json.member("address", segment.base);
  json.member("size", segment.size);
  json.text_member("pool", device_stats::kPoolNames[static_cast<std::size_t>(segment.pool)]);
  json.text_member("made_of", segment.mapped ? "pages" : "driver");
  json.member("stream", reinterpret_cast<std::uint64_t>(segment.stream));
  json.list("pages", segment.pages, [&](Bytes page) { json.natural(page); });
  json.list("blocks", blocks, [&](const Block& block) {
    json.open('[');
    json.natural(block.piece.address);
    json.natural(block.piece.size);
    json.natural(block.piece.requested);
    json.string(kStateNames[static_cast<std::size_t>(block.piece.state)]);
    write_stack(json, block.stack);
    json.close(']');
  });
  json.close('}');
}

void write_devices(JsonWriter& json, const Snapshot& snapshot) {
  json.objects("devices", snapshot.devices, [&](const DeviceState& device) {
    json.member("device", device.stats.device);
    json.numbers("stats", device_stats::flatten(device.stats));
    json.key("segments");
    json.open('[');
    for (std::size_t i = 0; i < device.segments.size(); ++i)
      write_segment(json, device.segments[i], device.blocks[i]);
    json.close(']');
  });
}

void write_events(JsonWriter& json, const history::Reading& history) {
  json.list("events", history.events, [&](const history::Event& event) {
    json.open('[');
    json.natural(event.time / kMicrosecond);
    json.string(kActionNames[static_cast<std::size_t>(event.action)]);
    json.natural(event.device);
    json.string(kMemoryNames[static_cast<std::size_t>(event.memory)]);
    json.natural(event.address);
    json.natural(event.bytes);
    json.natural(event.stream);
    write_stack(json, event.stack);
    if (event.action == history::Action::Free) write_stack(json, event.freed_by);
    json.close(']');
  });
}

void write_sites(JsonWriter& json, const Snapshot& snapshot) {
  json.objects("sites", snapshot.history.sites, [&](const history::Site& site) {
    json.key("stack");
    write_stack(json, site.stack);
    json.member("device", site.device);
    json.text_member("memory", kMemoryNames[static_cast<std::size_t>(site.memory)]);
    const bool known = site.stack != stacks::kNone;
    json.text_member("caller",
                     known ? caller_of(snapshot.frames, snapshot.stacks[site.stack]) : "");
    json.member("blocks", site.blocks);
    json.member("bytes", site.bytes);
    json.member("peak_bytes", site.peak_bytes);
    json.member("at_peak_bytes", site.at_peak_bytes);
    json.member("allocations", site.allocations);
    json.member("allocated_bytes", site.allocated_bytes);
    json.member("growing", site.growing);
  });
}

void write_history(JsonWriter& json, const Snapshot& snapshot) {
  const history::Reading& history = snapshot.history;
  json.key("history");
  json.open('{');
  json.member("on", history.on);
  json.member("depth", history.depth);
  json.member("since_us", history.since / kMicrosecond);
  json.member("events_seen", history.events_seen);
  json.member("events_lost", history.events_seen - history.events.size());
  json.member("stacks_lost", history.stacks_lost);
  json.objects("tracked", history.devices, [&](const history::DeviceTrack& device) {
    json.member("bytes", device.bytes);
    json.member("peak_bytes", device.peak_bytes);
    json.buckets("lifetimes_up_to_ns", device.lifetimes);
  });
  write_sites(json, snapshot);
  write_events(json, history);
  json.close('}');
}

void write_stacks(JsonWriter& json, const Snapshot& snapshot) {
  json.objects(
      "frames", snapshot.frames, [&](const Frame& frame) { write_members(frame, &json); });
  json.list("stacks", snapshot.stacks, [&](const auto& stack) {
    json.open('[');
    for (const Symbols::Id frame : stack)
      json.natural(frame);
    json.close(']');
  });
}

}  // namespace

std::string as_json(const Snapshot& snapshot) {
  JsonWriter json;
  json.open('{');
  json.text_member("format", "custash snapshot 1");
  json.member("version", static_cast<std::int64_t>(CUSTASH_VERSION));
  json.member("pid", static_cast<std::int64_t>(snapshot.pid));
  json.text_member("program", snapshot.program);
  json.member("time_us", snapshot.time / kMicrosecond);
  if (!snapshot.ended_by.empty()) json.text_member("ended_by", snapshot.ended_by);
  write_devices(json, snapshot);
  json.numbers("host_stats", snapshot.host_stats);
  passed::write_passed(json, snapshot.passed);
  write_history(json, snapshot);
  write_stacks(json, snapshot);
  json.close('}');
  return json.take();
}

}  // namespace custash::snapshot
