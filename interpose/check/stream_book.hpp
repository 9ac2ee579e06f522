// SPDX-License-Identifier: MIT
// StreamBook: the blocks in use and the last that were freed, each with its last use on each
// stream. It says of a use or a free whether streams order it (docs/checking.md). Pure; its
// owner's lock guards it.
#pragma once

#include "interpose/check/guard_finding.hpp"
#include "interpose/check/parameter_words.hpp"
#include "interpose/check/stream_order.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace custash::streams {

// A wrong use: the finding's kind, the block, and the use.
struct Fault {
  guards::Kind kind = guards::Kind::FreeBesideUse;
  guards::Block block;
  guards::Work use;
};

class StreamBook {
 public:
  StreamOrder order;

  // `on`: the stream that the call named.
  void allocated(guards::Block block, std::optional<Chain> on);
  // `on` none: the free waits for all work.
  void freed(Address address,
             guards::Words by,
             std::optional<Chain> on,
             std::vector<Fault>* faults);
  // Blocks there are judged no more.
  void forget(Address address, Bytes bytes);
  // The free of the block comes after this stream, too.
  void named(Address address, Chain chain);
  // Whether another stream has allocated one of them: then the use's call site is kept, in case
  // a later free is found to be beside it.
  bool is_abroad(Chain chain, std::span<const Named> addresses);
  void used(Chain chain,
            const guards::Work& work,
            std::span<const Named> addresses,
            Naming naming,
            std::vector<Fault>* faults);

 private:
  static constexpr std::size_t kFreed = 4096;
  static constexpr std::size_t kUses = 16;

  struct Use {
    Place place;
    std::shared_ptr<const guards::Work> work;
  };

  struct Tracked {
    guards::Block block;
    std::optional<Place> born;   // on a stream
    std::optional<Chain> ended;  // freed on this one
    std::vector<Use> uses;
    std::vector<Chain> named;
  };

  using Blocks = std::map<Address, Tracked>;

  static void erase(Blocks& blocks, Address address, Bytes bytes);
  static Tracked* at(Blocks& blocks, Address address);
  Tracked* find(Address address);
  // `blocks`: those of the addresses, or null.
  static bool is_end(std::size_t index,
                     std::span<const Named> all,
                     std::span<Tracked* const> blocks);
  static bool are_on_two_devices(std::span<Tracked* const> blocks);
  // Null where the address is no block's, or is not to be believed to be one.
  Tracked* block_of(const char* kernel, const Named& named, Naming naming);
  void note(Tracked& tracked, Place place, const std::shared_ptr<const guards::Work>& work);
  void add(guards::Kind kind,
           const guards::Block& block,
           const guards::Work& use,
           std::vector<Fault>* faults);

  std::uint64_t number_ = 0;
  ParameterWords words_;
  bool has_born_ = false;  // a block was allocated on a stream
  Blocks living_;
  Blocks freed_;
  std::deque<std::pair<Address, std::uint64_t>> oldest_;  // of those freed, and their numbers
  std::set<std::pair<std::uint64_t, guards::Kind>> told_;
};

}  // namespace custash::streams
