// SPDX-License-Identifier: MIT
#include "tests/sim/actors.hpp"

#include "tests/sim/engine.hpp"

namespace custash::sim {
namespace {

// Null: over, or behind other work.
Op* running(World& w, OpId id) {
  Op* op = find_op(w, id);
  return op != nullptr && may_have_begun(w, *op) ? op : nullptr;
}

bool same_bytes(const std::vector<Touch>& now, const Touch& then) {
  return now.size() == 1 && now.front().physical == then.physical &&
         now.front().bytes == then.bytes && now.front().memory != Memory::Unmapped;
}

}  // namespace

Actor::Actor(std::string name) : name_(std::move(name)) {
  const Guard guard;
  id_ = static_cast<ActorId>(guard->next_serial++);
}

void Actor::told() const {
  const Guard guard;
  if (Observer* o = observer()) o->on_actor_told(id_, thread_state(*guard).id);
}

void Actor::note_result() const {
  const Guard guard;
  if (Observer* o = observer()) o->on_actor_heard(id_, thread_state(*guard).id);
}

void Actor::opens(Address address, Bytes bytes) {
  for (const Touch& touch : translate(address, bytes))
    open_.push_back(touch);
}

void Actor::closes() {
  open_.clear();
}

void Actor::touches(bool write) const {
  const Guard guard;
  for (Touch touch : open_) {
    touch.write = write;
    const std::vector<Touch> now = translate(touch.address, touch.bytes);
    if (!same_bytes(now, touch)) {
      const char* why = "memory that an actor has open was moved or taken back";
      guard->faults.push_back({0, touch, why});
      if (Observer* o = observer()) o->on_fault(0, touch, why);
    }
    if (Observer* o = observer()) o->on_actor_access(id_, name_.c_str(), {&touch, 1});
  }
}

void Actor::touches(Address address, Bytes bytes, bool write) const {
  const Guard guard;
  std::vector<Touch> touches = translate(address, bytes);
  for (Touch& touch : touches)
    touch.write = write;
  if (Observer* o = observer()) o->on_actor_access(id_, name_.c_str(), touches);
}

bool hand_to_running(OpId kernel, const Access& access) {
  const Guard guard;
  World& w = *guard;
  Op* op = running(w, kernel);
  const Context* c = op == nullptr ? nullptr : context_by_id(w, op->context_id);
  if (c == nullptr) return false;
  const std::vector<Touch> touches = translate_access(w, c, op->work.kernel, access);
  op->work.accesses.push_back(access);
  op->touches.insert(op->touches.end(), touches.begin(), touches.end());
  check_start(w, *op);
  if (Observer* o = observer()) o->on_late_access(kernel, thread_state(w).id, touches);
  return true;
}

}  // namespace custash::sim
