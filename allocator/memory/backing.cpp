// SPDX-License-Identifier: MIT
#include "allocator/memory/backing.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {
namespace {

// Addresses of which the upper half is no usual number. The driver's own choice begins at
// 0x302000000, and two small numbers in a kernel's parameters look like addresses there.
constexpr Address kHint = 0x3a5b'4000'0000;

bool has(const Driver& driver, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  return driver.device_get_attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

// Copies between devices reach pages by let_copies_reach(), which needs that call.
bool all_reach(const Driver& driver, CUdevice device) {
  int devices = 0;
  if (driver.device_get_count(&devices) != CUDA_SUCCESS) return false;
  for (CUdevice other = 0; other < devices; ++other) {
    int can = 0;
    if (other != device &&
        (driver.device_can_access_peer(&can, other, device) != CUDA_SUCCESS || can == 0))
      return false;
  }
  return true;
}

}  // namespace

DriverMemory::DriverMemory(const Driver& driver,
                           DeferredUnmaps& deferred_unmaps,
                           Backing wanted,
                           CUcontext context,
                           CUdevice device)
    : driver_(driver), deferred_unmaps_(deferred_unmaps), context_(context), device_(device) {
  const RelaxedCapture relaxed(driver_);
  std::size_t total = 0;
  if (driver_.device_total_mem(&total, device) == CUDA_SUCCESS) device_bytes_ = total;
  if (wanted == Backing::Driver || !driver_.has_vmm()) return;
  if (!has(driver_, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)) return;
  if (wanted != Backing::Vmm && !all_reach(driver_, device)) return;
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  // Plain memory can always be exported, and be reached by a network card.
  if (has(driver_, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device)) {
    properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  if (has(driver_, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device)) {
    properties_.allocFlags.gpuDirectRDMACapable = 1;
  }
  std::size_t granularity = 0;
  const bool known =
      driver_.mem_get_allocation_granularity(
          &granularity, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS;
  vmm_.store(known && granularity != 0 && kPageBytes % granularity == 0);
}

Status DriverMemory::reserve(Bytes bytes, Address* base, Bytes* size) const {
  // Twice the device: fragments can never force a second range on a sane program. Halved where
  // addresses are short (ulimit -v, other reservations).
  const RelaxedCapture relaxed(driver_);
  const Bytes least = align_up(bytes, kPageBytes);
  Status status = CUDA_ERROR_OUT_OF_MEMORY;
  const auto reserved = [&](CUdeviceptr* at, Bytes wanted, Address hint) {
    status = driver_.mem_address_reserve(at, wanted, kPageBytes, hint, 0);
    return status.ok();
  };
  for (Bytes wanted = std::max(least, align_up(2 * device_bytes_, kPageBytes));; wanted /= 2) {
    wanted = std::max(least, align_up(wanted, kPageBytes));
    CUdeviceptr at = 0;
    if (reserved(&at, wanted, kHint) || reserved(&at, wanted, 0)) {
      CUSTASH_ASSERT(at % kPageBytes == 0 && wanted % kPageBytes == 0);
      *base = at;
      *size = wanted;
      return status;
    }
    if (wanted == least) return status;
  }
}

Status DriverMemory::reserve_exactly(Bytes bytes, Address* base) const {
  const RelaxedCapture relaxed(driver_);
  CUdeviceptr at = 0;
  const Status status = driver_.mem_address_reserve(&at, bytes, kPageBytes, 0, 0);
  if (status.ok()) *base = at;
  return status;
}

void DriverMemory::unreserve(Address base, Bytes size) const {
  Status(driver_.mem_address_free(base, size)).ignore();  // addresses only, and unused
}

Bytes DriverMemory::free_bytes() const {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  const std::optional<Bytes> free =
      current.status().ok() ? driver_.free_bytes() : std::optional<Bytes>();
  return free ? *free : device_bytes();
}

Status DriverMemory::map(Address begin,
                         Address end,
                         Bytes handle,
                         const std::vector<Page>& moved,
                         const std::vector<CUdevice>& accessors,
                         std::vector<Page>* out) const {
  CUSTASH_ASSERT(begin % kPageBytes == 0 && end % kPageBytes == 0 && begin < end);
  CUSTASH_ASSERT(handle % kPageBytes == 0 && out->empty());
  const RelaxedCapture relaxed(driver_);
  deferred_unmaps_.retry();  // a page that could not be unmapped may be in this range
  Status status;
  Address at = begin;
  const auto add = [&](const Page& page) {
    CUSTASH_ASSERT(page.address == at && at + page.size <= end);
    out->push_back(page);
    at += page.size;
  };
  for (auto page = moved.begin(); status.ok() && page != moved.end(); ++page) {
    status = driver_.mem_map(at, page->size, 0, page->handle, 0);
    if (status.ok()) add({at, page->size, page->handle});
  }
  while (status.ok() && at < end) {
    Page page;
    status = make_page(at, std::min<Bytes>(handle, end - at), &page);
    if (status.ok()) add(page);
  }
  CUSTASH_ASSERT(!status.ok() || at == end);
  if (status.ok())
    status = give_access(begin, end - begin, device_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (const CUdevice peer : accessors) {
    if (status.ok())
      status = give_access(begin, end - begin, peer, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  if (status.ok()) return status;
  for (std::size_t i = 0; i < out->size(); ++i) {
    Page page = (*out)[i];
    if (i < moved.size()) page.handle = 0;  // still mapped at its old address
    deferred_unmaps_.abandon(page);         // the first error is the one to return
  }
  out->clear();
  return status;
}

Status DriverMemory::unmap(Address begin, Bytes bytes) const {
  const RelaxedCapture relaxed(driver_);
  return driver_.mem_unmap(begin, bytes);
}

Status DriverMemory::make_page(Address at, Bytes bytes, Page* out) const {
  return make_page(at, bytes, properties_, 0, out);
}

Status DriverMemory::make_page(Address at,
                               Bytes bytes,
                               const CUmemAllocationProp& properties,
                               unsigned long long flags,
                               Page* out) const {
  CUmemGenericAllocationHandle handle = 0;
  Status status = driver_.mem_create(&handle, bytes, &properties, flags);
  if (!status.ok()) return status;
  status = driver_.mem_map(at, bytes, 0, handle, 0);
  if (!status.ok()) {
    deferred_unmaps_.release(handle);
    return status;
  }
  *out = {at, bytes, handle};
  return status;
}

Status DriverMemory::place(const Page& page) const {
  const RelaxedCapture relaxed(driver_);
  return driver_.mem_map(page.address, page.size, 0, page.handle, 0);
}

Status DriverMemory::give_access(Address begin,
                                 Bytes bytes,
                                 CUdevice device,
                                 CUmemAccess_flags flags) const {
  const RelaxedCapture relaxed(driver_);
  const CUmemAccessDesc access{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                               .flags = flags};
  return driver_.mem_set_access(begin, bytes, &access, 1);
}

Status DriverMemory::alloc(Bytes bytes, Address* out) const {
  const CurrentContext current(driver_, context_);
  if (!current.status().ok()) return current.status();
  const RelaxedCapture relaxed(driver_);
  CUdeviceptr at = 0;
  const Status status = driver_.mem_alloc(&at, bytes);
  if (status.ok()) *out = at;
  return status;
}

Status DriverMemory::free(Address address) const {
  const CurrentContext current(driver_, context_);
  if (!current.status().ok()) return current.status();
  const RelaxedCapture relaxed(driver_);
  return driver_.mem_free(address);
}

}  // namespace custash
