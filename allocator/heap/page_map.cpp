// SPDX-License-Identifier: MIT
#include "allocator/heap/page_map.hpp"

#include "allocator/base/check.hpp"

#include <cstdlib>

namespace custash {

bool PageMap::set(Address begin, Address end, Segment* segment) {
  CUSTASH_ASSERT(segment != nullptr && begin < end);
  return write(begin, end, reinterpret_cast<std::uintptr_t>(segment));
}

bool PageMap::set(Address begin, Address end, Slab* slab) {
  CUSTASH_ASSERT(slab != nullptr && begin + kPageBytes == end);
  return write(begin, end, reinterpret_cast<std::uintptr_t>(slab) + 1);
}

void PageMap::clear(Address begin, Address end) {
  write(begin, end, 0);
}

void PageMap::clear_if(Address address, const PageOwner& seen) {
  auto* at = const_cast<Entry*>(entry(address));
  CUSTASH_ASSERT(at != nullptr);
  std::uintptr_t owner = seen.slab != nullptr ? reinterpret_cast<std::uintptr_t>(seen.slab) + 1
                                              : reinterpret_cast<std::uintptr_t>(seen.segment);
  if (!at->owner.compare_exchange_strong(owner, 0)) return;
  for (auto& start : at->starts)
    start.store(0, std::memory_order_relaxed);
}

void PageMap::begin_block(Address address, Block* block) {
  const std::uint64_t value = reinterpret_cast<std::uintptr_t>(block) | place(address);
  auto* at = const_cast<Entry*>(entry(address));
  CUSTASH_ASSERT(block != nullptr && address % kAlignment == 0);
  CUSTASH_ASSERT(at != nullptr && at->owner.load() != 0 && (at->owner.load() & 1U) == 0);
  CUSTASH_ASSERT(find(address).block == nullptr);
  for (auto& start : at->starts) {
    if (start.load(std::memory_order_relaxed) != 0) continue;
    start.store(value, std::memory_order_release);
    return;
  }
}

// When a context has ended, another may own the address already (SurvivingPages::keep()).
void PageMap::end_block(Address address) {
  auto* at = const_cast<Entry*>(entry(address));
  CUSTASH_ASSERT(at != nullptr);
  for (auto& start : at->starts) {
    const std::uint64_t value = start.load(std::memory_order_relaxed);
    if (value != 0 && (value ^ place(address)) >> kPointerBits == 0)
      start.store(0, std::memory_order_relaxed);
  }
}

bool PageMap::prepare(Address begin, Address end) {
  if (end > kLimit || begin % kPageBytes != 0 || end % kPageBytes != 0) return false;
  const std::size_t last = (end / kPageBytes - 1) >> kLeafBits;
  for (std::size_t i = (begin / kPageBytes) >> kLeafBits; i <= last; ++i) {
    if (leaf(i) == nullptr) return false;
  }
  return true;
}

PageMap::Leaf* PageMap::leaf(std::size_t index) {
  Leaf* found = root_[index].load(std::memory_order_acquire);
  if (found != nullptr) return found;
  auto* made = static_cast<Leaf*>(std::calloc(1, sizeof(Leaf)));  // zeros, untouched
  if (made == nullptr) return nullptr;
  if (root_[index].compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  std::free(made);  // another thread was first
  return found;
}

bool PageMap::write(Address begin, Address end, std::uintptr_t value) {
  if (!prepare(begin, end)) return false;
  for (Address at = begin; at < end; at += kPageBytes) {
    const std::size_t page = at / kPageBytes;
    Entry& entry = (*leaf(page >> kLeafBits))[page % kLeafSize];
    entry.owner.store(value, std::memory_order_release);
    if (value != 0) continue;
    for (auto& start : entry.starts)
      start.store(0, std::memory_order_relaxed);
  }
  return true;
}

}  // namespace custash
