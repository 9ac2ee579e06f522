// SPDX-License-Identifier: MIT
// The simulated CUDA driver: control functions for tests. One world in the process, behind one
// lock of its own; `reset` makes a fresh one. The driver entries themselves are the exported
// names of libcuda (entry_points.def); `resolve` gives their addresses. Knows nothing of the
// allocator. The same objects make libcuda.so.1, told by the variable CUSTASH_SIM (process.cpp)
// what to be.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/units.hpp"
#include "tests/sim/kernel_abi.h"
#include "tests/sim/observer.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <cuda.h>

namespace custash::sim {

// Told: work advances only by step/run and where a host call waits (then only what it needs).
// Seeded: also by chance at each driver call, in random order. Timed: as the modelled clock
// says.
enum class Advance { Told, Seeded, Timed };
// What addresses the driver gives for memory of a size that was freed: the last freed, or fresh
// ones.
enum class AddressReuse { Lifo, Never };

struct Options {
  int devices = 2;
  std::vector<int> visible_devices =
      {};  // what the machine calls each; empty: the same numbers
  Bytes device_memory = 8_GiB;
  Bytes context_memory = 0;  // what each context takes of its device for itself
  Bytes module_memory = 0;   // each module, until it is unloaded
  Bytes vmm_granularity = 2_MiB;
  std::string machine = {};    // a file: processes that name it share their devices
  bool context_events = true;  // cuCtxRecordEvent, cuCtxWaitEvent (drivers since 12.5)
  bool vmm = true;
  bool data =
      false;  // device memory is host memory at the same address, and work moves real bytes
  bool log = true;                    // keep the list of calls (the counts are always kept)
  bool initialised = true;            // false: calls answer 3 until cuInit
  bool peers = true;                  // devices can access each other
  bool portable_told = false;         // cuMemHostGetFlags tells small portable buffers as such
  bool registration = true;           // they say that host memory can be registered
  bool pageable = false;              // they say that kernels reach pageable memory
  bool hmm = false;                   // not through the host's page tables
  bool decompress = false;            // the devices have an engine that decompresses
  bool blocking_launches = false;     // CUDA_LAUNCH_BLOCKING=1
  bool host_function_thread = false;  // run host functions on a thread of the simulator's own
  std::uint64_t seed = 1;
  Advance advance = Advance::Told;
  AddressReuse reuse = AddressReuse::Lifo;
  Nanoseconds default_kernel = 5000;
  // A pitch is the next multiple of this (seen on an H200). Whether the last row of pitched
  // memory is a whole pitch is not known of any GPU: tests/conformance/pitched.cpp asks.
  Bytes pitch_unit = 512;
  bool whole_last_row = true;
  // What contexts, streams, code and graphs need to be free on device 0 to be made: the driver
  // takes memory for them.
  Bytes room_for_objects = 0;
  // How long (real time) the end of a context takes, other threads going on meanwhile.
  std::chrono::microseconds teardown{0};
  // How long (real time) a stuck wait hopes for another thread where one could help.
  std::chrono::milliseconds patience{10'000};
};

void reset(const Options& options = {});
const Options& options();

// Address of a driver entry by its exported name ("cuMemAlloc_v2", "cuMemcpyAsync_ptsz"); null
// for unknown names and for those that the options switch off.
void* resolve(const char* symbol);

// --- work
// -------------------------------------------------------------------------------------
struct Access {
  Address address = 0;
  Bytes bytes = 0;
  bool write = false;
};

struct Kernel {
  std::vector<Access> accesses = {};
  Nanoseconds duration = 0;  // 0: Options::default_kernel
  std::string name = "kernel";
  int needs_flag = 0;  // spins until that flag is set; 0: none
  int sets_flag = 0;   // set when it starts to run
  bool early = false;  // a programmatic dependent launch: it may run beside the one before it
  std::function<void()> body =
      {};  // runs when the kernel ends; may read the world, not call CUDA
};

// Goes through the same prologue as cuLaunchKernel and counts as that symbol.
CUresult launch(CUstream stream, Kernel kernel);
CUresult launch_ptsz(CUstream stream, Kernel kernel);  // handle null: the per-thread stream
// Nodes that run such kernels, in the current context; the calls count as
// cuGraphAddKernelNode_v2, cuGraphKernelNodeSetParams_v2 and cuGraphExecKernelNodeSetParams_v2.
CUresult add_kernel_node(CUgraphNode* out,
                         CUgraph graph,
                         std::span<const CUgraphNode> after,
                         Kernel kernel);
CUresult set_kernel_node(CUgraphNode node, Kernel kernel);
CUresult set_kernel_node(CUgraphExec exec, CUgraphNode node, Kernel kernel);
void set_flag(int flag);  // by the host

bool step();  // one executable operation, if there is one
std::size_t run(std::size_t n);
std::size_t run_all();          // until nothing can move; the number of operations run
std::size_t pending();          // operations submitted and not complete
void hold(CUstream stream);     // stalls the stream (null, 1, 2: in the current context) …
void release(CUstream stream);  // … until released
bool complete(OpId op);
OpId last_op(CUstream stream);  // latest accepted operation of the stream; 0: none

// A wait that nothing could end returned CUDA_ERROR_LAUNCH_TIMEOUT.
bool hung();

// While an instance lives, its thread may still submit or release work: a stuck wait of another
// thread then waits for it instead of being declared hung.
class Submitter {
 public:
  Submitter();
  ~Submitter();
  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;

