// SPDX-License-Identifier: MIT
#include "allocator/peer_processes.hpp"

#include "allocator/base/scope.hpp"
#include "allocator/registry.hpp"

#include <algorithm>

namespace custash {

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
