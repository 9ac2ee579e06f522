// SPDX-License-Identifier: MIT
// Proved: tests/models/peers.pml and tests/models/unpaid.pml.
#include "allocator/cache/peer_grants.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/heap/pool.hpp"

#include <vector>

namespace custash {

// Afterwards no thread is in the middle of a hand-out that took debt before PeerAccess changed.
void PeerGrants::finish_hand_outs() {
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
}

void PeerGrants::add_accessor(PeerGrants& reader) {
  // Submissions that custash does not see pay no debt. In that case this waits for all debt,
  // and no more debt is taken.
  const bool seen = core_.shared.config.single_stream || !holds(Rule::unseen_peers_pay_nothing);
  CacheCore& its = reader.core_;
  const bool pays = core_.peers.add_reader(its.peers, its.timeline, core_.timeline, seen);
  // A running kernel of the reader, to which the host may hand memory, has paid no debt either.
  if (!pays || its.timeline.host_may_hand_over()) {
    finish_hand_outs();
    if (holds(Rule::what_is_owed_is_over_before_unpaid_peers))
      core_.timeline.fences()
          .wait_for(core_.timeline.debt().owed())
          .ignore();  // broken() reports it
  }
  let_copies_reach(its.device);
}

void PeerGrants::let_cards_reach() {
  if (core_.peers.reached_by_cards()) return;
  core_.peers.let_cards_reach();
  finish_hand_outs();
  // With one stream blocks are handed out without debt. So this waits for the work before the
  // latest free, as the driver's own cudaFree does.
  if (holds(Rule::memory_of_network_cards_is_quiet))
    core_.timeline.fences()
        .wait_for(core_.timeline.fences().coverable())
        .ignore();  // broken() reports it
}

void PeerGrants::let_engines_reach() {
  core_.peers.let_engines_reach();
  core_.quick.store(false);
  let_cards_reach();
}

// Searches find such a block no more. A thread would find it where it kept it at its free: from
// now on large blocks are freed under the lock.
void PeerGrants::keep_blocks_whole() {
  if (!whole_.load() && !whole_.exchange(true)) finish_hand_outs();
}

// cuCtxEnablePeerAccess covers plain memory by itself; each page needs a call of its own. If
// another thread is giving the same access, this thread gives it as well: it must be there on
// return.
void PeerGrants::let_copies_reach(CUdevice device) {
  const bool known = core_.peers.reached_by(device);
  if (known || device == core_.device || !core_.memory.vmm()) return;
  std::vector<Page> mapped;
  {
    CacheLock lock(core_.mutex);
    core_.peers.add_accessor(device);
    for (const auto& pool : core_.pools) {
      pool->small_pages.collect_pages(&mapped);
      pool->large.collect_pages(&mapped);
    }
  }
  // The call fails for a page that trim() returned meanwhile, and no kernel needs that page.
  for (const Page& page : mapped) {
    core_.memory
        .give_access(page.address, page.size, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        .ignore();
  }
  core_.peers.set_reached_by(device);
}

}  // namespace custash
