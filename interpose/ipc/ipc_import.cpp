// SPDX-License-Identifier: MIT
// The importer's side: all memory opened here, in one table. Its lock is never held across a
// driver call or a conversation. An entry on its way is marked, and other threads that want it
// wait.
#include "interpose/ipc/ipc_map.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <list>
#include <vector>

namespace custash::ipc {
namespace {

enum class Now { Opening, Open, Closing };

struct Import {
  Handle handle = {};
  CUcontext context = nullptr;
  Mapping mapping;
  std::uint64_t buffer_id = 0;
  unsigned times = 0;
  Now now = Now::Opening;
};

struct Table {
  RankedMutex mutex{HookRank::ImportTable};
  std::condition_variable changed;
  std::list<Import> imports GUARDED_BY(mutex);  // few; an entry stays where it is
  std::vector<std::weak_ptr<Peer>> peers GUARDED_BY(mutex);
};

// Replaced by a new one in a forked child; never destroyed.
// Order: released after it is made. A thread that has the address of an entry has its count.
constinit std::atomic<Table*> current_table{nullptr};
constinit std::atomic<unsigned> count{0};  // of entries: most programs have none

// Separate from the core's ids, which count up from another number.
constinit std::atomic<std::uint64_t> next_buffer_id{3ULL << 48U};

Table& table() {
  Table* found = current_table.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto* const made = new Table;
  if (current_table.compare_exchange_strong(found, made)) return *made;
  delete made;
  return *found;
}

std::shared_ptr<Peer> peer_of(Table& t, const service::Identity& who) {
  const RankedLock lock(t.mutex);
  std::erase_if(t.peers, [](const auto& each) { return each.expired(); });
  for (const auto& each : t.peers) {
    if (auto peer = each.lock(); peer != nullptr && peer->who() == who) return peer;
  }
  auto made = std::make_shared<Peer>(who);
  t.peers.push_back(made);
  return made;
}

template <typename Wanted>
std::list<Import>::iterator find_in(Table& t, Wanted wanted) REQUIRES(t.mutex) {
  return std::find_if(t.imports.begin(), t.imports.end(), wanted);
}

// The last use is over; the entry is Closing.
CUresult finish(Allocator& core, Table& t, std::list<Import>::iterator entry) {
  const CUresult result = unmap(core, entry->handle, entry->context, entry->mapping);
  const RankedLock lock(t.mutex);
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {  // nothing has been done
    entry->now = Now::Open;
  } else {
    t.imports.erase(entry);
    count.fetch_sub(1);
  }
  t.changed.notify_all();
  return result;
}

}  // namespace

bool is_ours(const CUipcMemHandle& handle) {
  return std::memcmp(&handle, kMagic.data(), kMagic.size()) == 0;
}

CUresult open(Allocator& core, const CUipcMemHandle& raw, unsigned flags, CUdeviceptr* out) {
  Handle handle;
  std::memcpy(&handle, &raw, sizeof handle);
  CUcontext context = nullptr;
  if (const Status got = core.driver().ctx_get_current(&context); !got.ok()) return got.code();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.zero != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (handle.exporter() == service::identity()) return CUDA_ERROR_INVALID_CONTEXT;
  Table& t = table();
  RankedLock lock(t.mutex);
  const auto same = [&](const Import& each) {
    return each.context == context && std::memcmp(&each.handle, &handle, sizeof handle) == 0;
  };
  auto entry = find_in(t, same);
  while (entry != t.imports.end() && entry->now != Now::Open) {
    t.mutex.wait(t.changed);
    entry = find_in(t, same);
  }
  if (entry != t.imports.end()) {
    ++entry->times;
    *out = entry->mapping.block;
    return CUDA_SUCCESS;
  }
  entry = t.imports.insert(t.imports.end(), {.handle = handle, .context = context});
  count.fetch_add(1);
  lock.unlock();
  Mapping mapping;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;  // stays where the host has none
  try {
    result = map(core, handle, flags, peer_of(t, handle.exporter()), &mapping);
  } catch (...) {
  }
  lock.lock();
  t.changed.notify_all();
  if (result != CUDA_SUCCESS) {
    t.imports.erase(entry);
    count.fetch_sub(1);
    return result;
  }
  entry->mapping = mapping;
  entry->buffer_id = next_buffer_id.fetch_add(1);
  entry->times = 1;
  entry->now = Now::Open;
  *out = mapping.block;
  return result;
}

bool close(Allocator& core, CUdeviceptr address, CUresult* result) {
  if (count.load() == 0) return false;
  Table& t = table();
  RankedLock lock(t.mutex);
  const auto entry = find_in(t, [&](const Import& each) {
    return each.now == Now::Open && each.mapping.block == address;
  });
  if (entry == t.imports.end()) return false;
  *result = CUDA_SUCCESS;
  if (entry->times > 1) {
    --entry->times;
    return true;
  }
  entry->now = Now::Closing;
  lock.unlock();
  *result = finish(core, t, entry);
  return true;
}

bool find(Address address, BlockInfo* info) {
  if (count.load(std::memory_order_relaxed) == 0) return false;
  Table& t = table();
  const RankedLock lock(t.mutex);
  const auto entry = find_in(t, [&](const Import& each) {
    return each.now == Now::Open && address >= each.mapping.block &&
           address - each.mapping.block < each.mapping.requested;
  });
  if (entry == t.imports.end()) return false;
  const Mapping& mapping = entry->mapping;
  if (info != nullptr)
    *info = {
        mapping.block, mapping.requested, mapping.requested, entry->context, entry->buffer_id};
  return true;
}

void context_ends(Allocator& core, CUcontext context) {
  if (count.load() == 0) return;
  Table& t = table();
  for (;;) {
    RankedLock lock(t.mutex);
    const auto entry = find_in(t, [&](const Import& each) {
      return each.now == Now::Open && each.context == context;
    });
    if (entry == t.imports.end()) return;
    entry->now = Now::Closing;
    lock.unlock();
    if (finish(core, t, entry) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return;
  }
}

void after_fork_in_child() noexcept {
  current_table.store(nullptr);
  count.store(0);
}

}  // namespace custash::ipc
