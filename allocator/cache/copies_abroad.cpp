// SPDX-License-Identifier: MIT
#include "allocator/cache/copies_abroad.hpp"

#include "allocator/base/rule.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace custash {

bool CopiesAbroad::Copy::over() const {
  return use.event ? use.timeline->events().use_over(use.event)
                   : use.timeline->fences().over(position);
}

void CopiesAbroad::note(Address touched, Timeline& by, StreamState& stream_state) {
  Copy copy{.touched = touched, .stream_state = &stream_state, .use = {&by, {}}};
  // All that the context does now stands for it. Without custash, only this copy waits: no
  // stream waits.
  if (!by.events().record_use(stream_state, &copy.use.event))
    by.fences().record_free(&copy.position, FenceKind::Late).ignore();
  if (!keep(std::move(copy))) by.fences().wait_all().ignore();  // no host memory to note it
}

bool CopiesAbroad::keep(Copy copy) noexcept {
  Lock lock(mutex_);
  copy.number = ++last_;
  const auto before = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& old) {
    return old.stream_state == copy.stream_state && old.touched == copy.touched;
  });
  if (before != copies_.end()) {
    std::swap(*before, copy);  // it comes after that one
    return true;
  }
  try {
    copies_.push_back(std::move(copy));
  } catch (const std::bad_alloc&) {
    return false;
  }
  count_.store(copies_.size());
  return true;
}

Status CopiesAbroad::wait_for(Address base, Bytes size) {
  Status result;
  for (const Copy& copy : all()) {
    if (!copy.over() && copy.touched - base < size &&
        holds(Rule::frees_wait_for_copies_of_other_contexts)) {
      const ContextUse use(copy.use.timeline->events().users());
      if (!use) continue;  // its end waits for its work
      const Status waited = copy.use.event
                                ? copy.use.timeline->fences().wait_use(copy.use.event)
                                : copy.use.timeline->fences().wait_for(copy.position);
      if (!waited.ok()) result = waited;
    }
    if (copy.over()) drop(copy.number);
  }
  return result;
}

std::vector<CopiesAbroad::Copy> CopiesAbroad::all() {
  Lock lock(mutex_);
  return copies_;
}

void CopiesAbroad::drop(std::uint64_t number) {
  Copy dropped;  // let go outside the lock
  Lock lock(mutex_);
  const auto at = std::find_if(
      copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.number == number; });
  if (at == copies_.end()) return;
  dropped = std::exchange(*at, std::move(copies_.back()));
  copies_.pop_back();
  count_.store(copies_.size());
}

}  // namespace custash
