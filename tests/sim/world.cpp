// SPDX-License-Identifier: MIT
// The one world, its lock, the threads in it, and reset.
#include "tests/sim/world.hpp"

#include <atomic>

#include <pthread.h>

namespace custash::sim {

void (*entry_check)() = nullptr;

namespace {

struct Slot {
  std::uint64_t world = 0;
  ThreadState* state = nullptr;
  bool holding = false;
  bool in_callback = false;
};

// Trivially destructible: threads come and go, their state stays in the world.
thread_local Slot slot;

struct Root {
  std::mutex mutex;
  World* world = nullptr;
  Observer* observer = nullptr;
  Options defaults;
  std::uint64_t worlds = 0;
};

std::atomic<bool> in_forked_child{false};

// Never destroyed: entries are called after the static destructors have run.
Root& root() {
  static Root* the_root = [] {
    auto* made = new Root;
    pthread_atfork([] { root().mutex.lock(); },
                   [] { root().mutex.unlock(); },
                   [] {
                     in_forked_child = true;
                     root().mutex.unlock();
                   });
    return made;
  }();
  return *the_root;
}

World* fresh_world(Root& r, const Options& options) {
  auto* world = new World(options);
  world->id = ++r.worlds;
  return world;
}

}  // namespace

World::World(const Options& o)
    : options(o), initialised(o.initialised), random(o.seed), space(o) {
  devices.resize(static_cast<std::size_t>(o.devices));
  for (int d = 0; d < o.devices; ++d) {
    auto pool = std::make_unique<Pool>();
    pool->device = d;
    pool->is_default = true;
    devices[d].default_pool = devices[d].pool = pools.add<CUmemoryPool>(std::move(pool));
    devices[d].primary = contexts.add<CUcontext>(std::make_unique<Context>());
    contexts.withdraw(devices[d].primary);
  }
}

World::~World() {
  for (const auto& [base, region] : regions)
    if (region.origin == Origin::Host && !region.registered) unmap_host(base, region.size);
}

std::mutex& world_mutex() {
  return root().mutex;
}

void lock_world() {
  root().mutex.lock();
  slot.holding = true;
}

void unlock_world() {
  slot.holding = false;
  root().mutex.unlock();
}

bool in_callback() {
  return slot.in_callback;
}

void set_in_callback(bool inside) {
  slot.in_callback = inside;
}

Observer* observer() {
  return root().observer;
}

bool forked() {
  return in_forked_child;
}

void set_default_options(const Options& options) {
  root().defaults = options;
}

Guard::Guard() : world_(nullptr), outer_(!slot.holding) {
  Root& r = root();
  if (outer_) lock_world();
  if (r.world == nullptr) r.world = fresh_world(r, r.defaults);
  world_ = r.world;
}

Guard::~Guard() {
  if (outer_) unlock_world();
}

ThreadState& thread_state(World& w) {
  if (slot.world != w.id) {
    w.threads.push_back(std::make_unique<ThreadState>());
    w.threads.back()->id = static_cast<ThreadId>(w.threads.size() - 1);
    slot.world = w.id;
    slot.state = w.threads.back().get();
  }
  return *slot.state;
}

void reset(const Options& options) {
  Root& r = root();
  lock_world();
  forget_allocator();
  in_forked_child = false;  // a child that asks for a world of its own may have one
  World* old = r.world;
  r.world = fresh_world(r, options);
  if (r.observer != nullptr) r.observer->on_reset();
  unlock_world();
  delete old;
}

void set_observer(Observer* observer) {
  const Guard guard;
  root().observer = observer;
}

}  // namespace custash::sim
