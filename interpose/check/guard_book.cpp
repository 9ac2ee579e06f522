// SPDX-License-Identifier: MIT
#include "interpose/check/guard_book.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace custash::guards {
namespace {

Near place(const Block& block, Address address, Bytes bytes) {
  const Address end = address + bytes;
  const bool touches = address < block.end() && block.address < end;
  if (address < block.address)
    return {block, Place::BeforeBeginning, block.address - address, touches};
  if (end > block.end()) return {block, Place::PastEnd, end - block.end(), touches};
  return {block, Place::Inside, address - block.address, true};
}

bool is_nearer(const Near& a, const Near& b) {
  const bool inside_a = a.place == Place::Inside;
  const bool inside_b = b.place == Place::Inside;
  return inside_a != inside_b ? inside_a : a.distance < b.distance;
}

// The neighbours of an address in one of the maps.
template <typename Blocks>
void compare(const Blocks& blocks, Address address, Bytes bytes, std::optional<Near>* best) {
  const auto try_one = [&](const Block& block) {
    const Near near = place(block, address, bytes);
    if (!*best || is_nearer(near, **best)) *best = near;
  };
  const auto next = blocks.upper_bound(address);
  if (next != blocks.end()) try_one(next->second);
  if (next != blocks.begin()) try_one(std::prev(next)->second);
}

}  // namespace

CUstream handle_of(const observe::Stream& stream) {
  if (!stream.named || stream.handle != nullptr) return stream.handle;
  return stream.null == NullStream::Legacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
}

void Work::note(Address address) {
  if (count == kAddresses) return;
  const auto end = addresses.begin() + count;
  if (std::find(addresses.begin(), end, address) == end) addresses[count++] = address;
}

// What lay there before has ended unseen: its context has.
void GuardBook::forget(Blocks& blocks, const Block& under) {
  auto it = blocks.upper_bound(under.address);
  if (it != blocks.begin() && std::prev(it)->second.end() > under.address) --it;
  while (it != blocks.end() && it->first < under.end())
    it = blocks.erase(it);
}

void GuardBook::allocated(Block block) {
  forget(living_, block);
  forget(freed_, block);
  block.allocated = ++number_;
  const Address address = block.address;
  living_[address] = std::move(block);
}

bool GuardBook::freed(Address address, Words by) {
  auto node = living_.extract(address);
  if (!node) return false;
  node.mapped().freed = ++number_;
  node.mapped().freed_by = std::move(by);
  freed_.insert_or_assign(address, std::move(node.mapped()));
  oldest_.push_back(address);
  if (oldest_.size() > kFreed) {
    freed_.erase(oldest_.front());
    oldest_.pop_front();
  }
  return true;
}

void GuardBook::ended(CUcontext context) {
  const auto was_there = [context](const auto& each) { return each.second.context == context; };
  std::erase_if(living_, was_there);
  std::erase_if(freed_, was_there);
}

void GuardBook::submitted(Work&& work) {
  work.number = ++number_;
  work_.push_back(std::move(work));
  if (work_.size() > kWork) work_.pop_front();
}

void GuardBook::over(CUcontext context, std::optional<CUstream> stream, std::uint64_t number) {
  for (Work& each : work_)
    if (!each.captured && each.context == context && (!stream || each.stream == *stream) &&
        each.number <= number)
      each.over = true;
}

std::optional<Near> GuardBook::nearest(Address address, Bytes bytes) const {
  std::optional<Near> best;
  compare(living_, address, bytes, &best);
  if (best && best->touches) return best;
  compare(freed_, address, bytes, &best);
  return best;
}

const Block* GuardBook::living(Address address) const {
  const auto found = living_.find(address);
  return found == living_.end() ? nullptr : &found->second;
}

}  // namespace custash::guards
