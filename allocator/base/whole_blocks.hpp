// SPDX-License-Identifier: MIT
// WholeBlocks: whether each large block must lie in one physical allocation.
// nvidia_p2p_get_pages, by which network and storage cards pin device memory, takes no range
// over several. On for good once it is on. Owned by the registry; thread safe.
#pragma once

#include <atomic>

namespace custash {

class WholeBlocks {
 public:
  // Whether the process uses such a card.
  using Ask = bool();

  explicit WholeBlocks(bool on = false) : on_(on) {}

  // Asked now and then while it is off.
  void set_ask(Ask* ask) { ask_.store(ask); }

  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  bool check() {
    if (on()) return true;
    Ask* const ask = ask_.load(std::memory_order_relaxed);
    if (ask == nullptr || !ask()) return false;
    on_.store(true);
    return true;
  }

 private:
  // Order: none. Blocks that another thread gets meanwhile are earlier ones.
  std::atomic<bool> on_{false};
  std::atomic<Ask*> ask_{nullptr};
};

}  // namespace custash
