// SPDX-License-Identifier: MIT
// A snapshot in PyTorch's form (torch.cuda.memory._dump_snapshot): a pickle of protocol 4,
// which its viewer and torch.cuda._memory_viz open. Only the JSON form has custash's counters.
#include "interpose/history/snapshot.hpp"
#include "interpose/process/printable.hpp"
#include "tools/command/snapshot/forms.hpp"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace custash::snapshot {
namespace {

class PickleWriter {
 public:
  PickleWriter() { text_ += "\x80\x04"; }

  std::string finish() {
    text_ += '.';
    return std::move(text_);
  }

  void open_dict() { text_ += "}("; }

  void close_dict() { text_ += 'u'; }

  void open_list() { text_ += "]("; }

  void close_list() { text_ += 'e'; }

  void truth(bool value) { text_ += value ? '\x88' : '\x89'; }

  void none() { text_ += 'N'; }

  // LONG1: two's complement, as few bytes as hold it.
  void integer(std::uint64_t value) {
    std::string digits;
    do {
      digits += static_cast<char>(value & 0xffU);
      value >>= 8U;
    } while (value != 0);
    if ((static_cast<unsigned char>(digits.back()) & 0x80U) != 0) digits += '\0';
    text_ += '\x8a';
    text_ += static_cast<char>(digits.size());
    text_ += digits;
  }

  void pair(std::uint64_t first, std::uint64_t second) {
    integer(first);
    integer(second);
    text_ += '\x86';
  }

  // Each text is written once.
  void string(std::string_view what) {
    const auto [it, fresh] = strings_.try_emplace(std::string(what), memo_);
    if (!fresh) return recall(it->second);
    text_ += 'X';
    const std::string text = as_utf8(what);
    add_number(text.size());
    text_ += text;
    (void)remember();
  }

  // Remembers the value written last, to be fetched again.
  std::uint32_t remember() {
    text_ += '\x94';
    return memo_++;
  }

  void recall(std::uint32_t number) {
    text_ += 'j';
    add_number(number);
  }

 private:
  void add_number(std::uint64_t value) {
    for (unsigned shift = 0; shift < 32; shift += 8)
      text_ += static_cast<char>((value >> shift) & 0xffU);
  }

  std::string text_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::uint32_t memo_ = 0;
};

class Writer {
 public:
  explicit Writer(const Snapshot& snapshot)
      : snapshot_(snapshot), known_(snapshot.stacks.size(), ~0U) {}

  std::string write() {
    out_.open_dict();
    out_.string("segments");
    out_.open_list();
    for (const DeviceState& device : snapshot_.devices) {
      for (std::size_t i = 0; i < device.segments.size(); ++i)
        segment(device.stats.device, device.segments[i], device.blocks[i]);
    }
    out_.close_list();
    out_.string("device_traces");
    out_.open_list();
    for (std::size_t device = 0; device < snapshot_.devices.size(); ++device)
      trace(device);
    out_.close_list();
    out_.string("allocator_settings");
    settings();
    out_.string("external_annotations");
    out_.open_list();
    out_.close_list();
    out_.close_dict();
    return out_.finish();
  }

 private:
  void number(std::string_view key, std::uint64_t value) {
    out_.string(key);
    out_.integer(value);
  }

  void text(std::string_view key, std::string_view value) {
    out_.string(key);
    out_.string(value);
  }

  void frames(stacks::Id id) {
    if (id == stacks::kNone) {
      out_.open_list();
      return out_.close_list();
    }
    if (known_[id] != ~0U) return out_.recall(known_[id]);
    out_.open_list();
    for (const Symbols::Id frame_id : snapshot_.stacks[id]) {
      const Frame& frame = snapshot_.frames[frame_id];
      out_.open_dict();
      text("filename", frame.file.empty() ? frame.module : frame.file);
      number("line", static_cast<std::uint64_t>(frame.line));
      text("name", name_of(frame));
      if (frame.file.empty() || !frame.module.empty()) {  // the command finds lines with these
        text("module", frame.module);
        text("build_id", frame.build_id);
        number("offset", frame.offset);
      }
      out_.close_dict();
    }
    out_.close_list();
    known_[id] = out_.remember();
  }

