// SPDX-License-Identifier: MIT
// How much a pool reports to hold. The driver does not know our blocks. own_pools.hpp counts
// program-created pools, and those of default pools from the first question on. Ones
// that are older are added up at each question. Trimming a default pool trims our cache.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/async_memory.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/own_pools.hpp"

namespace custash {
namespace async_memory {

// Blocks of calls that name a stream and no pool, from before anyone counted.
Bytes held_for_streams(Allocator& core, CUdevice device) {
  Bytes sum = 0;
  for (const HeldSegment& segment : core.inventory(device)) {
    if (segment.stream == nullptr) continue;
    for (const Piece& piece : segment.pieces) {
      if (piece.state == PieceState::Used && !piece.charged) sum += piece.size;
    }
  }
  return sum;
}

Bytes counted(Allocator& core, CUmemoryPool pool) {
  CUdevice device = 0;
  if (!is_default_pool(core, pool, &device)) return 0;
  count_default_pools(core);
  return held_for_streams(core, device);
}

}  // namespace async_memory

namespace handlers {

CUresult pool_get_attribute(Real<CUmemoryPool, CUmemPool_attribute, void*> real,
                            NullStream,
                            CUmemoryPool pool,
                            CUmemPool_attribute attribute,
                            void* value) {
  const CUresult result = real(pool, attribute, value);
  const bool of_use = attribute >= CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT &&
                      attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  Allocator* const core = result == CUDA_SUCCESS && of_use ? process::core() : nullptr;
  if (core == nullptr) return result;
  *static_cast<cuuint64_t*>(value) +=
      own_pools::use(*core, pool, attribute, async_memory::counted(*core, pool));
  return result;
}

// The program wants the pool to keep at most `keep` bytes. That also holds for memory that
// custash caches in the pool's place.
CUresult pool_trim(Real<CUmemoryPool, Count> real, NullStream, CUmemoryPool pool, Count keep) {
  const CUresult result = real(pool, keep);
  Allocator* const core = result == CUDA_SUCCESS ? process::core() : nullptr;
  CUdevice device = 0;
  if (core == nullptr) return result;
  if (own_pools::is_own(pool)) {
    own_pools::trimmed(*core, pool, keep, async_memory::counted(*core, pool));
    return result;
  }
  if (!async_memory::is_default_pool(*core, pool, &device)) return result;
  const Bytes held = static_cast<Bytes>(
      core->stats(device).reserved_bytes[static_cast<std::size_t>(StatPool::All)].current);
  if (held > keep) core->trim(device, held - keep).ignore();  // what is in use stays
  return result;
}

CUresult pool_destroy(Real<CUmemoryPool> real, NullStream, CUmemoryPool pool) {
  Allocator* const core = process::core();
  // Before the call: afterwards another pool may get the handle.
  const Accounts::Number account = core == nullptr ? 0 : own_pools::destroying(pool);
  const CUresult result = charges::destroy_pool(pool, real);
  if (core != nullptr) own_pools::destroyed(*core, account, pool, result == CUDA_SUCCESS);
  return result;
}

}  // namespace handlers
}  // namespace custash
