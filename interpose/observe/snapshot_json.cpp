// SPDX-License-Identifier: MIT
// A snapshot as JSON (docs/snapshot-schema.json), and the page that shows it.
#include "interpose/observe/device_stats.hpp"
#include "interpose/observe/report_page.hpp"
#include "interpose/observe/snapshot.hpp"
#include "interpose/process/json.hpp"

namespace custash::snapshot {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;

void write_stack(JsonWriter& json, stacks::Id id) {
  json.value(id == stacks::kNone ? std::int64_t{-1} : static_cast<std::int64_t>(id));
}

void write_stats(JsonWriter& json,
                 const char* key,
                 const std::vector<std::pair<std::string, std::int64_t>>& stats) {
  json.key(key);
  json.open('{');
  for (const auto& [name, value] : stats)
    json.member(name, value);
  json.close('}');
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
  json.key("pages");
  json.open('[');
  for (const Bytes page : segment.pages)
    json.natural(page);
  json.close(']');
  json.key("blocks");
  json.open('[');
  for (const Block& block : blocks) {
    json.open('[');
    json.natural(block.piece.address);
    json.natural(block.piece.size);
    json.natural(block.piece.requested);
    json.string(kStateNames[static_cast<std::size_t>(block.piece.state)]);
    write_stack(json, block.stack);
    json.close(']');
  }
  json.close(']');
  json.close('}');
}

void write_devices(JsonWriter& json, const Snapshot& snapshot) {
  json.key("devices");
  json.open('[');
  for (const DeviceState& device : snapshot.devices) {
    json.open('{');
    json.member("device", device.stats.device);
    write_stats(json, "stats", device_stats::flatten(device.stats));
    json.key("segments");
    json.open('[');
    for (std::size_t i = 0; i < device.segments.size(); ++i)
      write_segment(json, device.segments[i], device.blocks[i]);
    json.close(']');
    json.close('}');
  }
  json.close(']');
}

void write_events(JsonWriter& json, const history::Reading& history) {
  json.key("events");
  json.open('[');
  for (const history::Event& event : history.events) {
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
  }
  json.close(']');
}

void write_sites(JsonWriter& json, const Snapshot& snapshot) {
  json.key("sites");
  json.open('[');
  for (const history::Site& site : snapshot.history.sites) {
    json.open('{');
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
    json.close('}');
  }
  json.close(']');
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
  json.key("tracked");
  json.open('[');
  for (const history::DeviceTrack& device : history.devices) {
    json.open('{');
    json.member("bytes", device.bytes);
    json.member("peak_bytes", device.peak_bytes);
    json.buckets("lifetimes_up_to_ns", device.lifetimes);
    json.close('}');
  }
  json.close(']');
  write_sites(json, snapshot);
  write_events(json, history);
  json.close('}');
}

void write_stacks(JsonWriter& json, const Snapshot& snapshot) {
  json.key("frames");
  json.open('[');
  for (const Frame& frame : snapshot.frames) {
    json.open('{');
    json.text_member("module", frame.module);
    json.text_member("build_id", frame.build_id);
    json.member("offset", frame.offset);
    json.text_member("name", frame.name);
    json.text_member("file", frame.file);
    json.member("line", frame.line);
    json.close('}');
  }
  json.close(']');
  json.key("stacks");
  json.open('[');
  for (const auto& stack : snapshot.stacks) {
    json.open('[');
    for (const Symbols::Id frame : stack)
      json.natural(frame);
    json.close(']');
  }
  json.close(']');
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
  write_stats(json, "host_stats", snapshot.host_stats);
  write_history(json, snapshot);
  write_stacks(json, snapshot);
  json.close('}');
  return json.take();
}

std::string as_html(const Snapshot& snapshot) {
  return report_page(as_json(snapshot));
}

}  // namespace custash::snapshot
