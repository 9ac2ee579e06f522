// SPDX-License-Identifier: MIT
// Work: kernels, copies, fills, host functions, what the host reads.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

Use Generator::part_of(const BlockModel& block, bool write) {
  Use use{.block = block.id, .offset = 0, .bytes = block.bytes, .write = write};
  if (block.bytes >= 1024 && chance(30)) {
    use.bytes = block.bytes / 4;
    use.offset = static_cast<Bytes>(pick(0, 3)) * use.bytes;
  }
  return use;
}

std::vector<Use> Generator::choose_uses(int context) {
  auto of = in_reach(context);
  std::vector<Use> uses;
  for (int n = pick(1, 3); n > 0 && !of.empty(); --n) {
    // Mostly what was allocated last: that is what programs do.
    const std::size_t at =
        chance(60) ? of.size() - 1
                   : static_cast<std::size_t>(pick(0, static_cast<int>(of.size()) - 1));
    uses.push_back(part_of(*of[at], chance(70)));
    of.erase(of.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return uses;
}

// Uses that cannot be put in order now are left out.
void Generator::order_uses(int lane, std::vector<Use>& uses) {
  std::erase_if(uses, [&](const Use& use) {
    return !can_put_in_order(lane, by_id(use.block).uses, use.write);
  });
  for (const Use& use : uses)
    put_in_order(lane, by_id(use.block).uses, use.write);
}

void Generator::note_uses(int lane, int number, const std::vector<Use>& uses, bool several) {
  for (const Use& use : uses)
    by_id(use.block).uses.push_back({lane, number, use.write, several});
}

void Generator::kernel() {
  const int lane = choose_lane();
  if (lane < 0) return;
  kernel_on(lane, choose_uses(context_), chance(60));
}

void Generator::kernel_on(int lane, std::vector<Use> uses, bool may_be_early) {
  const Clock begins = order_.before_early(lane, thread_);
  const bool early =
      style_.early && may_be_early && order_.lane(lane).stream >= kFirstStream &&
      std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
        return Order::unordered(by_id(use.block).uses, begins, use.write).empty();
      });
  if (!early) order_uses(lane, uses);
  note_uses(lane, order_.submit_kernel(lane, thread_, early), uses);
  Command& c = put(Op::Kernel, lane);
  c.uses = std::move(uses);
  c.flags = early ? 1 : 0;
}

// The first spins until the second runs; between them the program allocates.
void Generator::mutual() {
  int first = 0;
  int second = 0;
  if (!choose_two(&first, &second)) return;
  std::vector<Use> a = choose_uses(context_);
  std::vector<Use> b = choose_uses(context_);
  std::erase_if(b, [&](const Use& use) {
    return std::any_of(
        a.begin(), a.end(), [&](const Use& other) { return other.block == use.block; });
  });
  order_uses(first, a);
  order_uses(second, b);
  const int flag = next_flag_++;
  note_uses(first, order_.submit_kernel(first, thread_, false), a);
  Command& c = put(Op::Kernel, first);
  c.uses = std::move(a);
  c.needs = flag;
  for (int n = pick(0, 3); n > 0; --n) {
    if (style_.stream_ordered && !style_.legacy && chance(20)) {
      malloc_async();
    } else {
      if (malloc_plain() && chance(60)) b.push_back(part_of(blocks_.back(), true));
    }
  }
  order_uses(second, b);
  note_uses(second, order_.submit_kernel(second, thread_, false), b);
  Command& d = put(Op::Kernel, second);
  d.uses = std::move(b);
  d.sets = flag;
}

// Another thread frees while this one's launch is on its way into the driver; then what was
// launched on is freed and used again.
void Generator::overtaken() {
  auto mine_now = live(context_);
  const int lane = choose_lane();
  if (lane < 0 || mine_now.empty() || capture_.lane >= 0) return;
  BlockModel& block = *any(mine_now);
  std::vector<Use> uses{part_of(block, true)};
  order_uses(lane, uses);
  note_uses(lane, order_.submit_kernel(lane, thread_, false), uses);
  Command& launch = put(Op::Kernel, lane);
  launch.uses = uses;
  launch.entry = pick(1, 2);
  launch.nested = 1;
  const int self = std::exchange(thread_, (thread_ + 1) % style_.threads);
  auto theirs = live(context_);
  if (!theirs.empty()) free_plain(*any(theirs));
  thread_ = self;
  free_plain(block);
  const bool made = malloc_plain();
  const int other = choose_lane();
  if (other < 0 || !made) return;
  const std::vector<Use> again{part_of(blocks_.back(), true)};
  note_uses(other, order_.submit_kernel(other, thread_, false), again);
  put(Op::Kernel, other).uses = again;
}

void Generator::fill() {
  auto of = live(context_);
  const int lane = choose_lane();
  if (lane < 0 || of.empty()) return;
  BlockModel& block = *any(of);
  if (!can_put_in_order(lane, block.uses, true)) return;
  put_in_order(lane, block.uses, true);
  block.uses.push_back({lane, order_.submit(lane, thread_), true});
  put(Op::Memset, lane).block = block.id;
}

void Generator::copy_block() {
  const bool cross = style_.cross && contexts_.size() > 1 && capture_.lane < 0 && chance(40);
  auto to = live(context_);
  auto from = live(context_, cross);
  const int lane = choose_lane();
  if (lane < 0 || to.empty() || from.empty()) return;
  copy_on(lane, *any(to), *any(from));
}

void Generator::copy_on(int lane, BlockModel& target, BlockModel& source) {
  if (&target == &source || !can_put_in_order(lane, source.uses, false) ||
      !can_put_in_order(lane, target.uses, true))
    return;
  put_in_order(lane, source.uses, false);
  put_in_order(lane, target.uses, true);
  const int number = order_.submit(lane, thread_);
  target.uses.push_back({lane, number, true});
  source.uses.push_back({lane, number, false});
  Command& c = put(Op::CopyBlock, lane);
  c.block = target.id;
  c.other = source.id;
  c.bytes = std::min(target.bytes, source.bytes);
  c.flags = chance(40) ? 1 : 0;
}

// `op`: to the host or from it.
void Generator::copy_with_host(Op op) {
  const bool to_host = op == Op::CopyToHost;
  auto of = live(context_);
  const int lane = choose_lane();
  if (lane < 0 || of.empty()) return;
  BlockModel& block = *any(of);
  const int buffer = style_.synced ? pick(0, kHostBuffers - 1) : thread_ % kHostBuffers;
  auto& host = host_buffers_[static_cast<std::size_t>(buffer)];
  if (!can_put_in_order(lane, block.uses, !to_host) || !can_put_in_order(lane, host, to_host))
    return;
  put_in_order(lane, block.uses, !to_host);
  put_in_order(lane, host, to_host);
  const int number = order_.submit(lane, thread_);
  block.uses.push_back({lane, number, !to_host});
  if (to_host) host.clear();
  host.push_back({lane, number, to_host});
  Command& c = put(op, lane);
  c.block = block.id;
  c.other = buffer;
  if (!to_host) return;
  show_host(lane);
  if (!chance(60)) return;
  // The result is read right after the source has been freed.
  if (chance(80)) free_plain(block);
  host_read(buffer);
}

void Generator::host_read(int buffer) {
  if (host_waits_for_all(host_buffers_[static_cast<std::size_t>(buffer)], false))
    put(Op::HostRead).other = buffer;
}

void Generator::host_function() {
  const int lane = choose_lane();
  if (lane < 0) return;
  put(Op::HostFunction, lane);
  order_.submit(lane, thread_);
  show_host(lane);
}

}  // namespace custash::property
