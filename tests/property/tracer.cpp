// SPDX-License-Identifier: MIT
#include "tests/property/tracer.hpp"

#include <cstdio>
#include <cstdlib>

namespace custash::property {
namespace {

class Tracer final : public sim::Observer {
 public:
  explicit Tracer(sim::RaceDetector& to) : to_(to) {}

  void on_reset() override { to_.on_reset(); }

  void on_submit(sim::OpId op,
                 sim::ThreadId thread,
                 std::span<const sim::OpId> predecessors,
                 std::span<const sim::Touch> touches,
                 const char* name) override {
    std::printf(
        "    op %llu %s by thread %u after", static_cast<unsigned long long>(op), name, thread);
    for (const sim::OpId before : predecessors)
      std::printf(" %llu", static_cast<unsigned long long>(before));
    std::printf("\n");
    to_.on_submit(op, thread, predecessors, touches, name);
  }

  void on_host_join(sim::ThreadId thread, std::span<const sim::OpId> completed) override {
    std::printf("    thread %u knows", thread);
    for (const sim::OpId op : completed)
      std::printf(" %llu", static_cast<unsigned long long>(op));
    std::printf("\n");
    to_.on_host_join(thread, completed);
  }

  void on_allocator_learns(std::span<const sim::OpId> completed) override {
    to_.on_allocator_learns(completed);
  }

  void on_actor_told(sim::ActorId actor, sim::ThreadId by) override {
    to_.on_actor_told(actor, by);
  }

  void on_actor_heard(sim::ActorId actor, sim::ThreadId by) override {
    to_.on_actor_heard(actor, by);
  }

  void on_actor_access(sim::ActorId actor,
                       const char* name,
                       std::span<const sim::Touch> touches) override {
    to_.on_actor_access(actor, name, touches);
  }

  void on_late_access(sim::OpId op,
                      sim::ThreadId told_by,
                      std::span<const sim::Touch> touches) override {
    to_.on_late_access(op, told_by, touches);
  }

  void on_host_learns(sim::ThreadId thread, sim::OpId op, bool so_far) override {
    to_.on_host_learns(thread, op, so_far);
  }

  void on_alloc(sim::ThreadId thread,
                sim::Origin origin,
                Address address,
                Bytes bytes,
                sim::OpId op) override {
    to_.on_alloc(thread, origin, address, bytes, op);
  }

  void on_free(sim::ThreadId thread,
               sim::Origin origin,
               Address address,
               Bytes bytes,
               sim::OpId op) override {
    to_.on_free(thread, origin, address, bytes, op);
  }

  void on_fault(sim::OpId op, const sim::Touch& touch, const char* why) override {
    to_.on_fault(op, touch, why);
  }

 private:
  sim::RaceDetector& to_;
};

}  // namespace

bool tracing() {
  return std::getenv("CUSTASH_TRACE") != nullptr;
}

sim::RaceDetector& traced_detector() {
  sim::RaceDetector& detector = sim::listening_detector();
  static Tracer& tracer = *new Tracer(detector);
  if (tracing()) sim::set_observer(&tracer);
  return detector;
}

}  // namespace custash::property
