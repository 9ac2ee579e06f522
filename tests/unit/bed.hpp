// SPDX-License-Identifier: MIT
// Bed: an Allocator over the simulated driver, used as the hooks of interpose/ use it. Every
// driver entry checks that the calling thread holds no lock of ours.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/graph_memory.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/submission.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sim.hpp"
#include "tests/unit/sim/calls.hpp"

#include <array>
#include <span>
#include <thread>
#include <vector>

namespace custash {

inline int entries_with_lock_held = 0;

// Current now.
inline CUcontext make_context(CUdevice device = 0) {
  auto* create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(
      sim::resolve("cuCtxCreate_v2"));
  CUcontext context = nullptr;
  REQUIRE(create(&context, 0, device) == CUDA_SUCCESS);
  return context;
}

inline CUcontext primary_context(CUdevice device) {
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  return context;
}

inline void use(CUcontext context) {
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

struct Bed {
  static Config vmm() { return {.backing = Backing::Vmm}; }

  static Config without_run_ahead() {
    return {.backing = Backing::Vmm, .run_ahead_percent = 0};
  }

  explicit Bed(const sim::Options& options = {}, const Config& config = vmm()) : sim(options) {
    entries_with_lock_held = 0;
    sim::set_entry_check([] { entries_with_lock_held += held_locks(); });
    // Never destroyed, as in the product; kept where a leak checker sees it.
    static auto& all = *new std::vector<Allocator*>;
    allocator = all.emplace_back(new Allocator(sim.driver(), config));
  }

  ~Bed() {
    sim::set_entry_check(nullptr);
    CHECK(entries_with_lock_held == 0);
    CHECK(allocator->validate());
  }

  Address malloc(Bytes bytes) { return malloc_in(sim.context(), bytes); }

  Address malloc_in(CUcontext context, Bytes bytes) {
    Address out = 0;
    REQUIRE(allocator->allocate(context, bytes, &out).ok());
    return out;
  }

  // Where the program's own context may find no room.
  Status try_malloc(Bytes bytes, Address* out) const {
    return allocator->allocate(sim.context(), bytes, out);
  }

  Address malloc_on(CUstream stream, Bytes bytes) {
    Address out = 0;
    REQUIRE(
        allocator->allocate_on(sim.context(), stream, NullStream::Legacy, bytes, &out).ok());
    return out;
  }

  void free(Address address) {
    const auto status = allocator->free(address);
    REQUIRE(status.has_value());
    REQUIRE(status->ok());
  }

  void free_on(CUstream stream, Address address) {
    REQUIRE(allocator->free_on(address, stream, NullStream::Legacy)->ok());
  }

  // Freed under a kernel on that stream, which is held from now on; and had again.
  Address owed_block(CUstream held, Bytes bytes, CUcontext of = nullptr) {
    const CUcontext context = of == nullptr ? sim.context() : of;
    const Address p = malloc_in(context, bytes);
    launch(held, {.accesses = {{p, bytes, true}}});
    sim::hold(held);
    free(p);
    REQUIRE(malloc_in(context, bytes) == p);
    return p;
  }

  std::vector<Address> blocks(std::size_t count, Bytes bytes) {
    std::vector<Address> all(count);
    for (Address& each : all)
      each = malloc(bytes);
    return all;
  }

  void free_all(std::span<const Address> all) {
    for (const Address each : all)
      free(each);
  }

  // And leaves the result as it was.
  bool fails_for_memory(Bytes bytes) const {
    constexpr Address kBefore = 77;
    Address out = kBefore;
    return try_malloc(bytes, &out).code() == CUDA_ERROR_OUT_OF_MEMORY && out == kBefore;
  }

  // Of a live block.
  BlockInfo info(Address address) {
    BlockInfo out;
    REQUIRE(allocator->find(address, &out) == Ownership::Live);
    return out;
  }

  template <typename Call>
  void submit(CUstream stream,
              SubmissionKind kind,
              Call call,
              NullStream null_stream = NullStream::Legacy) {
    Submission submission(*allocator, stream, null_stream, kind);
    const CUresult result = call();
    submission.done(result);
    REQUIRE(result == CUDA_SUCCESS);
  }

  // As the hook of cuLaunchKernel does it; the operation.
  sim::OpId launch(CUstream stream,
                   sim::Kernel kernel = {},
                   SubmissionKind kind = SubmissionKind::Hidden) {
    submit(stream, kind, [&] { return sim::launch(stream, std::move(kernel)); });
    return sim::last_op(stream);
  }

  // On the calling thread's own stream.
  void launch_per_thread(const sim::Kernel& kernel = {}) {
    const auto call = [&] { return sim::launch_ptsz(nullptr, kernel); };
    submit(nullptr, SubmissionKind::Hidden, call, NullStream::PerThread);
  }

  void launch_graph(CUstream stream, CUgraphExec graph) {
    submit(stream, SubmissionKind::Graph, [&] { return cuGraphLaunch(graph, stream); });
  }

  // As the hook of cuStreamWaitEvent does it.
  void wait(CUstream stream, CUevent event) {
    submit(stream, SubmissionKind::Wait, [&] { return cuStreamWaitEvent(stream, event, 0); });
  }

  // As the hook of cuStreamDestroy does it.
  void end_stream(CUstream stream) {
    allocator->stream_destroyed(stream);
    REQUIRE(cuStreamDestroy(stream) == CUDA_SUCCESS);
  }

  // As the hooks do it at the end of a context.
  void end_context(CUcontext context) {
    allocator->context_destroyed(context);
    REQUIRE(cuCtxDestroy(context) == CUDA_SUCCESS);
    allocator->context_gone(context);
  }

  // The kernels of `from`, which is current, reach the memory of `to`.
  void enable_peer(CUcontext from, CUcontext to) {
    REQUIRE(cuCtxEnablePeerAccess(to, 0) == CUDA_SUCCESS);
    allocator->peer_access_enabled(to, from);
  }

  // An asynchronous copy to the host, as the hook of cuMemcpyDtoHAsync does it.
  void copy_to_host(CUstream stream, void* to, Address from, Bytes bytes) {
    auto* copy = reinterpret_cast<CUresult (*)(void*, CUdeviceptr, std::size_t, CUstream)>(
        sim::resolve("cuMemcpyDtoHAsync_v2"));
    submit(stream, SubmissionKind::Visible, [&] { return copy(to, from, bytes, stream); });
  }

  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    auto* create =
        reinterpret_cast<CUresult (*)(CUstream*, unsigned)>(sim::resolve("cuStreamCreate"));
    CUstream out = nullptr;
    REQUIRE(create(&out, flags) == CUDA_SUCCESS);
    return out;
  }

  template <std::size_t kCount>
  std::array<CUstream, kCount> streams(unsigned flags = CU_STREAM_NON_BLOCKING) {
    std::array<CUstream, kCount> all{};
    for (CUstream& each : all)
      each = stream(flags);
    return all;
  }

  DeviceStats stats() { return allocator->stats(0); }

  Bytes reserved() { return static_cast<Bytes>(stats().reserved_bytes[0].current); }

  sim::Sim sim;
  Allocator* allocator = nullptr;
};

// Events that were recorded, and streams that were made to wait for one.
inline std::uint64_t records() {
  return sim::count("cuCtxRecordEvent") + sim::count("cuEventRecord");
}

inline std::uint64_t waits() {
  return sim::count("cuCtxWaitEvent") + sim::count("cuStreamWaitEvent");
}

// What is submitted and not held runs now.
inline bool runs_without_faults() {
  sim::run_all();
  return sim::faults().empty();
}

// On a thread of its own, which has the bed's context.
template <typename Work>
void on_other_thread(Bed& bed, const Work& work) {
  std::thread([&] {
    use(bed.sim.context());
    work();
  }).join();
}

inline void let_go(CUstream held) {
  sim::release(held);
  sim::run_all();
}

// The stream is held: `op` runs once it is released, and not before.
inline void check_runs_behind(CUstream held, sim::OpId op) {
  sim::run_all();
  CHECK_FALSE(sim::complete(op));
  let_go(held);
  CHECK(sim::complete(op));
}

// As another process opens the block.
inline ExportedBlock pin(Bed& bed, Address base) {
  ExportedBlock block;
  REQUIRE(PeerProcesses(*bed.allocator).pin(base, bed.info(base).buffer_id, &block));
  return block;
}

// A block that a running kernel of stream `a` has written, and that is free.
struct Owed {
  explicit Owed(Bed& bed, Bytes bytes) : bed(bed), bytes(bytes), p(bed.malloc(bytes)) {
    bed.launch(a, {.accesses = {{p, bytes, true}}});
    last = sim::last_op(a);
    bed.free(p);
    REQUIRE_FALSE(sim::complete(last));
  }