  void block(const Block& block) {
    const bool used = block.piece.state == PieceState::Used;
    out_.open_dict();
    number("address", block.piece.address);
    number("size", block.piece.size);
    number("requested_size", used ? block.piece.requested : 0);
    text("state",
         used                                     ? "active_allocated"
         : block.piece.state == PieceState::Limbo ? "active_pending_free"
                                                  : "inactive");
    out_.string("frames");
    frames(block.stack);
    out_.close_dict();
  }

  void segment(std::int64_t device,
               const HeldSegment& segment,
               const std::vector<Block>& blocks) {
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes requested = 0;
    for (const Block& each : blocks) {
      if (each.piece.state == PieceState::Free) continue;
      active += each.piece.size;
      if (each.piece.state != PieceState::Used) continue;
      allocated += each.piece.size;
      requested += each.piece.requested;
    }
    out_.open_dict();
    number("device", static_cast<std::uint64_t>(device));
    number("address", segment.base);
    number("total_size", segment.size);
    number("allocated_size", allocated);
    number("active_size", active);
    number("requested_size", requested);
    number("stream", reinterpret_cast<std::uint64_t>(segment.stream));
    text("segment_type", segment.pool == StatPool::Small ? "small" : "large");
    out_.string("segment_pool_id");
    out_.pair(0, 0);
    out_.string("is_expandable");
    out_.truth(segment.mapped);
    out_.string("frames");
    frames(stacks::kNone);
    out_.string("blocks");
    out_.open_list();
    for (const Block& each : blocks)
      block(each);
    out_.close_list();
    out_.close_dict();
  }

  void entry(const history::Event& event, const char* action) {
    out_.open_dict();
    text("action", action);
    number(event.action == history::Action::Oom ? "device_free" : "addr", event.address);
    number("size", event.bytes);
    number("stream", event.stream);
    number("time_us", event.time / 1000);
    out_.string("frames");
    frames(event.action == history::Action::Free ? event.freed_by : event.stack);
    out_.close_dict();
  }

  // Frees whose block still waits, so that its address was not handed out since.
  std::unordered_set<const history::Event*> pending_frees(std::size_t device) const {
    std::unordered_set<Address> waiting;
    for (const std::vector<Block>& blocks : snapshot_.devices[device].blocks) {
      for (const Block& each : blocks)
        if (each.piece.state == PieceState::Limbo) waiting.insert(each.piece.address);
    }
    std::unordered_set<const history::Event*> pending;
    const auto& events = snapshot_.history.events;
    for (auto event = events.rbegin(); event != events.rend() && !waiting.empty(); ++event) {
      const bool freed = event->action == history::Action::Free;
      if (event->device != device || event->memory != observe::MemoryKind::Device ||
          (!freed && event->action != history::Action::Alloc))
        continue;
      if (waiting.erase(event->address) != 0 && freed) pending.insert(&*event);
    }
    return pending;
  }

  void trace(std::size_t device) {
    using history::Action;
    const auto pending = pending_frees(device);
    out_.open_list();
    for (const history::Event& event : snapshot_.history.events) {
      if (event.device != device || event.memory != observe::MemoryKind::Device) continue;
      switch (event.action) {
        case Action::Alloc:
          entry(event, "alloc");
          break;
        case Action::Free:
          // custash does not record when each block became reusable.
          entry(event, "free_requested");
          if (!pending.contains(&event)) entry(event, "free_completed");
          break;
        case Action::SegmentAlloc:
          entry(event, "segment_alloc");
          break;
        case Action::SegmentFree:
          entry(event, "segment_free");
          break;
        case Action::SegmentMap:
          entry(event, "segment_map");
          break;
        case Action::SegmentUnmap:
          entry(event, "segment_unmap");
          break;
        case Action::Oom:
          entry(event, "oom");
          break;
      }
    }
    out_.close_list();
  }

  // The keys that PyTorch's tools read, with PyTorch's default values.
  void settings() {
    out_.open_dict();
    text("PYTORCH_CUDA_ALLOC_CONF", "backend:custash");
    out_.string("expandable_segments");
    out_.truth(true);
    out_.close_dict();
  }

  const Snapshot& snapshot_;
  PickleWriter out_;
  std::vector<std::uint32_t> known_;  // stack -> where it is remembered
};

}  // namespace

std::string as_pickle(const Snapshot& snapshot) {
  return Writer(snapshot).write();
}

}  // namespace custash::snapshot
