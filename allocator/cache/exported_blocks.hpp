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

class Aliases;
struct PageReturn;

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

  [[nodiscard]] const Left& left() const { return left_; }

  // ---- Freed blocks that others have open: whether there are any, what they wait for, the
  // pages of them that the caller returns to the driver, and the bytes of these.
  [[nodiscard]] bool any_left() const { return !left_.empty(); }

  [[nodiscard]] Position left_until() const;
  std::vector<PageReturn> take_left(const Aliases& aliases, Position passed);
  [[nodiscard]] Bytes left_bytes(const Aliases& aliases, Position passed);
  // The same of plain memory: segments that hold nothing else.
  [[nodiscard]] bool has_plain_left() const;
  std::vector<Segment*> take_plain_left();

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
  template <typename Each>
  void for_pages_left(const Aliases& aliases, Position passed, Each each);

  std::unordered_map<Address, Export> live_;
  Left left_;
  std::uint64_t handed_over_ = 0;
};

}  // namespace custash
