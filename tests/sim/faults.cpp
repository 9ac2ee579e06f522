// SPDX-License-Identifier: MIT
// What an operation may touch, as the device sees it, and what happens when it touches more.
#include "tests/sim/engine.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

constexpr std::uint64_t kHostBit = std::uint64_t{1} << 63;

const Region* region_at(const World& w, Address address) {
  auto it = w.regions.upper_bound(address);
  if (it == w.regions.begin()) return nullptr;
  const Region& region = std::prev(it)->second;
  return address - region.base < region.size ? &region : nullptr;
}

bool reachable(const Region& region, const Context* context, bool kernel) {
  if (context == nullptr || region.origin == Origin::Host || region.origin == Origin::Managed)
    return true;
  if (region.origin == Origin::Vmm)
    return ((region.access >> static_cast<unsigned>(context->device)) & 1) != 0;
  if (region.device == context->device || !kernel) return true;
  return region.context_id == 0 || context->home->peers.count(region.context_id) != 0;
}

Touch piece_in(
    const World& w, const Region* region, const Context* context, bool kernel, Address at) {
  Touch touch;
  touch.address = at;
  if (region == nullptr) {
    touch.memory = w.space.owns(at) ? Memory::Unmapped : Memory::Pageable;
    touch.physical = at | kHostBit;
    return touch;
  }
  touch.memory = Memory::Device;
  if (region->origin == Origin::Host) touch.memory = Memory::Pinned;
  if (!reachable(*region, context, kernel)) touch.memory = Memory::Unmapped;
  touch.physical =
      region->origin == Origin::Host ? (at | kHostBit) : region->physical + (at - region->base);
  return touch;
}

Address end_of_piece(const World& w, const Region* region, Address at, Address end) {
  if (region != nullptr) return std::min(end, region->base + region->size);
  const auto next = w.regions.upper_bound(at);
  return next == w.regions.end() ? end : std::min(end, next->first);
}

const char* fault_of(const Touch& touch, bool kernel) {
  if (touch.memory == Memory::Unmapped) return "not mapped or not accessible";
  if (touch.memory == Memory::Pageable && kernel) return "pageable host memory";
  return nullptr;
}

void report(World& w, Op& op, const Touch& touch, const char* why) {
  op.faulty = true;
  if (w.faults.size() < 1000) w.faults.push_back({op.id, touch, why});
  if (Observer* o = observer()) o->on_fault(op.id, touch, why);
}

bool same_memory(const Touch& a, const Touch& b) {
  return a.address == b.address && a.bytes == b.bytes && a.physical == b.physical;
}

std::vector<Touch> touches_now(World& w, const Op& op) {
  const Context* c = context_by_id(w, op.context_id);
  return c == nullptr ? std::vector<Touch>{} : translate_all(w, *c, op.work);
}

// Reports what the op may not touch now; `when` stands for all that it reports, if given.
void judge(World& w, Op& op, const std::vector<Touch>& touches, const char* when) {
  if (op.faulty) return;
  for (const Touch& touch : touches)
    if (const char* why = fault_of(touch, op.work.kernel))
      report(w, op, touch, when == nullptr ? why : when);
}

}  // namespace

std::vector<Touch> translate_access(const World& w,
                                    const Context* c,
                                    bool kernel,
                                    const Access& access) {
  std::vector<Touch> touches;
  const Address end = access.address + access.bytes;
  for (Address at = access.address; at < end;) {
    const Region* region = region_at(w, at);
    const Address stop = end_of_piece(w, region, at, end);
    Touch touch = piece_in(w, region, c, kernel, at);
    touch.bytes = stop - at;
    touch.write = access.write;
    touches.push_back(touch);
    at = stop;
  }
  return touches;
}

std::vector<Touch> translate_all(const World& w, const Context& c, const Work& work) {
  std::vector<Touch> touches;
  for (const Access& access : work.accesses) {
    const std::vector<Touch> more = translate_access(w, &c, work.kernel, access);
    touches.insert(touches.end(), more.begin(), more.end());
  }
  return touches;
}

bool may_have_begun(const World& w, const Op& op) {
  if (op.state == Op::State::Running) return true;
  return op.state == Op::State::Waiting &&
         std::all_of(op.after.begin(), op.after.end(), [&](OpId id) { return is_done(w, id); });
}

void check_start(World& w, Op& op) {
  if (!op.work.accesses.empty()) judge(w, op, touches_now(w, op), nullptr);
}

void check_running(World& w) {
  const auto check = [&](OpId id) {
    Op& op = *find_op(w, id);
    if (!op.work.accesses.empty() && may_have_begun(w, op))
      judge(w, op, touches_now(w, op), "taken away while it may run");
  };
  for (const Stream* s : w.active)
    check(s->queue.front());
}

void check_touches(World& w, Op& op) {
  if (op.work.accesses.empty()) return;
  const std::vector<Touch> touches = touches_now(w, op);
  judge(w, op, touches, nullptr);
  // In data mode a faulty body would bring the process down; the device would not have done it.
  if (op.faulty) op.work.body = nullptr;
  if (!op.faulty &&
      !std::equal(
          touches.begin(), touches.end(), op.touches.begin(), op.touches.end(), same_memory))
    report(w,
           op,
           touches.empty() ? Touch{} : touches.front(),
           "other memory than at the submission");
  if (!op.faulty) return;
  // The host is told no sooner.
  if (Context* c = context_by_id(w, op.context_id))
    c->home->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace custash::sim
