// SPDX-License-Identifier: MIT
// Charges: memory that the driver serves counts towards limit_all. It is charged before the
// call, so that no thread and no other member of the group can have it meanwhile, and refunded
// after the call that ends it. What no call tells (contexts, code, local memory, memory of
// graphs) is measured by NVML's figure for this process and charged to later calls. No lock is
// held across a call.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/quota.hpp"
#include "interpose/counters/passed.hpp"

#include <cuda.h>

namespace custash::charges {

// Before the call. False: there is no room, also not without cached memory; a line in the log
// says who holds what. Pitched memory counts towards option limit, too. Nothing is charged for
// a negative device.
bool take(passed::Kind kind, CUdevice device, Bytes bytes, Quota::Call* call) noexcept;
// After the call that released the memory, or if there is none.
void give(passed::Kind kind, CUdevice device, Bytes bytes) noexcept;
// The call has made another size than was charged.
void correct(passed::Kind kind, CUdevice device, Bytes before, Bytes after) noexcept;

inline void give_all(const passed::Ended& ended) noexcept {
  for (const passed::EndedObject& each : ended)
    give(each.kind, each.what.device, each.what.bytes);
}

// Whether limit_all is on.
bool counts(const Allocator& core) noexcept;
// -1 without a context.
CUdevice current_device() noexcept;

// What the program hears of a device: cached memory counts as free, and a limit as the size of
// the device. `real`: as the driver or NVML says.
struct FreeMemory {
  Bytes free = 0;
  Bytes total = 0;
};

FreeMemory free_memory(Allocator& core, CUdevice device, const FreeMemory& real);

// The call changes what is only measured.
void changes_unseen() noexcept;
// Measures, unless that was a moment ago and is not wanted `again`. Without limit_all, nothing
// happens.
void refresh(int device, bool again) noexcept;
// Measures again, and returns whether there is more room now.
int measure_again(int device, std::size_t bytes, void* core);

// A call that makes `bytes`.
template <typename Call>
CUresult around(passed::Kind kind, CUdevice device, Bytes bytes, Call call) {
  Quota::Call charged{Quota::Call::Later{}};
  if (!take(kind, device, bytes, &charged)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) give(kind, device, bytes);
  return result;
}

// A call of the driver's that frees what lies at the address.
template <typename Call>
CUresult around_free(CUdeviceptr address, Call call) {
  const auto object = passed::table().ended_at(address);
  const Quota::Call charged;
  const CUresult result = call();
  if (!object) return result;
  if (result == CUDA_SUCCESS)
    give(object->kind, object->what.device, object->what.bytes);
  else
    passed::table().back(object->kind, address, object->what);
  return result;
}

// A call that takes memory of a pool of the driver's, which keeps what it has. `call` returns
// the driver's answer.
void pool_made(CUmemoryPool pool, CUdevice device) noexcept;
CUresult destroy_pool(CUmemoryPool pool, CUresult (*real)(CUmemoryPool));
bool take_from_pool(Allocator& core,
                    CUmemoryPool pool,
                    Bytes bytes,
                    Quota::Call* call) noexcept;
void taken_from_pool(Allocator& core, CUmemoryPool pool, Bytes bytes) noexcept;

template <typename Call>
CUresult around_pool(Allocator& core, CUmemoryPool pool, Bytes bytes, Call call) {
  Quota::Call charged{Quota::Call::Later{}};
  if (!take_from_pool(core, pool, bytes, &charged)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  taken_from_pool(core, pool, bytes);
  return result;
}

}  // namespace custash::charges
