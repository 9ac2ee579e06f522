// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/sync_memops.hpp"
#include "interpose/process/peer_clients.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <algorithm>
#include <atomic>
#include <unordered_map>

namespace custash::sync_memops {
namespace {

// Order: none. A thread that uses such memory comes after the one that set the attribute.
constinit std::atomic<bool> used{false};
constinit RankedMutex mutex{HookRank::SyncMemops};

using Ids = std::unordered_map<std::uint64_t, Address>;  // where the block began

Ids& ids() REQUIRES(mutex) {
  static auto& all = *new Ids;  // never destroyed: calls come at exit
  return all;
}

// Those of blocks that have been freed. Nothing reports when that happens, so they are looked
// for whenever twice as many are known.
void forget_freed(Allocator& core) {
  static constinit std::size_t most = 256;
  Ids known;
  {
    const RankedLock lock(mutex);
    if (ids().size() < most) return;
    known = ids();
    most = ~std::size_t{0};  // one thread looks
  }
  std::erase_if(known, [&](const auto& each) {
    BlockInfo block;
    return core.find(each.second, &block) == Ownership::Live && block.buffer_id == each.first;
  });
  const RankedLock lock(mutex);
  for (const auto& [id, base] : known)
    ids().erase(id);
  most = std::max<std::size_t>(256, 2 * ids().size());
}

bool has_it(Allocator& core, Address address) {
  BlockInfo block;
  return address != 0 && core.find(address, &block) == Ownership::Live &&
         is_set(block.buffer_id);
}

}  // namespace

bool in_use() noexcept {
  return used.load(std::memory_order_relaxed);
}

void set(Allocator& core, const BlockInfo& block, bool on) {
  forget_freed(core);
  const std::uint64_t buffer_id = block.buffer_id;
  const RankedLock lock(mutex);
  if (on) {
    ids()[buffer_id] = block.base;
    used.store(true);
  } else {
    ids().erase(buffer_id);
  }
}

bool is_set(std::uint64_t buffer_id) {
  const RankedLock lock(mutex);
  return ids().contains(buffer_id);
}

CUresult finish(
    Allocator& core, NullStream null, Address first, Address second, CUresult result) {
  // While another stream captures the driver refuses a wait, which may also end the capture.
  if (result != CUDA_SUCCESS || captures::under_way() ||
      !(has_it(core, first) || has_it(core, second)))
    return result;
  static auto* const wait =
      reinterpret_cast<CUresult (*)(CUstream)>(real::symbol("cuStreamSynchronize"));
  if (wait == nullptr) return result;
  const RelaxedCapture relaxed(core.driver());  // another thread may have begun one since
  return wait(null == NullStream::PerThread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
}

}  // namespace custash::sync_memops

namespace custash::handlers {
namespace {

void let_cards_reach(Allocator& core, CUcontext context) {
  if (context == nullptr) return;  // its flags are read when it has memory
  peer_clients::note_registration();
  PeerProcesses(core).let_cards_reach(context);
  Sleep(core).wake();
}

}  // namespace

CUresult pointer_set_attribute(Real<const void*, CUpointer_attribute, CUdeviceptr> real,
                               NullStream,
                               const void* value,
                               CUpointer_attribute attribute,
                               CUdeviceptr address) {
  Allocator* const core = process::core();
  BlockInfo block;
  const Ownership owner = core == nullptr ? Ownership::Foreign : core->find(address, &block);
  if (owner == Ownership::Foreign || value == nullptr ||
      attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    const KeepAwake awake(core);
    handle_table().stays_at(address, 1);  // the attribute may stay with the memory
    return real(value, attribute, address);
  }
  if (owner == Ownership::Cached) return CUDA_ERROR_INVALID_VALUE;
  const bool on = *static_cast<const unsigned*>(value) != 0;
  if (on) peer_clients::note_registration();
  sync_memops::set(*core, block, on);
  Sleep sleep(*core);
  sleep.keep_awake(block.base, block.buffer_id, on);
  if (on) sleep.wake();
  // The program sets this before it registers the memory with a network card, which waits for
  // no stream.
  return on && holds(Rule::memory_of_network_cards_is_quiet)
             ? PeerProcesses(*core).quiet(block.base).code()
             : CUDA_SUCCESS;
}

// A registration outlives the flag, so it counts until the context ends.
CUresult ctx_set_flags(Real<unsigned> real, NullStream, unsigned flags) {
  const CUresult result = real(flags);
  CUcontext context = nullptr;
  if (Allocator* const core = process::core();
      result == CUDA_SUCCESS && core != nullptr && (flags & kContextSyncMemops) != 0 &&
      core->driver().ctx_get_current(&context) == CUDA_SUCCESS)
    let_cards_reach(*core, context);
  return result;
}

CUresult primary_set_flags(Real<CUdevice, unsigned> real,
                           NullStream,
                           CUdevice device,
                           unsigned flags) {
  const CUresult result = real(device, flags);
  if (Allocator* const core = process::core();
      result == CUDA_SUCCESS && core != nullptr && (flags & kContextSyncMemops) != 0)
    let_cards_reach(*core, primary_context(*core, device));
  return result;
}

}  // namespace custash::handlers
