// SPDX-License-Identifier: MIT
// What the report and the comparisons rely on, looked at one by one.
#include "tools/command/snapshot/read.hpp"

#include <initializer_list>

namespace custash::snapshot {
namespace {

class Check {
 public:
  explicit Check(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void fail(const std::string& where, const char* why) const {
    throw BadSnapshot(name_ + ": " + where + ": " + why);
  }

  const Json& member(const Json& of, const std::string& where, const char* key) const {
    if (!of.is_object()) fail(where, "not an object");
    const auto found = of.find(key);
    if (found == of.end()) fail(where + "." + key, "missing");
    return *found;
  }

  const Json& list(const Json& of, const std::string& where, const char* key) const {
    const Json& found = member(of, where, key);
    if (!found.is_array()) fail(where + "." + key, "not a list");
    return found;
  }

  void text(const Json& of, const std::string& where, const char* key) const {
    if (!member(of, where, key).is_string()) fail(where + "." + key, "not a text");
  }

  void numbers(const Json& of,
               const std::string& where,
               std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      whole(member(of, where, key), where + "." + key, -kMost, kMost);
  }

  void whole(const Json& value,
             const std::string& where,
             std::int64_t least,
             std::int64_t most) const {
    const bool in_range = value.is_number_integer() &&
                          (!value.is_number_unsigned() ||
                           value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost)) &&
                          value.get<std::int64_t>() >= least &&
                          value.get<std::int64_t>() <= most;
    if (!in_range) fail(where, "not a whole number in its range");
  }

  void word(const Json& value,
            const std::string& where,
            std::initializer_list<const char*> allowed) const {
    for (const char* each : allowed)
      if (value == each) return;
    fail(where, "an unknown word");
  }

  void counters(const Json& of, const std::string& where, const char* key) const {
    const Json& found = member(of, where, key);
    if (!found.is_object()) fail(where + "." + key, "not an object");
    for (const auto& [name, value] : found.items())
      whole(value, where + "." + key, -kMost, kMost);
  }

