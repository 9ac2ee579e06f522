// SPDX-License-Identifier: MIT
#include "allocator/thread_seats.hpp"

#include "allocator/base/rule.hpp"

#include <algorithm>
#include <atomic>

#include <pthread.h>

namespace custash {
namespace {

std::atomic<std::uint64_t> next_number{1};

// Runs after the thread's own destructors, which may still free memory; should something of the
// thread come even later, it gets new seats, and these are given back in their turn.
struct ThreadEnd {
  ThreadEnd() {
    made = pthread_key_create(
               &key, [](void* seats) { delete static_cast<ThreadSeats*>(seats); }) == 0;
  }

  // Threads that end after the library has gone must not come back here.
  ~ThreadEnd() {
    if (made) pthread_key_delete(key);
  }

  pthread_key_t key{};
  bool made = false;
};

}  // namespace

constinit thread_local ThreadSeats* ThreadSeats::mine_ = nullptr;

ThreadSeats& ThreadSeats::make_mine() {
  static const ThreadEnd end;
  mine_ = new ThreadSeats;
  // Without it a thread's end costs what its racks hold, until the next time all are emptied.
  if (end.made) pthread_setspecific(end.key, mine_);
  return *mine_;
}

ThreadSeats::ThreadSeats() : number_(next_number.fetch_add(1)) {
}

ThreadSeats::~ThreadSeats() {
  mine_ = nullptr;
  try {
    for (Rack* rack : racks_)
      rack->cache->retire_rack(rack);
    for (DeviceCache* cache : own_streams_)
      if (holds(Rule::ended_threads_give_their_lane_back)) cache->thread_ended(number_);
  } catch (...) {
    // No memory for it on the host: what is left of the thread stays where it is.
  }
}

void ThreadSeats::note_own_stream(DeviceCache* cache) {
  if (std::find(own_streams_.begin(), own_streams_.end(), cache) == own_streams_.end())
    own_streams_.push_back(cache);
}

Seat* ThreadSeats::remember(const Seat& seat) {
  const std::size_t home = slot(seat.context, seat.stream);
  std::size_t at = home;
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Seat& there = seats_[(home + i) % kSeats];
    const bool same = there.stream == seat.stream && there.context == seat.context;
    if (!same && there.epoch == seat.epoch) continue;
    at = (home + i) % kSeats;
    break;
  }
  seats_[at] = seat;
  return &seats_[at];
}

Rack* ThreadSeats::make_rack(Seat& seat) {
  seat.rack = seat.cache->rack(seat.lane);
  if (std::find(racks_.begin(), racks_.end(), seat.rack) == racks_.end())
    racks_.push_back(seat.rack);
  return seat.rack;
}

}  // namespace custash
