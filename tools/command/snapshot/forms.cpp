// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/forms.hpp"

#include "interpose/history/snapshot.hpp"
#include "tools/command/snapshot/packed.hpp"
#include "tools/command/snapshot/report_page.hpp"

#include <algorithm>

namespace custash::snapshot {
namespace {

std::uint64_t natural(const Json& value) {
  return value.get<std::uint64_t>();
}

// Where a word stands in a list that has it.
template <typename Words>
std::size_t index_in(const Words& words, const Json& word) {
  return static_cast<std::size_t>(std::find(std::begin(words), std::end(words), word) -
                                  std::begin(words));
}

stacks::Id stack_of(const Json& value) {
  const auto id = value.get<std::int64_t>();
  return id < 0 ? stacks::kNone : static_cast<stacks::Id>(id);
}

Block block_of(const Json& block) {
  Block out;
  out.piece.address = natural(block[0]);
  out.piece.size = natural(block[1]);
  out.piece.requested = natural(block[2]);
  out.piece.state = static_cast<PieceState>(index_in(kStateNames, block[3]));
  out.stack = stack_of(block[4]);
  return out;
}

DeviceState device_of(const Json& device) {
  DeviceState out;
  out.stats.device = device.at("device").get<int>();
  const Json& stats = device.at("stats");
  out.stats.requested_bytes[CUSTASH_ALL].current =
      stats.at("requested_bytes.all.current").get<std::int64_t>();
  out.stats.reserved_bytes[CUSTASH_ALL].current =
      stats.at("reserved_bytes.all.current").get<std::int64_t>();
  for (const Json& segment : device.at("segments")) {
    HeldSegment& held = out.segments.emplace_back();
    held.base = natural(segment.at("address"));
    held.size = natural(segment.at("size"));
    held.pool = segment.at("pool") == "small_pool" ? StatPool::Small : StatPool::Large;
    held.mapped = segment.at("made_of") == "pages";
    held.stream = reinterpret_cast<CUstream>(natural(segment.at("stream")));  // NOLINT
    std::vector<Block>& blocks = out.blocks.emplace_back();
    for (const Json& block : segment.at("blocks"))
      blocks.push_back(block_of(block));
  }
  return out;
}

constexpr std::size_t kEventSize = 8;  // a free's has one more, the stack that freed

history::Event event_of(const Json& event) {
  history::Event out;
  out.time = natural(event[0]) * 1000;
  out.action = static_cast<history::Action>(index_in(kActionNames, event[1]));
  out.device = static_cast<std::uint16_t>(natural(event[2]));
  out.memory = static_cast<observe::MemoryKind>(index_in(kMemoryNames, event[3]));
  out.address = natural(event[4]);
  out.bytes = natural(event[5]);
  out.stream = natural(event[6]);
  out.stack = stack_of(event[7]);
  if (event.size() > kEventSize) out.freed_by = stack_of(event[kEventSize]);
  return out;
}

// What the pickle and the trace tell of it.
Snapshot snapshot_of(const Json& json) {
  Snapshot out;
  out.pid = json.at("pid").get<int>();
  out.program = json.at("program").get<std::string>();
  for (const Json& device : json.at("devices"))
    out.devices.push_back(device_of(device));
  for (const Json& event : json.at("history").at("events"))
    out.history.events.push_back(event_of(event));
  for (const Json& frame : json.at("frames"))
    out.frames.push_back(frame_of(frame));
  out.stacks = json.at("stacks").get<decltype(out.stacks)>();
  return out;
}

// An element with what page/unpack.js reads. A name in base64 cannot become markup.
std::string element_of(std::string_view begin, const NamedSnapshot& file) {
  std::string out(begin);
  out += " data-name=\"" + base64(file.name) + "\">" + packed(*file.snapshot);
  out += kDataEnd;
  return out;
}

}  // namespace

std::string json_of(const Json& file) {
  std::string json = file.dump(-1, ' ', true, Json::error_handler_t::replace);
  const std::string format = "\"format\":" + file.at("format").dump() + ",";
  const std::size_t at = json.find(format);
  if (at == std::string::npos) return json;
  return "{" + format + json.substr(1, at - 1) + json.substr(at + format.size());
}

Frame frame_of(const Json& frame) {
  return {frame.at("module").get<std::string>(),
          frame.value("build_id", ""),
          natural(frame.at("offset")),
          frame.at("name").get<std::string>(),
          frame.at("file").get<std::string>(),
          frame.at("line").get<int>()};
}

std::string page_of(const NamedSnapshot& file) {
  return report_page(element_of(kPackedBegin, file));
}

std::string page_of(const NamedSnapshot& before, const NamedSnapshot& after) {
  return report_page(element_of(kPackedBefore, before) + "\n" +
                     element_of(kPackedBegin, after));
}

std::string text_of(const Json& snapshot, Form form) {
  if (form == Form::Html) return page_of({"", &snapshot});
  if (form == Form::Pickle) return as_pickle(snapshot_of(snapshot));
  if (form == Form::Trace) return as_trace(snapshot_of(snapshot));
  if (form == Form::Pprof) return as_pprof(snapshot);
  if (form == Form::Folded) return as_folded(snapshot);
  return json_of(snapshot);
}

}  // namespace custash::snapshot
