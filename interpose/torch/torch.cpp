// SPDX-License-Identifier: MIT
// The hooks over Pools. An exception of custash_torch_malloc passes through, so no frame around
// that call has anything to destroy. State: the pools, and each thread's wish for an address.
#include "interpose/torch/torch.h"

#include "interpose/torch/pools.hpp"

#include <new>
#include <utility>

#include <cuda.h>
#include <dlfcn.h>

namespace {

using namespace custash::torch;

custash_torch_calls_t custash_calls{};
thread_local Address placed = 0;

Pools& pools() noexcept {
  // Never destroyed: PyTorch frees memory from static destructors.
  alignas(Pools) static std::byte place[sizeof(Pools)];
  static auto& made = *new (place) Pools;
  return made;
}

Key key_of(int device, custash_torch_pool_t pool) {
  return {device, {pool.first, pool.second}};
}

Address address_of(const void* ptr) {
  return reinterpret_cast<Address>(ptr);
}

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

template <typename Change>
void quietly(Change change) noexcept {
  try {
    change();
  } catch (...) {  // no host memory: the change is not made
  }
}

constexpr std::size_t round_up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

// As PyTorch divides its private pools.
std::size_t segment_for(std::size_t bytes) {
  constexpr std::size_t kMiB = 1 << 20;
  constexpr std::size_t kShared = 20 * kMiB;
  if (bytes <= kMiB) return 2 * kMiB;
  return bytes < kShared / 2 ? kShared : round_up(bytes, 2 * kMiB);
}

// What the driver's header renames is called by its name.
struct Driver {
  CUresult (*retain)(CUcontext*, CUdevice);
  CUresult (*release)(CUdevice);
  CUresult (*push)(CUcontext);
  CUresult (*pop)(CUcontext*);
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*);
  CUresult (*create)(CUevent*, unsigned);
  CUresult (*record)(CUevent, CUstream);
  CUresult (*wait)(CUstream, CUevent, unsigned);
  CUresult (*destroy)(CUevent);
};

const Driver* driver() {
  static const Driver found = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_LAZY);
    Driver out{};
    const auto find = [&](auto* function, const char* name) {
      *function = library == nullptr
                      ? nullptr
                      : reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
                            dlsym(library, name));
    };
    find(&out.retain, "cuDevicePrimaryCtxRetain");
    find(&out.release, "cuDevicePrimaryCtxRelease_v2");
    find(&out.push, "cuCtxPushCurrent_v2");
    find(&out.pop, "cuCtxPopCurrent_v2");
    find(&out.is_capturing, "cuStreamIsCapturing");
    find(&out.create, "cuEventCreate");
    find(&out.record, "cuEventRecord");
    find(&out.wait, "cuStreamWaitEvent");
    find(&out.destroy, "cuEventDestroy_v2");
    return out;
  }();
  return found.destroy == nullptr ? nullptr : &found;
}

// The block's stream waits for the others that use it. False: one of them is captured, or the
// driver refuses.
bool wait_for_others(const Driver& cu, const Block& block) {
  const auto is_free = [&](Stream each) {
    CUstreamCaptureStatus status{};
    return cu.is_capturing(static_cast<CUstream>(each), &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE;
  };
  CUevent event = nullptr;
  bool waits =
      is_free(block.stream) && cu.create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  for (Stream const other : block.others)
    waits = waits && is_free(other) &&
            cu.record(event, static_cast<CUstream>(other)) == CUDA_SUCCESS &&
            cu.wait(static_cast<CUstream>(block.stream), event, 0) == CUDA_SUCCESS;
  if (event != nullptr) (void)cu.destroy(event);
  return waits;
}

void end_rests(int device, const Pools::Blocks& resting) {
  const Driver* const cu = resting.empty() ? nullptr : driver();
  CUcontext context = nullptr;
  if (cu == nullptr || cu->retain(&context, device) != CUDA_SUCCESS) return;
  if (cu->push(context) == CUDA_SUCCESS) {
    for (const auto& [address, block] : resting)
      if (wait_for_others(*cu, block)) pools().rested(address);
    (void)cu->pop(&context);
  }
  (void)cu->release(device);
}

void free_all(const Pools::Segments& segments) {
  for (const Address each : segments)
    (void)custash_calls.free(pointer(each));
}

// False: the host has no memory for it.
template <typename Change>
[[gnu::noinline]] bool try_to(Change change) noexcept {
  bool done = false;
  quietly([&] {
    change();
    done = true;
  });
  return done;
}

}  // namespace

void custash_pools_start(const custash_torch_calls_t* calls) {
  custash_calls = *calls;
}

void* custash_pools_malloc(size_t size, int device, custash_stream_t stream) {
  Key key{};
  bool found = false;
  (void)try_to([&] {
    const auto pool = pools().find(size, device, stream);
    if (pool) key = *pool;
    found = pool.has_value();
  });
  if (!found) return custash_calls.torch_malloc(size, device, stream);
  constexpr std::size_t kGranule = 512;
  const std::size_t bytes = round_up(size, kGranule);
  const Address at = std::exchange(placed, 0);
  Address block = 0;
  if (!try_to([&] { block = pools().take(key, bytes, stream, at); }) || block != 0 || at != 0)
    return pointer(block);
  const std::size_t more = segment_for(bytes);
  void* const segment = custash_calls.torch_malloc(more, device, stream);
  // Without room in the table it is a block outside of the pool.
  (void)try_to([&] { pools().add(key, address_of(segment), more, stream, bytes); });
  return segment;
}

void custash_pools_free(void* ptr, size_t size, int device, custash_stream_t stream) {
  bool of_pool = false;
  quietly([&] {
    Pools::Segments empty;
    of_pool = pools().free(address_of(ptr), &empty);
    free_all(empty);
  });
  if (!of_pool) custash_calls.torch_free(ptr, size, device, stream);
}

void custash_pools_record_stream(void* ptr, custash_stream_t stream) {
  bool of_pool = false;
  quietly([&] { of_pool = pools().record(address_of(ptr), stream); });
  if (!of_pool) (void)custash_calls.record_stream(ptr, stream);
}

void custash_pools_begin(int device, custash_torch_pool_t pool, const void* filter) {
  quietly([&] { end_rests(device, pools().begin(key_of(device, pool), filter)); });
}

void custash_pools_end(int device, custash_torch_pool_t pool) {
  pools().end(key_of(device, pool));
}

void custash_pools_release(int device, custash_torch_pool_t pool) {
  quietly([&] { free_all(pools().release(key_of(device, pool))); });
}

int custash_pools_uses(int device, custash_torch_pool_t pool) {
  return pools().uses(key_of(device, pool));
}

void custash_pools_place(void* ptr) {
  placed = address_of(ptr);
}

size_t custash_pools_blocks(custash_torch_block_t* blocks, size_t room) {
  std::size_t count = 0;
  pools().each([&](const Key& key, Address address, const Block& block) {
    if (count++ >= room) return;
    *blocks++ = {{key.id[0], key.id[1]},
                 key.device,
                 static_cast<int>(block.state),
                 pointer(address),
                 pointer(block.segment),
                 block.bytes,
                 block.stream};
  });
  return count;
}
