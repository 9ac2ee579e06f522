// SPDX-License-Identifier: MIT
// Random traffic at a pool of pinned blocks, beside a model that knows only which bytes are
// whose.
#include "pinned/host_pool.hpp"
#include "tests/catch.hpp"

#include <cstdlib>
#include <map>
#include <random>

using namespace custash;

namespace {

std::uint64_t seed() {
  const char* text = std::getenv("CUSTASH_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

class Model {
 public:
  Model(HostSizes sizes, std::uint64_t seed) : random_(seed), sizes_(sizes) {}

  void step() {
    const auto dice = pick(100);
    if (dice < 45) {
      take();
    } else if (dice < 85) {
      put_in_limbo();
    } else if (dice < 93) {
      passed_ += pick(3);
      passed_ = std::min(passed_, last_);
    } else if (dice < 97) {
      pool_.drain(passed_, 0);
      Bytes in_limbo = 0;
      pool_.each_in_limbo([&](const Block& block) { in_limbo += block.size; });
      CHECK(in_limbo == limbo_bytes());
    } else {
      give_back();
    }
    check();
  }

  void finish() {
    while (!used_.empty())
      put_in_limbo();
    passed_ = last_;
    give_back();
    check();
    CHECK(segments_.empty());
    CHECK(stats_.active_bytes.current == 0);
    CHECK(stats_.active_requests.current == 0);
  }

 private:
  struct InLimbo {
    Bytes size;
    std::uint64_t ticket;
  };

  std::uint64_t pick(std::uint64_t of) { return random_() % of; }

  Bytes size() {
    static constexpr Bytes kFew[] = {512, 1024, 3072};
    if (sizes_ == HostSizes::Fine) return kFew[pick(3)];
    const Bytes most = sizes_ == HostSizes::Small ? 1_MiB : 5_MiB;
    const Bytes least = sizes_ == HostSizes::Small ? 3585 : 1_MiB + 1;
    // Some sizes come again and again.
    return HostRequest::rounded(pick(2) == 0 ? least + pick(4) * 100'000
                                             : least + pick(most - least));
  }

  void take() {
    const Bytes bytes = size();
    Block* block = pool_.take_recent(bytes, passed_);
    if (block != nullptr) CHECK(block->size == bytes);
    if (block == nullptr) block = pool_.take_merged(bytes, passed_, 0);
    if (block == nullptr) {
      const Bytes segment = align_up(std::max<Bytes>(bytes, 2_MiB), 2_MiB);
      block = pool_.take_first(pool_.add({next_, segment, HostOrigin::Driver}), bytes);
      segments_[next_] = segment;
      next_ += segment + 4_KiB * pick(2);  // neighbours, sometimes
    }
    REQUIRE(block != nullptr);
    CHECK(block->state == BlockState::Used);
    CHECK(block->size >= bytes);
    CHECK(block->address % (sizes_ == HostSizes::Fine ? 512 : 4_KiB) == 0);
    const auto after = used_.lower_bound(block->address);
    if (after != used_.end()) CHECK(after->first >= block->address + block->size);
    if (after != used_.begin()) {
      const auto before = std::prev(after);
      CHECK(before->first + before->second->size <= block->address);
    }
    // What has not passed is nobody's.
    for (const auto& [base, freed] : limbo_) {
      if (freed.ticket > passed_)
        CHECK((base + freed.size <= block->address || block->address + block->size <= base));
    }
    std::erase_if(limbo_, [&](const auto& entry) {
      return entry.first >= block->address && entry.first < block->address + block->size;
    });
    block->requested = bytes;
    used_[block->address] = block;
    stats_.requested_bytes.increase(static_cast<std::int64_t>(bytes));
  }

  void put_in_limbo() {
    if (used_.empty()) return;
    auto it = std::next(used_.begin(), static_cast<std::ptrdiff_t>(pick(used_.size())));
    const std::uint64_t ticket = pick(3) == 0 ? 0 : (last_ += pick(2), last_);
    limbo_[it->first] = {it->second->size, ticket};
    pool_.put_in_limbo(it->second, ticket);
    used_.erase(it);
  }

  void give_back() {
    pool_.drain(passed_, 0);
    std::vector<HostMemoryRange> out;
    Bytes most = ~0ULL;
    pool_.take_free_segments(~0ULL, &out, &most);
    for (const HostMemoryRange& range : out) {
      CHECK(segments_.at(range.base) == range.size);
      const auto first = used_.lower_bound(range.base);
      CHECK((first == used_.end() || first->first >= range.base + range.size));
      for (const auto& [base, freed] : limbo_) {
        if (base >= range.base && base < range.base + range.size)
          CHECK(freed.ticket <= passed_);
      }
      segments_.erase(range.base);
    }
  }

  Bytes limbo_bytes() const {
    Bytes sum = 0;
    for (const auto& [base, freed] : limbo_)
      sum += freed.ticket > passed_ ? freed.size : 0;
    return sum;
  }

  void check() {
    CHECK(pool_.validate());
    CHECK(stats_.in_use.current == static_cast<std::int64_t>(used_.size()));
    std::int64_t bytes = 0;
    for (const auto& [base, block] : used_)
      bytes += static_cast<std::int64_t>(block->size);
    CHECK(stats_.in_use_bytes.current == bytes);
    CHECK(stats_.active_bytes.current >= bytes);
    CHECK(stats_.requested_bytes.current <= bytes);
  }

  std::mt19937_64 random_;
  const HostSizes sizes_;
  HostStats stats_;
  HostBlocks blocks_;
  HostPool pool_{HostRequest(nullptr, size(), 0), stats_, blocks_};
  Address next_ = 1_GiB;
  std::uint64_t last_ = 0;
  std::uint64_t passed_ = 0;
  std::map<Address, Block*> used_;
  std::map<Address, InLimbo> limbo_;
  std::map<Address, Bytes> segments_;
};

}  // namespace

TEST_CASE("random traffic at a pool", "[host_pool_model]") {
  const HostSizes sizes = GENERATE(HostSizes::Fine, HostSizes::Small, HostSizes::Large);
  for (std::uint64_t at = seed(); at < seed() + 40; ++at) {
    INFO("CUSTASH_SEED=" << at);
    Model model(sizes, at);
    for (int i = 0; i < 250; ++i)
      model.step();
    model.finish();
  }
}
