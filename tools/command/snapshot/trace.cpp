// SPDX-License-Identifier: MIT
// A snapshot's history as Chrome's trace events, which Perfetto opens. Each device has a
// counter of bytes in use and one of bytes held. Driver calls and refusals are instants.
#include "interpose/history/snapshot.hpp"
#include "interpose/process/json.hpp"
#include "tools/command/snapshot/forms.hpp"

#include <algorithm>
#include <vector>

namespace custash::snapshot {
namespace {

struct Level {
  std::int64_t used = 0;
  std::int64_t held = 0;
};

// The change that an event makes to the levels.
Level step_of(const history::Event& event) {
  using history::Action;
  const auto bytes = static_cast<std::int64_t>(event.bytes);
  switch (event.action) {
    case Action::Alloc:
      return {bytes, 0};
    case Action::Free:
      return {-bytes, 0};
    case Action::SegmentAlloc:
    case Action::SegmentMap:
      return {0, bytes};
    case Action::SegmentFree:
    case Action::SegmentUnmap:
      return {0, -bytes};
    case Action::Oom:
      break;
  }
  return {};
}

void write_counter(
    JsonWriter& json, int pid, std::size_t device, Nanoseconds time, const Level& level) {
  json.open('{');
  json.text_member("ph", "C");
  json.text_member("name", "device " + std::to_string(device) + " memory");
  json.member("pid", static_cast<std::int64_t>(pid));
  json.member("ts", time / 1000);
  json.key("args");
  json.open('{');
  json.member("in use", std::max<std::int64_t>(0, level.used));
  json.member("held, not in use", std::max<std::int64_t>(0, level.held - level.used));
  json.close('}');
  json.close('}');
}

void write_instant(JsonWriter& json, const Snapshot& snapshot, const history::Event& event) {
  constexpr const char* kNames[] = {
      "", "", "driver: alloc", "driver: free", "driver: map", "driver: unmap", "out of memory"};
  json.open('{');
  json.text_member("ph", "i");
  json.text_member("s", "p");
  json.text_member("name", kNames[static_cast<std::size_t>(event.action)]);
  json.member("pid", static_cast<std::int64_t>(snapshot.pid));
  json.member("tid", static_cast<std::int64_t>(event.device));
  json.member("ts", event.time / 1000);
  json.key("args");
  json.open('{');
  json.member("bytes", event.bytes);
  json.member("address", event.address);
  json.close('}');
  json.close('}');
}

// The levels at the first event: those at the end, less all changes since.
Level level_before(const Snapshot& snapshot, std::size_t device) {
  const custash_device_stats_t& stats = snapshot.devices[device].stats;
  Level level{stats.requested_bytes[CUSTASH_ALL].current,
              stats.reserved_bytes[CUSTASH_ALL].current};
  for (const history::Event& event : snapshot.history.events) {
    if (event.device != device || event.memory != observe::MemoryKind::Device) continue;
    const Level step = step_of(event);
    level.used -= step.used;
    level.held -= step.held;
  }
  return level;
}

}  // namespace

std::string as_trace(const Snapshot& snapshot) {
  JsonWriter json;
  json.open('{');
  json.text_member("displayTimeUnit", "ns");
  json.key("traceEvents");
  json.open('[');
  json.open('{');
  json.text_member("ph", "M");
  json.text_member("name", "process_name");
  json.member("pid", static_cast<std::int64_t>(snapshot.pid));
  json.key("args");
  json.open('{');
  json.text_member("name", "custash: " + snapshot.program);
  json.close('}');
  json.close('}');
  for (std::size_t device = 0; device < snapshot.devices.size(); ++device) {
    Level level = level_before(snapshot, device);
    for (const history::Event& event : snapshot.history.events) {
      if (event.device != device || event.memory != observe::MemoryKind::Device) continue;
      const Level step = step_of(event);
      level.used += step.used;
      level.held += step.held;
      if (event.action != history::Action::Alloc && event.action != history::Action::Free)
        write_instant(json, snapshot, event);
      if (event.action != history::Action::Oom)
        write_counter(json, snapshot.pid, device, event.time, level);
    }
  }
  json.close(']');
  json.close('}');
  return json.take();
}

}  // namespace custash::snapshot
