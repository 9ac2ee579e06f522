// SPDX-License-Identifier: MIT
#include "interpose/check/stream_book.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace custash::streams {

using guards::Kind;

namespace {

// Two numbers of 32 bits, as libraries of matrix products put into structures: sizes, and
// factors in place of divisions. Addresses of devices may lie as low.
bool are_numbers(Address word) {
  constexpr Address kSmall = 1U << 16U;
  constexpr Address kHalf = 1U << 31U;  // the factor of a power of two
  const Address low = word & 0xFFFFFFFFU;
  return low < kSmall || low == kHalf || word % sizeof word != 0;
}

}  // namespace

void StreamBook::erase(Blocks& blocks, Address address, Bytes bytes) {
  auto it = blocks.upper_bound(address);
  if (it != blocks.begin() && std::prev(it)->second.block.end() > address) --it;
  while (it != blocks.end() && it->first < address + bytes)
    it = blocks.erase(it);
}

StreamBook::Tracked* StreamBook::at(Blocks& blocks, Address address) {
  const auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return nullptr;
  Tracked& tracked = std::prev(next)->second;
  return address < tracked.block.end() ? &tracked : nullptr;
}

StreamBook::Tracked* StreamBook::find(Address address) {
  Tracked* const living = at(living_, address);
  return living != nullptr ? living : at(freed_, address);
}

void StreamBook::forget(Address address, Bytes bytes) {
  erase(living_, address, bytes);
  erase(freed_, address, bytes);
}

void StreamBook::allocated(guards::Block block, std::optional<Chain> on) {
  forget(block.address, block.bytes);
  block.allocated = ++number_;
  Tracked tracked;
  if (on) tracked.born = order.submitted(*on);
  has_born_ = has_born_ || on;
  tracked.block = std::move(block);
  living_[tracked.block.address] = std::move(tracked);
}

// One of a kind is enough for a block.
void StreamBook::add(Kind kind,
                     const guards::Block& block,
                     const guards::Work& use,
                     std::vector<Fault>* faults) {
  if (told_.insert({block.allocated, kind}).second) faults->push_back({kind, block, use});
}

void StreamBook::freed(Address address,
                       guards::Words by,
                       std::optional<Chain> on,
                       std::vector<Fault>* faults) {
  if (!on) order.is_over(order.of_all());
  auto node = living_.extract(address);
  if (!node) return;
  Tracked& tracked = node.mapped();
  tracked.block.freed = ++number_;
  tracked.block.freed_by = std::move(by);
  tracked.ended = on;
  for (const Use& use : tracked.uses) {
    const bool is_named =
        std::find(tracked.named.begin(), tracked.named.end(), use.place.chain) !=
        tracked.named.end();
    if (on && !is_named && !order.is_ordered(use.place, *on))
      add(Kind::FreeBesideUse, tracked.block, *use.work, faults);
  }
  if (on) (void)order.submitted(*on);
  tracked.uses.clear();
  oldest_.emplace_back(address, tracked.block.freed);
  freed_.insert_or_assign(address, std::move(tracked));
  if (oldest_.size() <= kFreed) return;
  const auto [first, number] = oldest_.front();
  oldest_.pop_front();
  const auto known = freed_.find(first);  // or that of a later block there
  if (known != freed_.end() && known->second.block.freed == number) freed_.erase(known);
}

void StreamBook::named(Address address, Chain chain) {
  Tracked* const tracked = at(living_, address);
  if (tracked == nullptr) return;
  auto& all = tracked->named;
  if (std::find(all.begin(), all.end(), chain) == all.end()) all.push_back(chain);
}

// Iterators come in pairs: where one range ends another block may begin. The beginning comes
// first, or, of reversed ranges, directly after the end.
bool StreamBook::is_end(std::size_t index,
                        std::span<const Named> all,
                        std::span<Tracked* const> blocks) {
  const Address address = all[index].address;
  for (std::size_t i = 0; i < all.size() && i <= index + 1; ++i)
    if (blocks[i] != nullptr && all[i].address < address && blocks[i]->block.end() == address)
      return true;
  return false;
}

bool StreamBook::are_on_two_devices(std::span<Tracked* const> blocks) {
  const Tracked* first = nullptr;
  for (const Tracked* each : blocks) {
    if (each == nullptr) continue;
    if (first == nullptr) first = each;
    if (each->block.device != first->block.device) return true;
  }
  return false;
}

// A table that is full forgets uses that are over, then the oldest: nothing is said of those.
void StreamBook::note(Tracked& tracked,
                      Place place,
                      const std::shared_ptr<const guards::Work>& work) {
  auto& uses = tracked.uses;
  std::erase_if(uses, [&](const Use& each) {
    return each.place.chain == place.chain ||
           (uses.size() >= kUses && order.is_ordered(each.place, place.chain));
  });
  if (uses.size() >= kUses) uses.erase(uses.begin());
  uses.push_back({place, work});
}

bool StreamBook::is_abroad(Chain chain, std::span<const Named> addresses) {
  return has_born_ && std::any_of(addresses.begin(), addresses.end(), [&](const Named& each) {
           const Tracked* const tracked = at(living_, each.address);
           return tracked != nullptr && tracked->born && tracked->born->chain != chain;
         });
}

// What a graph repeats says nothing new of a place.
StreamBook::Tracked* StreamBook::block_of(const char* kernel,
                                          const Named& named,
                                          Naming naming) {
  using Held = ParameterWords::Held;
  if (named.place == 0) return find(named.address);
  if (naming == Naming::Repeated)
    return words_.is_address(kernel, named.place) ? find(named.address) : nullptr;
  if (!words_.may_be(kernel, named.place)) return nullptr;
  Tracked* const tracked = are_numbers(named.address) ? nullptr : find(named.address);
  Held held = Held::Other;
  if (tracked != nullptr && tracked->block.freed == 0) {
    held = Held::InUse;
  } else if (const Tracked* const before = at(living_, named.address - 1);
             before != nullptr && before->block.end() == named.address) {
    held = Held::End;
  } else if (tracked != nullptr) {
    held = Held::Freed;
  }
  return words_.saw(kernel, named.place, held) ? tracked : nullptr;
}

void StreamBook::used(Chain chain,
                      const guards::Work& work,
                      std::span<const Named> addresses,
                      Naming naming,
                      std::vector<Fault>* faults) {
  std::vector<Tracked*> blocks(addresses.size());
  std::transform(addresses.begin(), addresses.end(), blocks.begin(), [&](const Named& each) {
    return block_of(work.name, each, naming);
  });
  const bool certain = naming == Naming::Exact;
  // The legacy stream copies between devices when the earlier work of both is over.
  if (certain && order.is_legacy(chain) && are_on_two_devices(blocks))
    order.is_over(order.of_all());
  const Place place = order.submitted(chain);
  std::shared_ptr<const guards::Work> kept;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Address address = addresses[i].address;
    Tracked* const tracked = blocks[i];
    if (tracked == nullptr) continue;
    if (!certain && address == tracked->block.address && is_end(i, addresses, blocks)) continue;
    if (tracked->block.freed != 0) {
      const bool may_wait = tracked->ended && order.is_behind_all(*tracked->ended);
      if (!may_wait) add(Kind::AfterFree, tracked->block, work, faults);
      continue;
    }
    if (tracked->born && !order.is_ordered(*tracked->born, chain))
      add(Kind::BeforeAllocation, tracked->block, work, faults);
    if (!kept) kept = std::make_shared<const guards::Work>(work);
    note(*tracked, place, kept);
  }
}

}  // namespace custash::streams
