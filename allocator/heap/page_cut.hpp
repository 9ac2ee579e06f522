// SPDX-License-Identifier: MIT
// PageCut: a page that is replaced by small ones at the same addresses, where only part of it
// is alive. Made and ended by Arena under the lock of the ContextCache. Pure. decision 22
#pragma once

#include "allocator/heap/page.hpp"
#include "allocator/order/position.hpp"

#include <map>
#include <vector>

namespace custash {

struct Block;
struct Segment;

struct PageCut {
  // Bytes that somebody may still read, all of them in one part.
  struct Contents {
    Address address = 0;
    Bytes bytes = 0;
  };

  // A cut that leaves nothing out. `first`: the block in which the page begins.
  static PageCut whole(Block* first, const Page& page);

  Segment* segment = nullptr;
  Page page;                // the large one
  std::vector<Page> parts;  // what is alive of it, in multiples of kPageBytes
  std::vector<Contents> contents;
  std::vector<Block*> dead;  // Busy: what lies between the parts
  // The parts' places in the segment's table, made before anything changes: the end of a cut
  // may not fail.
  std::map<Address, Page> places;

  [[nodiscard]] Bytes alive() const {
    Bytes sum = 0;
    for (const Page& part : parts)
      sum += part.size;
    return sum;
  }

  [[nodiscard]] Bytes gain() const { return page.size - alive(); }
};

// What of the page is free, in whole pieces of kPageBytes.
Bytes dead_bytes(const Block* first, const Page& page, Position passed);

// Whether to cut a page with this many dead bytes. What is wholly dead a trim releases.
inline bool worth_cutting(Bytes dead, const Page& page) {
  constexpr Bytes kShare = 32;  // a share of the page
  return dead != 0 && dead != page.size && dead >= page.size / kShare;
}

}  // namespace custash
