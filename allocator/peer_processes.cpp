// SPDX-License-Identifier: MIT
#include "allocator/peer_processes.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/registry.hpp"

#include <algorithm>
#include <string>

namespace custash {

bool RoomWait::again() {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  constexpr Nanoseconds kHopeless = 3 * kSecond;  // other processes' figures are this old
  constexpr int kTries = 10;                      // where there was room, and yet too little
  const Driver& driver = state_.driver;
  const Config& config = state_.config;
  if (config.yield_after == 0 || config.patience == 0 || state_.neighbours.yield == nullptr ||
      state_.limits.budget(device_).room() < bytes_ || tries_++ == kTries)
    return false;
  turn_.reset();
  Nanoseconds next_line = driver.now() + 10 * kSecond;
  Nanoseconds hopeless_at = driver.now() + kHopeless;
  for (;;) {
    if (state_.captures_open.load() != 0) return false;
    // What sleeps here would have to wake beside it.
    const Bytes wanted = bytes_ + state_.sleep_gate.asleep.load();
    const Room room = state_.neighbours.yield(device_, wanted, 60 * kSecond, &turn_);
    if (state_.sleep_gate.closed()) turn_.reset();  // it would keep this process from waking
    if (room == Room::Made || room == Room::Nobody) return room == Room::Made;
    const Nanoseconds now = driver.now();
    if (room == Room::Later) hopeless_at = now + kHopeless;
    if (now >= hopeless_at) return false;
    if (now >= next_line) {
      next_line = now + 10 * kSecond;
      log(LogLevel::Warn,
          "event=waits_for_room device=" + std::to_string(device_) +
              " bytes=" + std::to_string(wanted) + " reason=\"other processes work\"");
    }
    turn_.reset();
    driver.rest(kSecond / 10);
  }
}

Bytes PeerProcesses::give_back(int device, Bytes bytes) {
  if (state_.captures_open.load() != 0) return 0;
  DeviceBudget& budget = state_.limits.budget(device);
  // What was measured may be gone, and an idle process does not measure.
  Quota& quota = budget.quota();
  const Bytes found = quota.own().found.load();
  quota.measure(true);
  const Bytes fell = quota.shared() ? found - std::min(found, quota.own().found.load()) : 0;
  const Bytes before = budget.held();
  const auto given_yet = [&] { return fell + before - std::min(before, budget.held()); };
  visit_living(state_.on_device(device), [&](ContextCache& cache) {
    const Bytes given = given_yet();
    if (given >= bytes) return;
    const CurrentContext current(state_.driver, cache.context());
    // What cannot be given is not counted.
    if (current.status().ok()) cache.trim({.bytes = bytes - given}).ignore();
  });
  return given_yet();
}

void PeerProcesses::set_neighbours(const Neighbours& neighbours) {
  state_.neighbours = neighbours;
}

bool PeerProcesses::offer(Address base, std::uint64_t buffer_id, ExportedBlock* out) {
  ContextCache* cache = state_.owner(base);
  return cache != nullptr &&
         cache->freed_blocks().export_block(base, buffer_id, Exporting::Offer, out);
}

bool PeerProcesses::pin(Address base, std::uint64_t buffer_id, ExportedBlock* out) {
  ContextCache* cache = state_.owner(base);
  return cache != nullptr &&
         cache->freed_blocks().export_block(base, buffer_id, Exporting::Open, out);
}

void PeerProcesses::unpin(const ExportedBlock& block) {
  block.cache->freed_blocks().unpin(block.base, block.buffer_id);
}

Status PeerProcesses::quiet(Address base) {
  ContextCache* cache = state_.owner(base);
  return cache == nullptr ? Status(CUDA_ERROR_INVALID_VALUE) : cache->quiet(base);
}

void PeerProcesses::let_cards_reach(CUcontext context) {
  ContextCache* cache = state_.known(context);
  if (cache == nullptr) return;  // asked for when it is made
  if (const ContextUse use(cache->timeline().events().users()); use)
    cache->peer_grants().let_cards_reach();
}

PeerProcesses::HandingOver::HandingOver(const ExportedBlock& block)
    : cache_(block.cache),
      begun_(cache_->freed_blocks().hand_over(block.base, block.buffer_id)) {
}

PeerProcesses::HandingOver::~HandingOver() {
  if (begun_) cache_->freed_blocks().handed_over();
}

void PeerProcesses::let_engine_reach(const char* engine) {
  state_.engine.store(engine);
  visit_living(state_.all(),
               [](ContextCache& cache) { cache.peer_grants().let_engines_reach(); });
}

void PeerProcesses::set_registering(WholeBlocks::Ask* ask) {
  if (state_.config.backing == Backing::Auto) state_.whole_blocks.set_ask(ask);
}

}  // namespace custash
