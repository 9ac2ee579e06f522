// SPDX-License-Identifier: MIT
#include "tests/sim/cost.hpp"
#include "tools/replay/questions.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

namespace custash::replay {
namespace {

constexpr Bytes kUnit = 512;             // kMinBlockSize
constexpr Bytes kSmall = 1_MiB;          // kSmallSize: larger requests are the large pool's
constexpr Bytes kSmallSegment = 2_MiB;   // kSmallBuffer
constexpr Bytes kLargeSegment = 20_MiB;  // kLargeBuffer
constexpr Bytes kMinLarge = 10_MiB;      // kMinLargeAlloc: from here a segment of their own
constexpr Bytes kRange = 160_GiB;        // of one expandable segment

enum class State { Used, Free, Unmapped };

struct Block {
  Address address = 0;
  Bytes size = 0;
  State state = State::Free;
  Block* previous = nullptr;
  Block* next = nullptr;
  struct Pool* pool = nullptr;
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->size, a->address) < std::tie(b->size, b->address);
  }
};

struct ByAddress {
  bool operator()(const Block* a, const Block* b) const { return a->address < b->address; }
};

// The blocks of one pool and stream.
struct Pool {
  bool small = false;
  std::set<Block*, BySize> free;
  std::set<Block*, ByAddress> unmapped;
};

class Model {
 public:
  explicit Model(PyTorchPolicy policy) : policy_(policy) {}

  Block* allocate(Bytes bytes, std::uint32_t stream);
  void free(Block* block);

  const ModelOutcome& outcome() const { return outcome_; }

 private:
  Pool& pool(bool small, std::uint32_t stream);
  Block* new_block(Pool& pool, Address address, Bytes size, State state);
  Block* best_fit(Pool& pool, Bytes size);
  Block* new_segment(Pool& pool, Bytes size);
  Block* expand(Pool& pool, Bytes size);
  Block* expandable_place(Pool& pool, Bytes size);
  Block* map(Block* block, Bytes size);
  Block* merged(Block* block);
  void cut(Block* block, Bytes size, State rest);
  void charge(sim::Symbol symbol, Nanoseconds cost);
  void hold(Bytes bytes);

  PyTorchPolicy policy_;
  std::map<std::pair<bool, std::uint32_t>, Pool> pools_;
  std::vector<std::unique_ptr<Block>> blocks_;  // all that ever were in use at once
  std::vector<Block*> spare_;
  Address next_address_ = kRange;
  Bytes held_ = 0;
  ModelOutcome outcome_;
};

Pool& Model::pool(bool small, std::uint32_t stream) {
  Pool& found = pools_[{small, stream}];
  found.small = small;
  return found;
}

Block* Model::new_block(Pool& pool, Address address, Bytes size, State state) {
  if (spare_.empty()) spare_.push_back(blocks_.emplace_back(std::make_unique<Block>()).get());
  Block* const block = spare_.back();
  spare_.pop_back();
  *block = {address, size, state, nullptr, nullptr, &pool};
  return block;
}

void Model::charge(sim::Symbol symbol, Nanoseconds cost) {
  ++outcome_.driver_calls;
  outcome_.driver_time += sim::base_cost(symbol) + cost;
}

void Model::hold(Bytes bytes) {
  held_ += bytes;
  outcome_.peak_held = std::max(outcome_.peak_held, held_);
}

Block* Model::best_fit(Pool& pool, Bytes size) {
  Block key;
  key.size = size;
  auto it = pool.free.lower_bound(&key);
  if (it == pool.free.end()) return nullptr;
  if (policy_ == PyTorchPolicy::Expandable) {
    // A block that could still grow counts as large as it could be.
    const auto could_be = [](const Block* b) {
      return b->size +
             (b->next != nullptr && b->next->state == State::Unmapped ? b->next->size : 0);
    };
    for (auto next = std::next(it); next != pool.free.end() && could_be(*next) < could_be(*it);
         ++next)
      it = next;
  }
  return *it;
}

Block* Model::new_segment(Pool& pool, Bytes size) {
  Bytes bytes = align_up(size, kSmallSegment);
  if (pool.small)
    bytes = kSmallSegment;
  else if (size < kMinLarge)
    bytes = kLargeSegment;
  charge(sim::k_cuMemAlloc_v2, sim::alloc_cost(bytes));
  hold(bytes);
  next_address_ += kRange;
  return *pool.free.insert(new_block(pool, next_address_, bytes, State::Free)).first;
}

