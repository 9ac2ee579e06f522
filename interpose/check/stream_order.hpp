// SPDX-License-Identifier: MIT
// StreamOrder: the order of work that a program has requested from the driver. It knows the
// program's streams, its events, and the waits of streams and of the host. The core counts
// submissions and records fences of its own; it does not follow the program's events.
//
// Each stream is a chain of places. A clock has for each chain the place that comes before.
// Whatever is not known counts as ordered: what StreamOrder calls unordered is so.
// Pure; its owner's lock guards it.
#pragma once

#include "allocator/base/units.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include <cuda.h>

namespace custash::streams {

// A stream as its handle, or as a default stream of a context and, per thread, of a thread.
struct Name {
  CUstream handle = nullptr;
  CUcontext context = nullptr;
  std::uint64_t thread = 0;

  auto operator<=>(const Name&) const = default;
};

using Chain = std::uint32_t;

// An address that work names. `place`: 0 for a whole parameter; in structures, the word's
// number among those of the launch.
struct Named {
  Address address = 0;
  std::size_t place = 0;
};

// How work names addresses. Exact: as a copy does. Parameters: a launch's, of which one may be
// the end of a block. Repeated: those of a graph's kernel, which are the same in each launch.
enum class Naming { Exact, Parameters, Repeated };

struct Place {
  Chain chain = 0;
  std::uint64_t position = 0;
};

class Clock {
 public:
  [[nodiscard]] std::uint64_t at(Chain chain) const {
    return chain < rows_.size() ? rows_[chain] : 0;
  }

  void set(Chain chain, std::uint64_t position);
  void join(const Clock& other);

 private:
  std::vector<std::uint64_t> rows_;
};

class StreamOrder {
 public:
  // ---- Streams.
  [[nodiscard]] const Chain* find(const Name& name) const;
  // `blocking`: the stream and the legacy stream of its context wait for each other.
  Chain add(const Name& name, CUcontext context, bool blocking);
  void destroyed(const Name& name);
  // All streams of all contexts: nothing of them runs.
  void forget_streams();

  // How often it has forgotten them: a chain from before means nothing any more.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

  [[nodiscard]] bool is_legacy(Chain chain) const { return streams_[chain].legacy; }

  [[nodiscard]] CUstream handle_of(Chain chain) const { return streams_[chain].name.handle; }

  // ---- Work.
  Place submitted(Chain chain);
  // The stream waits for what custash cannot see: it counts as behind everything from now on.
  void waits_unseen(Chain chain);
  // Its graph may record any event.
  void graph_launched(Chain chain);
  [[nodiscard]] bool is_ordered(Place place, Chain before);

  [[nodiscard]] bool is_behind_all(Chain chain) const { return streams_[chain].behind_all; }

  // ---- Events.
  void recorded(CUevent event, const Clock& clock);
  [[nodiscard]] Clock of(CUevent event) const;
  void waits(Chain chain, const Clock& clock);
  void all_wait(CUcontext context, const Clock& clock);

  // ---- The host. What a clock covers is over.
  void is_over(const Clock& clock) { over_.join(clock); }

  // What work that a stream gets now comes behind.
  [[nodiscard]] Clock of(Chain chain);
  // What a stream, a context's streams, all streams have been given.
  [[nodiscard]] Clock given(Chain chain);
  [[nodiscard]] Clock of(CUcontext context);
  [[nodiscard]] Clock of_all() const;

 private:
  struct Stream {
    Name name;
    CUcontext context = nullptr;
    bool blocking = false;
    bool legacy = false;
    bool dead = false;
    bool behind_all = false;
    std::uint64_t tail = 0;
    Clock clock;
  };

  // With more, what came before counts as over, and events are forgotten.
  static constexpr std::size_t kMostStreams = 1024;
  static constexpr std::size_t kMostEvents = 16'384;

  [[nodiscard]] Chain free_chain() const;

  void refresh(Chain chain);

  std::uint64_t epoch_ = 0;
  std::vector<Stream> streams_;
  std::map<Name, Chain> chains_;
  std::map<CUevent, Clock> events_;
  Clock graphs_;  // launches of graphs
  Clock waited_;  // what whole contexts wait for, also streams to come
  Clock over_;
};

}  // namespace custash::streams
