// SPDX-License-Identifier: MIT
// RememberedWalks: walks up the stack, to be recognised. The unwinder reads tables for each
// frame, some microseconds in all, and programs repeat their call paths. A walk that begins at
// the same frame gives the same result as long as each return address is still where it was.
// Walks are kept as a tree: a node says where the next return address lies, and an edge its
// value. They are compared from the innermost on, so nothing beyond the end of the stack is
// read. Pure; its owner sees to it that one thread uses it at a time.
#pragma once

#include "interpose/history/stacks.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace custash::stacks {

inline constexpr unsigned kOwnFrames = 16;  // between a hook and capture()
inline constexpr unsigned kMostWords = kMostDepth + kOwnFrames;

// [0] is an address in capture() itself.
struct Walk {
  std::array<Word, kMostWords> words;
  std::array<const Word*, kMostWords> slots;  // where on the stack each of them is
  unsigned size = 0;
  unsigned most = 0;
};

class RememberedWalks {
 public:
  RememberedWalks();

  // Sets the words and the size of `out`. False: there is none, or it is not so any more.
  bool find(const void* frame, unsigned most, Walk* out) const;
  // Only where the stack has return addresses where x86-64 has them.
  void keep(const void* frame, const Walk& walk);

 private:
  using Number = std::uint32_t;  // of a node; 0: the root, and none

  static constexpr std::size_t kFirstEdges = 1U << 10U;
  static constexpr std::size_t kMostEdges = 1U << 17U;  // with more, it forgets all

  struct Node {
    const Word* slot = nullptr;  // of the next return address
    Number other = 0;            // the same path so far, and another slot
    bool last = false;           // the walk ends here
  };

  // Open addressing; `to` 0: free.
  struct Edge {
    Word value = 0;
    Number from = 0;
    Number to = 0;
  };

  static Word key_of(const void* frame, unsigned most);
  static bool stands(const Walk& walk);
  [[nodiscard]] std::size_t place_of(Number from, Word value) const;
  Number add_edge(Number from, Word value);
  Number node_with(Number first, const Word* slot);
  void make_room();

  Word first_ = 0;  // all walks begin so
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace custash::stacks
