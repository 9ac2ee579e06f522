// SPDX-License-Identifier: MIT
#include "interpose/check/guarded_memory.hpp"

#include "allocator/base/rule.hpp"
#include "interpose/check/device_guards.hpp"
#include "interpose/check/host_guards.hpp"

namespace custash {
namespace {

template <typename Base, typename Guards, typename Parts>
std::unique_ptr<Base> make(const Parts& parts) {
  return std::make_unique<Guards>(parts);
}

template <typename Visit>
void visit_guards(Allocator& core, Visit visit) {
  core.visit_samplers(
      [](Sampler& sampler, const void* of) {
        (*static_cast<const Visit*>(of))(static_cast<DeviceGuards&>(sampler));
      },
      &visit);
}

}  // namespace

void GuardedMemory::serve(GuardChoice* choice) {
  if (!choice->any()) return;
  choice->on_device = make<Sampler, DeviceGuards>;
  choice->on_host = make<HostSampler, HostGuards>;
}

void GuardedMemory::check_all() {
  visit_guards(core_, [](DeviceGuards& guards) { guards.check_all(); });
}

void GuardedMemory::give_back_freed() {
  if (DeviceGuards::with_pages() == 0) return;
  visit_guards(core_, [](DeviceGuards& guards) { guards.collect_freed(); });
}

void GuardedMemory::order_fills(CUstream stream) {
  if (DeviceGuards::fills() == 0 || !holds(Rule::work_comes_after_fills)) return;
  visit_guards(core_, [&](DeviceGuards& guards) { guards.order_fills(&stream); });
}

}  // namespace custash