 private:
  std::uint64_t world_;
};

// --- faults
// ----------------------------------------------------------------------------------- The k-th
// call from now (1: the next) that can fail, fails with `code` and does nothing else;
// persistent: so do all after it. Pure queries marked Sure in entry_points.def are not counted.
void fail_call(std::uint64_t k, CUresult code, bool persistent = false);
void fail_symbol(std::string_view symbol,
                 std::uint64_t nth,
                 CUresult code,
                 bool persistent = false);
void clear_failures();
std::uint64_t calls_made();      // calls so far that can be made to fail
std::uint64_t failures_given();  // how many injected failures have been returned

// Accesses of executed work that hit memory it may not touch.
struct Fault {
  OpId op = 0;
  Touch touch;
  std::string why;
};

std::vector<Fault> faults();

// Calls that named a context, or an event of one, that was destroyed or just being destroyed:
// undefined behaviour on the driver (cuda.h at cuCtxDestroy), a code here.
std::vector<std::string> late_uses();

// --- log and clock
// ----------------------------------------------------------------------------
struct Call {
  const char* symbol;
  ThreadId thread;
  CUresult result;
  Nanoseconds nanoseconds;  // modelled: host cost and time blocked
};

std::vector<Call> calls();
std::uint64_t count(std::string_view symbol);  // exact name; since reset or clear_log
std::uint64_t count_all();
Nanoseconds driver_time();  // sum over calls
void clear_log();
std::string
report();  // a line per symbol: calls, modelled milliseconds; last driver_time_ms: X

Nanoseconds now();  // the clock only; no driver call
void advance_clock(Nanoseconds by);
// The host sleeps so long. Told and Seeded: the device gets one step further meanwhile.
void rest(Nanoseconds time);

// Run at each driver entry, before the simulator's lock is taken.
void set_entry_check(void (*check)());
void set_observer(Observer* observer);  // survives reset; null: none
ThreadId this_thread();

// --- looking in
// ------------------------------------------------------------------------------- The pieces of
// a range as `device` (-1: any) would see them now.
std::vector<Touch> translate(Address address, Bytes bytes);
Bytes used(int device);      // device memory in use, as the driver counts it
std::size_t live_handles();  // VMM physical handles with a reference or a mapping
std::size_t live_mappings();
std::size_t live_streams();  // created, not destroyed
std::size_t live_host_blocks();
void register_kernels(const custash_sim_kernel* kernels);

// --- fixture
// ---------------------------------------------------------------------------------- Resets the
// world, makes the primary context of device 0 current, fills a Driver.
class Sim {
 public:
  explicit Sim(const Options& options = {});
  ~Sim();
  Sim(const Sim&) = delete;
  Sim& operator=(const Sim&) = delete;

  const Driver& driver() const { return driver_; }

  CUcontext context() const { return context_; }

 private:
  Driver driver_;
  CUcontext context_ = nullptr;
};

// A Driver filled from the simulator, for an allocator; `now` is the modelled clock. What is
// waited for through it the allocator knows (Observer::on_allocator_learns).
Driver make_driver();
// From now to the reset the detector lets an allocator use only those, and what the thread that
// frees has waited for itself.
void judge_by_allocator_waits();
bool allocator_told();

}  // namespace custash::sim
