// SPDX-License-Identifier: MIT
#include "allocator/sleep/page_cutter.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <utility>

namespace custash {

// visit(arena, first block, page, dead bytes) for the pages that are worth it.
template <typename Visit>
void PageCutter::each_page(Visit visit) {
  staying_.refresh();
  const Position passed = fences_.passed();
  for (const auto& pool : core_.pools) {
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->segments()) {
        Block* block = segment->first;
        for (const auto& [address, page] : segment->pages) {
          while (block != nullptr && block->end() <= address)
            block = block->next;
          if (block == nullptr || page.sleep != PageSleep::Awake) continue;
          const Bytes dead = dead_bytes(block, page, passed);
          if (worth_cutting(dead, page)) visit(*arena, block, page, dead);
        }
      }
    }
  }
}

Bytes PageCutter::gain() {
  CacheLock lock(core_.mutex);
  Bytes sum = 0;
  each_page([&](Arena&, Block*, const Page& page, Bytes dead) REQUIRES(cache_lock) {
    if (staying_.reason(page) == nullptr) sum += dead;
  });
  return sum;
}

void PageCutter::choose(CutSums* sums) {
  CUSTASH_ASSERT(chosen_.empty());
  CacheLock lock(core_.mutex);
  const Position passed = fences_.passed();
  each_page([&](Arena& arena, Block* block, const Page& page, Bytes) REQUIRES(cache_lock) {
    if (const auto reason = staying_.reason(page); reason != nullptr) {
      sums->stays.*reason += page.size;
      return;
    }
    chosen_.emplace_back();
    chosen_.back() = arena.open_cut(block, page, passed);
    chosen_.back().segment->pages.at(page.address).sleep = PageSleep::Busy;
  });
  std::sort(chosen_.begin(), chosen_.end(), [](const PageCut& a, const PageCut& b) {
    return a.alive() < b.alive();
  });
}

void PageCutter::cancel() {
  CacheLock lock(core_.mutex);
  for (const PageCut& cut : chosen_) {
    if (cut.segment == nullptr) continue;  // the host had no memory for it
    cut.segment->pages.at(cut.page.address).sleep = PageSleep::Awake;
    cut.segment->arena->abandon_cut(cut, fences_.passed());
  }
  chosen_.clear();
}

bool PageCutter::cut_next(CutSums* sums) {
  if (chosen_.empty()) return false;
  broken_.reserve(broken_.size() + 1);  // before anything changes
  PageReplacement page(core_, segments_, stream_, std::move(chosen_.front()));
  chosen_.pop_front();
  const PageCut& cut = page.cut();
  const RelaxedCapture relaxed(core_.shared.driver);
  Quota::Call call{Quota::Call::Later{}};
  const bool allowed = core_.shared.budget.take(cut.alive(), &call);
  const bool done = allowed && page.run();
  core_.headroom.forget();
  if (done) {
    core_.shared.budget.give(cut.page.size);
    sums->given += cut.gain();
    for (const PageCut::Contents& each : cut.contents)
      sums->copied += each.bytes;
    return true;
  }
  sums->stays.refused += cut.page.size;
  if (!page.restore()) {
    sums->unmapped += cut.page.size;
    unmapped_.fetch_add(cut.page.size);
    broken_.push_back(std::move(page));
  } else if (allowed) {
    core_.shared.budget.give(cut.alive());
  }
  return true;
}

Status PageCutter::mend() {
  const RelaxedCapture relaxed(core_.shared.driver);
  const Quota::Call call;
  for (; !broken_.empty(); broken_.pop_back()) {
    PageReplacement& page = broken_.back();
    if (!page.restore()) return CUDA_ERROR_OUT_OF_MEMORY;
    core_.shared.budget.give(page.cut().alive());
    unmapped_.fetch_sub(page.cut().page.size);
  }
  return {};
}

std::vector<Page> PageCutter::abandon() {
  std::vector<Page> mapped;
  for (PageReplacement& page : broken_) {
    core_.shared.budget.give(page.cut().alive());
    page.abandon(&mapped);
  }
  broken_.clear();
  unmapped_.store(0);
  return mapped;
}

}  // namespace custash
