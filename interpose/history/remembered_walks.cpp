// SPDX-License-Identifier: MIT
#include "interpose/history/remembered_walks.hpp"

namespace custash::stacks {
namespace {

Word read(const Word* slot) {
  return *const_cast<const volatile Word*>(slot);
}

}  // namespace

RememberedWalks::RememberedWalks() : nodes_(1), edges_(kFirstEdges) {
}

Word RememberedWalks::key_of(const void* frame, unsigned most) {
  return reinterpret_cast<Word>(frame) * 128 + most;
}

bool RememberedWalks::stands(const Walk& walk) {
  for (unsigned i = 1; i < walk.size; ++i)
    if (read(walk.slots[i]) != walk.words[i]) return false;
  return walk.size > 1;
}

// Of the edge, or of the free place for it.
std::size_t RememberedWalks::place_of(Number from, Word value) const {
  std::size_t place = (value + from * 0xd6e8feb86659fd93ULL) * 0x9fb21c651e98df25ULL >> 32U;
  place %= edges_.size();
  while (edges_[place].to != 0 && (edges_[place].from != from || edges_[place].value != value))
    place = (place + 1) % edges_.size();
  return place;
}

bool RememberedWalks::find(const void* frame, unsigned most, Walk* out) const {
  Number at = edges_[place_of(0, key_of(frame, most))].to;
  if (at == 0) return false;
  out->words[0] = first_;
  for (out->size = 1; !nodes_[at].last;) {
    Number next = 0;
    for (; at != 0 && next == 0; at = nodes_[at].other) {
      if (nodes_[at].slot == nullptr) return false;  // there was no host memory for the rest
      out->words[out->size] = read(nodes_[at].slot);
      next = edges_[place_of(at, out->words[out->size])].to;
    }
    if (next == 0) return false;
    ++out->size;
    at = next;
  }
  return true;
}

RememberedWalks::Number RememberedWalks::add_edge(Number from, Word value) {
  Edge& edge = edges_[place_of(from, value)];
  if (edge.to == 0) {
    nodes_.emplace_back();
    edge = {value, from, static_cast<Number>(nodes_.size() - 1)};
  }
  return edge.to;
}

// The node for that slot among those of one path; added where it is new.
RememberedWalks::Number RememberedWalks::node_with(Number first, const Word* slot) {
  if (nodes_[first].slot == nullptr) nodes_[first].slot = slot;
  Number at = first;
  while (nodes_[at].slot != slot && nodes_[at].other != 0)
    at = nodes_[at].other;
  if (nodes_[at].slot == slot) return at;
  nodes_.push_back({slot});
  return nodes_[at].other = static_cast<Number>(nodes_.size() - 1);
}

void RememberedWalks::keep(const void* frame, const Walk& walk) {
  if (!stands(walk)) return;
  make_room();
  first_ = walk.words[0];
  Number at = add_edge(0, key_of(frame, walk.most));
  for (unsigned i = 1; i < walk.size; ++i)
    at = add_edge(node_with(at, walk.slots[i]), walk.words[i]);
  nodes_[at].last = true;
}

// For one walk more, in a table that stays a quarter free.
void RememberedWalks::make_room() {
  const std::size_t wanted = nodes_.size() + 2UL * kMostWords;
  if (wanted <= edges_.size() / 4 * 3) return;
  const bool grows = edges_.size() < kMostEdges;
  std::vector<Edge> old(grows ? 2 * edges_.size() : kFirstEdges);
  old.swap(edges_);
  if (!grows) return nodes_.resize(1);
  for (const Edge& each : old)
    if (each.to != 0) edges_[place_of(each.from, each.value)] = each;
}

}  // namespace custash::stacks
