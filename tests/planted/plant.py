#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""plant.py FAULT SOURCE OUTPUT: copies a source file of the core with one fault planted in it.

The faults live here, not in the product: no switch, no hook. A text that is not found exactly once
is an error, so that a planted fault cannot be lost when the source changes: plant it anew then.
"""
import sys

# fault: [(what stands in the source, what is planted)]
FAULTS = {
    # A fence that counts a submission which comes after its record.
    "fence_before_last_submission": [(
        "fence.covers = submitted_.load();",
        "fence.covers = submitted_.load() + 1;",
    )],
    # The debt is paid with a fence recorded when memory is used again: it covers work launched since.
    "fence_at_reuse": [(
        "  const std::uint64_t debt = debt_.load();\n  Fence fence;\n",
        "  ensure(submitted_.load(), FenceKind::AtFree).ignore();\n"
        "  const std::uint64_t debt = submitted_.load();\n  Fence fence;\n",
    )],
    # A fence that another thread records in the gap is taken to cover work that it misses.
    "counted_before_the_driver_has_it": [(
        "  if (!lane.active.load()) activate(lane);\n  const std::uint64_t debt",
        "  if (!lane.active.load()) activate(lane);\n"
        "  atomic_max(lane.last, submitted_.fetch_add(1) + 1);\n  const std::uint64_t debt",
    ), (
        "const std::uint64_t number = submitted_.fetch_add(1) + 1;",
        "const std::uint64_t number = lane.last.load();",
    )],
    "debt_not_paid": [(
        "if (debt > clear() && debt > lane.paid.load() && debt_lane_.load() != &lane) pay(&lane);",
        "(void)debt;",
    )],
    # Stream order is taken to be the fence though a second stream works.
    "one_lane_kept": [(
        "if (active_.size() == 1) fence.lane = active_.front();",
        "if (!active_.empty()) fence.lane = active_.front();",
    )],
    # The event of a free on a stream is waited for with whatever it recorded before, or nothing.
    "wait_without_record": [(
        "  if (!record_after(lane, event)) return number;\n", "",
    )],
    # Pinned memory is taken to be safe at its free.
    "pinned_free_without_ticket": [(
        "const Status stamped = allocator_.take_host_ticket(leaving.pool->context, &ticket);\n"
        "  Lock lock(mutex_);\n  if (std::exchange",
        "const Status stamped;\n  Lock lock(mutex_);\n  if (std::exchange",
    )],
    # Work of other contexts with it is not waited for.
    "pinned_current_context_only": [(
        "if (DeviceCache* only = state_->only.load()) {",
        "if (false) {\n    DeviceCache* only = nullptr;",
    ), (
        "return state_->tickets.take(state_->timelines(), timeline, ticket);",
        "CUcontext now = nullptr;\n"
        "  driver_.ctx_get_current(&now);\n"
        "  DeviceCache* there = state_->known(now);\n"
        "  if (there == nullptr) return {};\n"
        "  Timeline* const one[] = {&there->timeline()};\n"
        "  return state_->tickets.take(one, timeline, ticket);",
    )],
    # A fence that has not passed is taken for one that has.
    "pinned_pending_fence_believed": [(
        "    status = driver_.event_query(event.handle());\n",
        "    status = driver_.event_query(event.handle());\n"
        "    if (status.code() == CUDA_ERROR_NOT_READY) status = {};\n",
    )],
    # Of several streams that were named for a buffer, one is enough.
    "pinned_one_stream_asked": [(
        "if (std::all_of(uses.streams.begin(), uses.streams.end(), Allocator::host_use_over))",
        "if (std::any_of(uses.streams.begin(), uses.streams.end(), Allocator::host_use_over))",
    )],
    # The quick free does not look whether anything runs.
    "pinned_quick_free_while_busy": [(
        "if (!inside(address) || !allocator_.idle()) return false;",
        "if (!inside(address)) return false;",
    )],
}


def main() -> int:
    fault, source, output = sys.argv[1:4]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    for old, new in FAULTS[fault]:
        found = text.count(old)
        if found != 1:
            print(f"plant.py: {fault}: this text stands {found} times in {source}, not once:\n{old}", file=sys.stderr)
            return 1
        text = text.replace(old, new)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