 private:
  std::string name_;
};

std::int64_t count_of(const Json& list) {
  return static_cast<std::int64_t>(list.size());
}

void check_device(const Check& check, const Json& device, std::int64_t stacks) {
  check.numbers(device, "devices", {"device"});
  check.counters(device, "devices", "stats");
  for (const char* key : {"allocated_bytes.all.current",
                          "allocated_bytes.all.peak",
                          "reserved_bytes.all.current",
                          "reserved_bytes.all.peak",
                          "requested_bytes.all.current",
                          "allocation.all.allocated",
                          "num_device_alloc",
                          "num_device_free",
                          "num_ooms",
                          "custash.free_bytes",
                          "custash.largest_free_block",
                          "custash.limbo_bytes",
                          "custash.fragmentation",
                          "custash.num_stalls_avoided"})
    (void)check.member(device.at("stats"), "stats", key);
  for (const Json& segment : check.list(device, "devices", "segments")) {
    check.numbers(segment, "segments", {"address", "size", "stream"});
    check.text(segment, "segments", "pool");
    check.word(
        check.member(segment, "segments", "made_of"), "segments.made_of", {"pages", "driver"});
    for (const Json& page : check.list(segment, "segments", "pages"))
      check.whole(page, "segments.pages", 0, kMost);
    std::int64_t at = segment.at("address").get<std::int64_t>();
    for (const Json& block : check.list(segment, "segments", "blocks")) {
      if (!block.is_array() || block.size() != 5)
        check.fail("segments.blocks", "not five values");
      check.whole(block[0], "segments.blocks", at, at);
      check.whole(block[1], "segments.blocks", 1, kMost - at);
      check.whole(block[2], "segments.blocks", 0, kMost);
      check.word(block[3], "segments.blocks", {"free", "limbo", "used"});
      check.whole(block[4], "segments.blocks", -1, stacks - 1);
      at += block[1].get<std::int64_t>();
    }
    if (at - segment.at("address").get<std::int64_t>() !=
        segment.at("size").get<std::int64_t>())
      check.fail("segments.blocks", "they do not fill their segment");
  }
}

void check_history(const Check& check, const Json& history, std::int64_t stacks) {
  check.numbers(
      history, "history", {"depth", "since_us", "events_seen", "events_lost", "stacks_lost"});
  if (!check.member(history, "history", "on").is_boolean())
    check.fail("history.on", "neither true nor false");
  for (const Json& track : check.list(history, "history", "tracked")) {
    check.numbers(track, "history.tracked", {"bytes", "peak_bytes"});
    check.counters(track, "history.tracked", "lifetimes_up_to_ns");
  }
  for (const Json& site : check.list(history, "history", "sites")) {
    check.whole(
        check.member(site, "history.sites", "stack"), "history.sites.stack", -1, stacks - 1);
    check.word(check.member(site, "history.sites", "memory"),
               "history.sites.memory",
               {"device", "pinned", "other"});
    check.text(site, "history.sites", "caller");
    check.numbers(site,
                  "history.sites",
                  {"device",
                   "blocks",
                   "bytes",
                   "peak_bytes",
                   "at_peak_bytes",
                   "allocations",
                   "allocated_bytes"});
    if (!check.member(site, "history.sites", "growing").is_boolean())
      check.fail("history.sites.growing", "neither true nor false");
  }
  for (const Json& event : check.list(history, "history", "events")) {
    if (!event.is_array() || (event.size() != 8 && event.size() != 9))
      check.fail("history.events", "neither eight nor nine values");
    check.word(event[1],
               "history.events",
               {"alloc",
                "free",
                "segment_alloc",
                "segment_free",
                "segment_map",
                "segment_unmap",
                "oom"});
    check.word(event[3], "history.events", {"device", "pinned", "other"});
    for (const int number : {0, 2, 4, 5, 6})
      check.whole(event[static_cast<std::size_t>(number)], "history.events", 0, kMost);
    for (std::size_t i = 7; i < event.size(); ++i)
      check.whole(event[i], "history.events", -1, stacks - 1);
  }
}

}  // namespace

void check_snapshot(const std::string& name, const Json& snapshot) {
  const Check check(name);
  if (!snapshot.is_object() || snapshot.value("format", Json()) != "custash snapshot 1")
    throw BadSnapshot(name + ": no snapshot of custash or PyTorch");
  check.numbers(snapshot, "snapshot", {"version", "pid", "time_us"});
  check.text(snapshot, "snapshot", "program");
  if (snapshot.contains("ended_by")) check.text(snapshot, "snapshot", "ended_by");
  const Json& frames = check.list(snapshot, "snapshot", "frames");
  for (const Json& frame : frames) {
    for (const char* key : {"module", "name", "file"})
      check.text(frame, "frames", key);
    // Older files have none.
    if (frame.contains("build_id")) check.text(frame, "frames", "build_id");
    check.numbers(frame, "frames", {"line"});
    check.whole(check.member(frame, "frames", "offset"), "frames.offset", 0, kMost);
  }
  const Json& stacks = check.list(snapshot, "snapshot", "stacks");
  for (const Json& stack : stacks) {
    if (!stack.is_array()) check.fail("stacks", "not a list");
    for (const Json& frame : stack)
      check.whole(frame, "stacks", 0, count_of(frames) - 1);
  }
  check.counters(snapshot, "snapshot", "host_stats");
  if (snapshot.contains("passed"))  // older files have none
    for (const Json& row : check.list(snapshot, "snapshot", "passed")) {
      check.text(row, "passed", "kind");
      check.numbers(row, "passed", {"allocations", "allocated_bytes", "live", "live_bytes"});
    }
  for (const Json& device : check.list(snapshot, "snapshot", "devices"))
    check_device(check, device, count_of(stacks));
  check_history(check, check.member(snapshot, "snapshot", "history"), count_of(stacks));
}

}  // namespace custash::snapshot
