// SPDX-License-Identifier: MIT
// TraceBuilder: makes a Trace of events that name allocations by any number, and refuses those
// that cannot be: a free of nothing, an id given twice.
#pragma once

#include "tools/replay/trace.hpp"

#include <unordered_map>

namespace custash::replay {

class TraceBuilder {
 public:
  explicit TraceBuilder(std::string name) { trace_.name = std::move(name); }

  // Null, or why the event cannot follow those before it.
  const char* alloc(Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes);
  const char* alloc_on(
      Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes, std::uint64_t stream);
  const char* free(Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes);
  const char* free_on(
      Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes, std::uint64_t stream);

  [[nodiscard]] bool is_live(std::uint64_t id) const { return live_.contains(id); }

  Trace finish() { return std::move(trace_); }

 private:
  struct Live {
    std::uint32_t slot = 0;
    Kind kind = Kind::Alloc;
    Bytes bytes = 0;
  };

  std::uint32_t stream_number(std::uint64_t stream);
  const char* add_alloc(Event event, std::uint64_t id);
  const char* add_free(Event event, std::uint64_t id);

  Trace trace_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;
  std::vector<std::uint32_t> free_slots_;
  Bytes in_use_ = 0;
  Bytes pinned_in_use_ = 0;
};

}  // namespace custash::replay
