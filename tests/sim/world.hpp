// SPDX-License-Identifier: MIT
// The world: everything that the simulator knows, behind one lock. Made by reset, found through
// Guard, never destroyed at exit (calls come after that, and are answered with 4).
#pragma once

#include "tests/sim/handles.hpp"
#include "tests/sim/objects.hpp"
#include "tests/sim/sim.hpp"
#include "tests/sim/symbols.hpp"

#include <condition_variable>
#include <mutex>
#include <random>
#include <set>

namespace custash::sim {

struct ThreadState {
  ThreadId id = 0;
  std::vector<CUcontext> stack = {};
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  int submitters = 0;
  bool waiting = false;
};

struct Injection {
  int symbol = -1;  // -1: any that can fail
  std::uint64_t left = 0;
  CUresult code = CUDA_SUCCESS;
  bool persistent = false;
};

struct PhysicalHandle {
  int device = 0;
  Bytes size = 0;
  std::uint64_t physical = 0;
  int references = 0;
  int mappings = 0;
  int file = -1;  // imported: another simulator's memory, from `offset` on
  std::uint64_t offset = 0;
  bool exported = false;  // as a shareable handle
  CUmemAllocationProp properties = {};
};

struct World {
  explicit World(const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Options options;
  std::uint64_t id = 0;
  bool initialised = true;
  bool deinitialised = false;
  bool hung = false;
  std::mt19937_64 random;

  Nanoseconds now = 1000;
  Nanoseconds device_time = 0;  // of the last thing that happened on a device (Timed)

  std::vector<std::unique_ptr<ThreadState>> threads;
  std::condition_variable changed;

  // operations: ops[i] has id first_op + i; complete ones are dropped from the front
  std::deque<Op> ops;
  OpId first_op = 1;
  std::vector<Stream*> active;
  std::vector<OpId> loose;
  std::set<int> flags;
  int calling = 0;  // host functions running now

  std::uint64_t next_serial = 1;
  std::vector<DeviceState> devices;
  Handles<Context> contexts{0x51000000000};
  std::map<CUcontext, CUdevice> ended_contexts;  // of destroyed ones, which may be current
  Handles<Stream> streams{0x52000000000};
  Handles<Event> events{0x53000000000};
  Handles<Graph> graphs{0x54000000000};
  Handles<Graph> execs{0x55000000000};
  Handles<Module> modules{0x56000000000};
  Handles<KernelInfo> kernels{0x57000000000};
  Handles<Pool> pools{0x58000000000};
  Handles<PhysicalHandle> handles{0x59000000000};
  Handles<NodePlace> nodes{0x5a000000000};
  Handles<unsigned> resources{0x5b000000000};  // described: so many multiprocessors
  Handles<Array> arrays{0x5c000000000};
  Handles<Multicast> multicasts{0x5d000000000};
  std::vector<std::unique_ptr<Capture>> captures;

  Space space;
  std::map<Address, Region> regions;
  std::map<Address, Bytes> reservations;
  std::vector<PlainFree> plain_frees;  // on a stream, not yet given back

  std::vector<Injection> injections;
  std::uint64_t failable_calls = 0;
  std::uint64_t failures_given = 0;
  std::vector<Fault> faults;
  std::vector<std::string> late_uses;

  std::vector<Call> log;
  std::uint64_t counts[kSymbols] = {};
  Nanoseconds spent[kSymbols] = {};
};

// Takes the world's lock, unless this thread has it already (bodies, observers).
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  World* operator->() const { return world_; }

  World& operator*() const { return *world_; }

 private:
  World* world_;
  bool outer_;
};

// The lock itself, for the places that must let go of it for a while (waits, host functions).
std::mutex& world_mutex();
void unlock_world();
void lock_world();
ThreadState& thread_state(World& world);
// allocator_driver.cpp: this thread is in a call of make_driver's.
bool by_allocator();
void forget_allocator();
bool in_callback();  // this thread runs a host function
void set_in_callback(bool inside);
Observer* observer();
extern void (*entry_check)();
void set_default_options(const Options& options);  // of a world that nobody reset
bool forked();

}  // namespace custash::sim
