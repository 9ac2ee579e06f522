// SPDX-License-Identifier: MIT
// ExportedBlocks: blocks that other processes or cards may reach. When such a block is freed,
// its pages leave this process once its work is over and nothing else lies in them; a process
// that has them open keeps the memory. Guarded by the lock of its ContextCache.
#pragma once

#include "allocator/heap/block_ref.hpp"

#include <map>
#include <unordered_map>
#include <vector>

namespace custash {

class ExportedBlocks {
 public:
  // Of a live block, or of one that waits for a graph.
  struct Export {
    std::uint64_t buffer_id = 0;
    unsigned users = 0;    // that have it open, and are not known to have closed it
    bool offered = false;  // a handle names it
  };

  // A freed block, or what is left of it in one page (plain memory: in one segment).
  struct Part {
    Block* block = nullptr;  // Busy
    Export of;
  };

  using Left = std::map<Address, std::vector<Part>>;  // by the page's or the segment's address

  // The live block's.
  Export& of(Address base, std::uint64_t buffer_id) {
    Export& found = live_[base];
    if (found.buffer_id != buffer_id) found = {.buffer_id = buffer_id};
    return found;
  }

  [[nodiscard]] const Export* find(Address base, std::uint64_t buffer_id) const {
    const auto found = live_.find(base);
    return found == live_.end() || found->second.buffer_id != buffer_id ? nullptr
                                                                        : &found->second;
  }

  // At a free: true where the block stays with those who have it open.
  bool park(const BlockRef& found);
  // One user has closed it. Returns the parts of freed blocks that no process has open any
  // more.
  std::vector<Block*> close(Address base, std::uint64_t buffer_id);

  // Descriptors of this block are being made; its pages stay. 0: of none.
  void hand_over(std::uint64_t buffer_id) { handed_over_ = buffer_id; }

  [[nodiscard]] bool handed_over(const std::vector<Part>& parts) const;

  [[nodiscard]] bool any() const { return !live_.empty(); }

  [[nodiscard]] bool is_open(Address base) const {
    const auto found = live_.find(base);
    return found != live_.end() && found->second.users != 0;
  }

  Left& left() { return left_; }

  // The live ones that somebody has open.
  [[nodiscard]] std::vector<Address> open() const {
    std::vector<Address> bases;
    for (const auto& [base, each] : live_)
      if (each.users != 0) bases.push_back(base);
    return bases;
  }

  void clear() {
    live_.clear();
    left_.clear();
  }

 private:
  std::unordered_map<Address, Export> live_;
  Left left_;
  std::uint64_t handed_over_ = 0;
};

}  // namespace custash
