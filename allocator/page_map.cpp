// SPDX-License-Identifier: MIT
#include "allocator/page_map.hpp"

#include "allocator/size_policy.hpp"

#include <new>

namespace custash {

PageOwner PageMap::find(Address address) const {
  if (address >= kLimit) return {};
  const std::size_t page = address / kPageBytes;
  const Leaf* found = root_[page >> kLeafBits].load(std::memory_order_acquire);
  if (found == nullptr) return {};
  const std::uintptr_t value = (*found)[page % kLeafSize].load(std::memory_order_acquire);
  if ((value & 1U) != 0) return {.slab = reinterpret_cast<Slab*>(value - 1)};
  return {.segment = reinterpret_cast<Segment*>(value)};
}

bool PageMap::set(Address begin, Address end, Segment* segment) {
  return write(begin, end, reinterpret_cast<std::uintptr_t>(segment));
}

bool PageMap::set(Address begin, Address end, Slab* slab) {
  return write(begin, end, reinterpret_cast<std::uintptr_t>(slab) + 1);
}

void PageMap::clear(Address begin, Address end) {
  write(begin, end, 0);
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
  auto* made = new (std::nothrow) Leaf{};
  if (made == nullptr) return nullptr;
  if (root_[index].compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  delete made;  // another thread was first
  return found;
}

bool PageMap::write(Address begin, Address end, std::uintptr_t value) {
  if (!prepare(begin, end)) return false;
  for (Address at = begin; at < end; at += kPageBytes) {
    const std::size_t page = at / kPageBytes;
    (*leaf(page >> kLeafBits))[page % kLeafSize].store(value, std::memory_order_release);
  }
  return true;
}

}  // namespace custash
