// SPDX-License-Identifier: MIT
// Queries about memory, answered for blocks in place of segments. A block must look as if the
// driver had allocated it alone, and cached memory as if it did not exist.
#include "allocator/submission.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/own_pools.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/real/real_driver.hpp"

namespace custash::handlers {
namespace {

// Also finds memory opened from another process, and pinned memory. A pinned buffer has no
// context here.
Ownership find_any(CUdeviceptr address, BlockInfo* info) {
  const Ownership device = find_block(address, info);
  if (device != Ownership::Foreign || address == 0 || process::core() == nullptr) return device;
  if (ipc::find(address, info)) return Ownership::Live;
  HostBlockInfo host;
  const Ownership owner = process::pinned().find(address, &host);
  if (owner == Ownership::Live)
    *info = {.base = host.base, .requested = host.requested, .buffer_id = host.buffer_id};
  return owner;
}

// The default pool of the block's device, from which the driver would have taken such memory.
CUmemoryPool default_pool(CUdeviceptr address) {
  auto* const ask = real::function<CUresult(void*, CUpointer_attribute, CUdeviceptr)>(
      Entry::hook_cuPointerGetAttribute);
  CUdevice device = 0;
  CUmemoryPool pool = nullptr;
  const bool told =
      ask != nullptr &&
      ask(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS &&
      real::default_pool(device, &pool) == CUDA_SUCCESS;
  return told ? pool : nullptr;
}

// A device pointer to host memory: the program's kernels may write there. (A block of ours
// never is.)
void note_device_pointer(CUdeviceptr address, CUdeviceptr told) {
  Allocator* const core = told == 0 ? nullptr : process::core();
  if (core != nullptr && !Submission::kernels_host_visible(*core) && !core->owns(address) &&
      views::is_shared_with_host(address))
    views::note_host_pointer(
        "cuPointerGetAttribute",
        CUDA_SUCCESS,
        told == address ? Submission::Reach::Addressed : Submission::Reach::Unnamed);
}

// The driver's answer about a block of ours, or about memory that the program mapped, needs
// that memory.
template <typename Ask>
CUresult ask_driver(Ownership owner, CUdeviceptr address, Ask ask) {
  const bool sleeps = owner == Ownership::Live ||
                      (owner == Ownership::Foreign && handle_table().is_mapped(address));
  Allocator* const core = sleeps ? process::core() : nullptr;
  return core == nullptr ? ask() : core->sleep_gate().while_awake(ask);
}

// Writes what differs for a block, over the driver's own answer where that succeeded.
bool answer_for_block(const BlockInfo& block,
                      CUpointer_attribute attribute,
                      CUresult driver,
                      void* data) {
  const bool answered = driver == CUDA_SUCCESS;
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:  // mapped memory belongs to no context
      if (block.context != nullptr) *static_cast<CUcontext*>(data) = block.context;
      return block.context != nullptr;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = block.buffer_id;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = block.base;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = block.requested;
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:  // memory of cuMemAlloc has none
      if (answered && block.context != nullptr) *static_cast<unsigned char*>(data) = 0;
      return answered;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:  // whichever width the driver wrote
      if (answered && block.context != nullptr)
        *static_cast<unsigned char*>(data) = sync_memops::is_set(block.buffer_id) ? 1 : 0;
      return answered;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      // In the width that the driver wrote. Memory opened from another process does not have
      // it.
      if (answered && block.context != nullptr)
        *static_cast<unsigned char*>(data) =
            block.stream_ordered() || ipc::find(block.base, nullptr) ? 0 : 1;
      return answered;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      if (answered && block.stream_ordered())
        *static_cast<CUmemoryPool*>(data) =
            block.account != 0 ? own_pools::pool_of(block.account) : default_pool(block.base);
      return answered;
    default:
      return false;
  }
}

}  // namespace

CUresult mem_get_info(Real<Count*, Count*> real, NullStream, Count* free_bytes, Count* total) {
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  if (core == nullptr || core->driver().ctx_get_current(&context) != CUDA_SUCCESS ||
      context == nullptr) {
    return real(free_bytes, total);
  }
  Count real_free = 0;
  Count real_total = 0;
  const CUresult result = real(&real_free, &real_total);
  if (result != CUDA_SUCCESS) return result;
  CUdevice device = 0;
  if (core->driver().ctx_get_device(&device) != CUDA_SUCCESS) return real(free_bytes, total);
  const charges::FreeMemory now = charges::free_memory(*core, device, {real_free, real_total});
  if (free_bytes != nullptr) *free_bytes = now.free;
  if (total != nullptr) *total = now.total;
  return result;
}

CUresult mem_get_address_range(Real<CUdeviceptr*, Count*, CUdeviceptr> real,
                               NullStream,
                               CUdeviceptr* base,
                               Count* size,
                               CUdeviceptr address) {
  BlockInfo block;
  switch (find_any(address, &block)) {
    case Ownership::Foreign:
      return ask_driver(Ownership::Foreign, address, [&] { return real(base, size, address); });
    case Ownership::Cached:
      return real(base, size, kNowhere);
    case Ownership::Live:
      break;
  }
  if (base != nullptr) *base = block.base;
  if (size != nullptr) *size = block.requested;
  return CUDA_SUCCESS;
}

CUresult pointer_get_attribute(Real<void*, CUpointer_attribute, CUdeviceptr> real,
                               NullStream,
                               void* data,
                               CUpointer_attribute attribute,
                               CUdeviceptr address) {
  BlockInfo block;
  const Ownership owner = find_any(address, &block);
  const CUresult result = ask_driver(owner, address, [&] {
    return real(data, attribute, owner == Ownership::Cached ? kNowhere : address);
  });
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && result == CUDA_SUCCESS &&
      data != nullptr)
    note_device_pointer(address, *static_cast<CUdeviceptr*>(data));
  if (owner != Ownership::Live || data == nullptr) return result;
  const bool ours = answer_for_block(block, attribute, result, data);
  return ours ? CUDA_SUCCESS : result;
}

