// SPDX-License-Identifier: MIT
#include "allocator/heap/memory_policy.hpp"

#include "allocator/base/check.hpp"

namespace custash {

void Refaults::wanted(GivenUp* pages, Bytes bytes, std::int64_t now) {
  if (pages->when < 0) return;
  const bool missed = soon(pages->when, now);
  if (missed && !pages->missed) allowed_ += bytes;
  CUSTASH_ASSERT(missed || !pages->missed || allowed_ >= bytes);
  if (!missed && pages->missed) allowed_ -= bytes;
  *pages = {.missed = missed};
}

void Refaults::moved(Bytes size, std::size_t handles) {
  sizes_[size].cost += std::min(handles, kMostAtOnce);
}

void Refaults::got(Bytes size, const Served& served) {
  if (sizes_.size() >= kSizes)
    std::erase_if(sizes_, [&](const auto& each) {
      const std::vector<Served>& all = each.second.served;
      return all.empty() || is_old(all.back(), served.when);
    });
  sizes_[size].served.push_back(served);
}

void Refaults::forget_old(Size& of, std::int64_t now) {
  std::erase_if(of.served, [&](const Served& served) { return is_old(served, now); });
  if (of.served.empty()) of.cost = 0;
}

bool Thefts::paid_off(
    Bytes size, std::size_t blocks, std::size_t ready, std::size_t takers, std::int64_t now) {
  if (sizes_.size() >= kSizes)
    std::erase_if(sizes_, [&](const auto& each) {
      return each.second.made == 0 && !Refaults::soon(each.second.latest, now, takers);
    });
  if (sizes_.size() >= kSizes && !sizes_.contains(size)) return false;
  Size& of = sizes_[size];
  of.times = Refaults::soon(of.latest, now, takers) ? of.times + 1 : 1;
  of.latest = now;
  if (of.times < std::min(kTimes, blocks * size / 1_MiB) || ready >= takers ||
      of.made + 2 > takers + blocks || made_ + blocks * size > kMost)
    return false;
  of.times = 0;
  of.made += blocks;
  made_ += blocks * size;
  return true;
}

void Settling::in_use(std::int64_t most, std::int64_t now) {
  if (most <= most_) return;
  most_ = most;
  rose_ = now;
}

void MappingCost::note(Nanoseconds now, std::size_t handles) {
  drain(now);
  cost_ += handles * kHandle;
}

bool MappingCost::is_small(Nanoseconds now) {
  drain(now);
  return cost_ < kMuch;
}

void MappingCost::drain(Nanoseconds now) {
  if (last_ == 0) last_ = now;
  if (now <= last_) return;
  cost_ -= std::min(cost_, (now - last_) / kPart);
  last_ = now;
}

}  // namespace custash