  // Whoever uses the block now meets nobody.
  [[nodiscard]] bool quiet(Address q) const {
    return q + bytes <= p || p + bytes <= q || sim::complete(last);
  }

  Bed& bed;
  Bytes bytes;
  CUstream a = bed.stream();
  Address p;
  sim::OpId last = 0;
};

template <typename Fn>
Fn entry(const char* symbol) {
  return reinterpret_cast<Fn>(sim::resolve(symbol));
}

// As the hooks do it.
inline void begin_capture(Bed& bed, CUstream stream, CUstreamCaptureMode mode) {
  GraphMemory(*bed.allocator).capture_begins(stream, NullStream::Legacy);
  const CUresult began = entry<CUresult (*)(CUstream, CUstreamCaptureMode)>(
      "cuStreamBeginCapture_v2")(stream, mode);
  GraphMemory(*bed.allocator)
      .capture_begin_done(stream, NullStream::Legacy, began == CUDA_SUCCESS);
  REQUIRE(began == CUDA_SUCCESS);
}

inline CUgraph end_capture(Bed& bed, CUstream stream) {
  CUgraph graph = nullptr;
  REQUIRE(entry<CUresult (*)(CUstream, CUgraph*)>("cuStreamEndCapture")(stream, &graph) ==
          CUDA_SUCCESS);
  GraphMemory(*bed.allocator).capture_ended(stream, NullStream::Legacy, graph);
  return graph;
}

inline CUgraphExec instantiate(Bed& bed, CUgraph graph) {
  CUgraphExec exec = nullptr;
  REQUIRE(entry<CUresult (*)(CUgraphExec*, CUgraph, unsigned long long)>(
              "cuGraphInstantiateWithFlags")(&exec, graph, 0) == CUDA_SUCCESS);
  GraphMemory(*bed.allocator).made(exec, graph);
  return exec;
}

// `call`: cuGraphDestroy or cuGraphExecDestroy.
template <typename Handle>
void destroy(Bed& bed, CUresult (*call)(Handle), Handle handle) {
  GraphMemory memory(*bed.allocator);
  const GraphMemory::Leaving leaving = memory.leaves(handle);
  REQUIRE(call(handle) == CUDA_SUCCESS);
  memory.destroyed(leaving);
}

}  // namespace custash
