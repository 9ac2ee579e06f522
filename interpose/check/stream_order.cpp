// SPDX-License-Identifier: MIT
#include "interpose/check/stream_order.hpp"

#include <algorithm>

namespace custash::streams {

void Clock::set(Chain chain, std::uint64_t position) {
  if (chain >= rows_.size()) rows_.resize(chain + 1);
  rows_[chain] = position;
}

void Clock::join(const Clock& other) {
  if (other.rows_.size() > rows_.size()) rows_.resize(other.rows_.size());
  for (std::size_t i = 0; i < other.rows_.size(); ++i)
    rows_[i] = std::max(rows_[i], other.rows_[i]);
}

const Chain* StreamOrder::find(const Name& name) const {
  const auto found = chains_.find(name);
  return found == chains_.end() ? nullptr : &found->second;
}

// A destroyed stream's chain serves again when its work is over.
Chain StreamOrder::free_chain() const {
  Chain chain = 0;
  while (chain < streams_.size() &&
         !(streams_[chain].dead && over_.at(chain) >= streams_[chain].tail))
    ++chain;
  return chain;
}

Chain StreamOrder::add(const Name& name, CUcontext context, bool blocking) {
  Chain chain = free_chain();
  if (chain == kMostStreams) {
    forget_streams();
    chain = 0;
  }
  if (chain == streams_.size()) streams_.emplace_back();
  Stream& stream = streams_[chain];
  const std::uint64_t tail = stream.tail;
  stream = {.name = name,
            .context = context,
            .blocking = blocking,
            .legacy = name.handle == CU_STREAM_LEGACY,
            .tail = tail};
  stream.clock = waited_;
  stream.clock.set(chain, tail);
  chains_[name] = chain;
  return chain;
}

void StreamOrder::destroyed(const Name& name) {
  const auto found = chains_.find(name);
  if (found == chains_.end()) return;
  streams_[found->second].dead = true;
  chains_.erase(found);
}

void StreamOrder::forget_streams() {
  ++epoch_;
  is_over(of_all());
  for (Stream& each : streams_)
    each.dead = true;
  chains_.clear();
}

// The legacy stream's work comes after that of blocking streams, and theirs after its.
void StreamOrder::refresh(Chain chain) {
  Stream& stream = streams_[chain];
  if (stream.behind_all) return stream.clock.join(of_all());
  if (!stream.legacy && !stream.blocking) return;
  for (Chain i = 0; i < streams_.size(); ++i) {
    const Stream& other = streams_[i];
    const bool waits = stream.legacy ? other.blocking : other.legacy;
    if (waits && stream.clock.at(i) < other.tail && stream.context == other.context)
      stream.clock.join(other.clock);
  }
}

Place StreamOrder::submitted(Chain chain) {
  refresh(chain);
  Stream& stream = streams_[chain];
  stream.clock.set(chain, ++stream.tail);
  return {chain, stream.tail};
}

void StreamOrder::waits_unseen(Chain chain) {
  streams_[chain].behind_all = true;
}

void StreamOrder::graph_launched(Chain chain) {
  graphs_.join(of(chain));
}

bool StreamOrder::is_ordered(Place place, Chain before) {
  if (over_.at(place.chain) >= place.position || is_behind_all(before)) return true;
  refresh(before);
  return streams_[before].clock.at(place.chain) >= place.position;
}

void StreamOrder::recorded(CUevent event, const Clock& clock) {
  if (events_.size() >= kMostEvents) events_.clear();
  events_[event] = clock;
}

// Of an event that was recorded where custash does not see it, nothing is known.
Clock StreamOrder::of(CUevent event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return of_all();
  Clock clock = found->second;
  clock.join(graphs_);
  return clock;
}

void StreamOrder::waits(Chain chain, const Clock& clock) {
  streams_[chain].clock.join(clock);
  (void)submitted(chain);  // for those that wait for this stream
}

void StreamOrder::all_wait(CUcontext context, const Clock& clock) {
  waited_.join(clock);
  for (Chain i = 0; i < streams_.size(); ++i)
    if (streams_[i].context == context) waits(i, clock);
}

Clock StreamOrder::of(Chain chain) {
  refresh(chain);
  return streams_[chain].clock;
}

// The legacy stream has been given what blocking streams have.
Clock StreamOrder::given(Chain chain) {
  const Stream& stream = streams_[chain];
  if (stream.legacy || stream.behind_all) refresh(chain);
  return stream.clock;
}

Clock StreamOrder::of(CUcontext context) {
  Clock clock;
  for (Chain i = 0; i < streams_.size(); ++i)
    if (streams_[i].context == context) clock.join(of(i));
  return clock;
}

Clock StreamOrder::of_all() const {
  Clock clock;
  for (Chain i = 0; i < streams_.size(); ++i)
    clock.set(i, streams_[i].tail);
  return clock;
}

}  // namespace custash::streams
