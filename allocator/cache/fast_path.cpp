// SPDX-License-Identifier: MIT
// What the fast path keeps out of line, so that it does not spill registers for it.
#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_inline.hpp"

namespace custash {
namespace {

// Which position it was when the block was handed out.
Position handed_out_at(const PageOwner& owner, Address address) {
  if (owner.slab == nullptr)
    return owner.block == nullptr ? Position::end() : Position{owner.block->handed_out_at};
  const std::uint32_t index = owner.slab->index_at(address);
  return index == owner.slab->count ? Position::end()
                                    : Position{owner.slab->blocks[index].handed_out_at};
}

}  // namespace

[[gnu::noinline]] Address FastPath::restock_and_hit(ThreadCache& thread_cache, Bytes bytes) {
  return thread_caches_.restock(thread_cache, size_class(bytes)) ? allocate(thread_cache, bytes)
                                                                 : 0;
}

[[gnu::noinline]] bool FastPath::put_marked(ThreadCache& thread_cache,
                                            SmallRef ref,
                                            Position position) {
  if (ref.block().marks.kept() && holds(Rule::kept_blocks_take_the_long_way)) return false;
  const Stored stored = store<true>(thread_cache, ref, position);
  return stored == Stored::NoRoom ? spill_and_put(thread_cache, ref, position)
                                  : stored == Stored::Yes;
}

// Only this thread fills the magazine again.
[[gnu::noinline]] bool FastPath::spill_and_put(ThreadCache& thread_cache,
                                               SmallRef ref,
                                               Position position) {
  thread_caches_.spill(thread_cache, ref.slab->size_class);
  return put(thread_cache, *ref.slab, ref.address(), position);
}

bool FastPath::put(ThreadCache& thread_cache, Block* block, Position position) {
  if (block == nullptr || block->size <= kSmallLimit || core_.shared.whole_blocks.on())
    return false;
  if (!block->marks.any()) [[likely]]
    return store<false>(thread_cache, block, position);
  return !(block->marks.kept() && holds(Rule::kept_blocks_take_the_long_way)) &&
         store<true>(thread_cache, block, position);
}

// Nothing was submitted since the block was handed out: so it has not been used. What it waited
// for then is all that its next owner has to wait for.
bool FastPath::free_unused(ThreadCache& thread_cache, const PageOwner& owner, Address address) {
  if (thread_cache.stream_state != nullptr || !core_.quick_ways_open() || free_waits())
    return false;
  // A kernel that runs may have got the block from the host. Such a free waits for it, but not
  // with free:never.
  if (core_.shared.config.free_mode == FreeMode::Never &&
      holds(Rule::free_never_leaves_no_block_unfenced))
    return false;
  if (handed_out_at(owner, address) != core_.timeline.submissions().submitted() &&
      holds(Rule::used_blocks_have_a_fence))
    return false;
  return owner.slab != nullptr ? put(thread_cache, *owner.slab, address, kAsBefore)
                               : put(thread_cache, owner.block, kAsBefore);
}

}  // namespace custash