CUresult pointer_get_attributes(Real<unsigned, CUpointer_attribute*, void**, CUdeviceptr> real,
                                NullStream,
                                unsigned count,
                                CUpointer_attribute* attributes,
                                void** data,
                                CUdeviceptr address) {
  BlockInfo block;
  const Ownership owner = find_any(address, &block);
  const CUresult result = ask_driver(owner, address, [&] {
    return real(count, attributes, data, owner == Ownership::Cached ? kNowhere : address);
  });
  // The driver returns an address that it does not know as a host pointer, so the program must
  // get back the address that it asked about.
  for (unsigned i = 0; owner == Ownership::Cached && result == CUDA_SUCCESS && i < count; ++i) {
    auto* const told = static_cast<CUdeviceptr*>(data[i]);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && *told == kNowhere)
      *told = address;
  }
  for (unsigned i = 0;
       result == CUDA_SUCCESS && attributes != nullptr && data != nullptr && i < count;
       ++i) {
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && data[i] != nullptr)
      note_device_pointer(address, *static_cast<CUdeviceptr*>(data[i]));
  }
  if (owner != Ownership::Live || result != CUDA_SUCCESS || attributes == nullptr ||
      data == nullptr) {
    return result;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] != nullptr) answer_for_block(block, attributes[i], CUDA_SUCCESS, data[i]);
  }
  return result;
}

// Memory of cuMemAlloc has no such handle, so a block has none, whatever backs it.
CUresult retain_allocation_handle(Real<CUmemGenericAllocationHandle*, void*> real,
                                  NullStream,
                                  CUmemGenericAllocationHandle* out,
                                  void* address) {
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  if (find_block(at, nullptr) != Ownership::Foreign) return CUDA_ERROR_INVALID_VALUE;
  const KeepAwake awake(process::core());
  const CUresult result = real(out, address);
  if (result == CUDA_SUCCESS && out != nullptr && process::core() != nullptr) {
    *out = handle_table().of_program(*out);
    handle_table().retained(*out);
    handle_table().stays_at(at, 1);
  }
  return result;
}

}  // namespace custash::handlers