// The lowest run of free and unmapped blocks that can hold the request, by its first block.
Block* Model::expandable_place(Pool& pool, Bytes size) {
  const auto open = [](const Block* b) { return b != nullptr && b->state != State::Used; };
  for (Block* block : pool.unmapped) {
    Block* const first = open(block->previous) ? block->previous : block;
    Bytes room = 0;
    for (const Block* b = first; room < size && open(b); b = b->next)
      room += b->size;
    if (room >= size) return first;
  }
  charge(sim::k_cuMemAddressReserve, 0);
  next_address_ += 2 * kRange;
  return *pool.unmapped.insert(new_block(pool, next_address_, kRange, State::Unmapped)).first;
}

Block* Model::map(Block* block, Bytes size) {
  Pool& pool = *block->pool;
  const Bytes handle = pool.small ? kSmallSegment : kLargeSegment;
  const Bytes bytes = std::min(align_up(size, handle), block->size);
  Nanoseconds access = 0;
  for (Bytes at = 0; at < bytes; at += handle) {
    charge(sim::k_cuMemCreate, sim::create_cost(handle));
    charge(sim::k_cuMemMap, sim::kMapCost);
    access += sim::access_cost(handle, at / handle);
  }
  charge(sim::k_cuMemSetAccess, access);
  hold(bytes);
  pool.unmapped.erase(block);
  if (block->size > bytes) cut(block, bytes, State::Unmapped);
  block->state = State::Free;
  return merged(block);
}

Block* Model::expand(Pool& pool, Bytes size) {
  Block* block = expandable_place(pool, size);
  if (block->state == State::Unmapped) block = map(block, std::min(block->size, size));
  while (block->size < size)
    block = map(block->next, std::min(size - block->size, block->next->size));
  return block;
}

// With its free neighbours, and in the index.
Block* Model::merged(Block* block) {
  Pool& pool = *block->pool;
  if (Block* const before = block->previous;
      before != nullptr && before->state == State::Free) {
    pool.free.erase(before);
    before->size += block->size;
    before->next = block->next;
    if (block->next != nullptr) block->next->previous = before;
    spare_.push_back(block);
    block = before;
  }
  if (Block* const after = block->next; after != nullptr && after->state == State::Free) {
    pool.free.erase(after);
    block->size += after->size;
    block->next = after->next;
    if (after->next != nullptr) after->next->previous = block;
    spare_.push_back(after);
  }
  pool.free.insert(block);
  return block;
}

void Model::cut(Block* block, Bytes size, State rest) {
  Pool& pool = *block->pool;
  Block* const after = new_block(pool, block->address + size, block->size - size, rest);
  after->previous = block;
  after->next = block->next;
  if (after->next != nullptr) after->next->previous = after;
  block->next = after;
  block->size = size;
  if (rest == State::Free)
    pool.free.insert(after);
  else
    pool.unmapped.insert(after);
}

Block* Model::allocate(Bytes bytes, std::uint32_t stream) {
  const Bytes size = align_up(std::max(bytes, kUnit), kUnit);
  Pool& from = pool(size <= kSmall, stream);
  const bool expandable = policy_ == PyTorchPolicy::Expandable;
  Block* block = best_fit(from, size);
  if (block == nullptr) block = expandable ? expand(from, size) : new_segment(from, size);
  from.free.erase(block);
  const Bytes rest = block->size - size;
  if (from.small || expandable ? rest >= kUnit : rest > kSmall) cut(block, size, State::Free);
  block->state = State::Used;
  return block;
}

void Model::free(Block* block) {
  block->state = State::Free;
  merged(block);
}

}  // namespace

ModelOutcome model_pytorch(const Trace& trace, PyTorchPolicy policy) {
  Model model(policy);
  std::vector<Block*> blocks(trace.slots);
  for (const Event& event : trace.events) {
    if (event.kind == Kind::Alloc)
      blocks[event.slot] = model.allocate(event.bytes, event.stream);
    else if (event.kind == Kind::Free)
      model.free(blocks[event.slot]);
  }
  return model.outcome();
}

}  // namespace custash::replay
