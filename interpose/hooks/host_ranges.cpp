// SPDX-License-Identifier: MIT
#include "interpose/hooks/host_ranges.hpp"

#include "interpose/process/ranked_mutex.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace custash::host_ranges {
namespace {

// The edges in rising order: begin, end, begin, end. An array that became too small is kept,
// because a reader may still use it. All those together are no larger than the newest.
struct Edges {
  explicit Edges(std::size_t size) : room(size), at(new std::atomic<Address>[size]()) {}

  const std::size_t room;
  std::atomic<Address>* const at;
};

constinit RankedMutex mutex{HookRank::HostRanges};
// Odd while the edges are written. Order: a fence keeps the edges' relaxed stores behind the
// odd version, and the even one is released. A reader acquires it, and has a fence before its
// second look.
constinit std::atomic<std::uint64_t> version{0};
constinit std::atomic<const Edges*> edges{nullptr};
constinit std::atomic<std::size_t> edge_count{0};
// A range could not be noted, so no reading is reliable any more.
constinit std::atomic<bool> lost{false};

Address edge(std::size_t i) {
  return edges.load()->at[i].load(std::memory_order_relaxed);
}

void set_edge(std::size_t i, Address address) REQUIRES(mutex) {
  edges.load()->at[i].store(address, std::memory_order_relaxed);
}

// The number of the first edge behind this address; odd where a range holds the address.
std::size_t first_behind(const std::atomic<Address>* at, std::size_t count, Address address) {
  std::size_t from = 0;
  for (std::size_t left = count; left != 0;) {
    const std::size_t half = left / 2;
    if (at[from + half].load(std::memory_order_relaxed) <= address) {
      from += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return from;
}

std::size_t first_behind(Address address) REQUIRES(mutex) {
  const Edges* const now = edges.load();
  return now == nullptr ? 0 : first_behind(now->at, edge_count.load(), address);
}

void make_room(std::size_t count) REQUIRES(mutex) {
  constexpr std::size_t kFirst = 64;
  const Edges* const now = edges.load();
  if (now != nullptr && now->room >= count) return;
  const auto* const larger = new Edges(std::max(kFirst, 2 * count));
  for (std::size_t i = 0; i < edge_count.load(); ++i)
    larger->at[i].store(edge(i), std::memory_order_relaxed);
  edges.store(larger);
}

// Moves the edges from `from` on to `to`.
void move_edges(std::size_t from, std::size_t to) REQUIRES(mutex) {
  const std::size_t count = edge_count.load();
  if (to < from) {
    for (std::size_t i = from; i < count; ++i)
      set_edge(to + i - from, edge(i));
  } else {
    for (std::size_t i = count; i-- > from;)
      set_edge(to + i - from, edge(i));
  }
  edge_count.store(count + to - from);
}

// A scope around each change of the edges: readers see that they changed.
class Change {
 public:
  Change() {
    version.fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  ~Change() { version.fetch_add(1); }

  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
};

constexpr std::size_t kTogether = 16;

Address of(const void* begin) {
  return reinterpret_cast<Address>(begin);
}

Address word_at(const unsigned char* place) {
  Address word = 0;
  std::memcpy(&word, place, sizeof word);
  return word;
}

constinit Driver before{};

CUresult CUDAAPI host_alloc(void** out, std::size_t bytes, unsigned flags) {
  const CUresult result = before.mem_host_alloc(out, bytes, flags);
  if (result == CUDA_SUCCESS) add(*out, bytes);
  return result;
}

CUresult CUDAAPI host_register(void* begin, std::size_t bytes, unsigned flags) {
  const CUresult result = before.mem_host_register(begin, bytes, flags);
  if (result == CUDA_SUCCESS) add(begin, bytes);
  return result;
}

// In place of the driver's two calls that release a range.
template <auto call>
CUresult CUDAAPI let_go(void* begin) {
  Bytes size = 0;
  const bool known = remove(begin, &size);
  const CUresult result = (before.*call)(begin);
  if (known && result != CUDA_SUCCESS) add(begin, size);
  return result;
}

}  // namespace

void reset_lock_after_fork() noexcept {
  mutex.reset_after_fork();
}

void add(const void* begin, Bytes size) noexcept {
  if (begin == nullptr || size == 0) return;
  const RankedLock lock(mutex);
  try {
    make_room(edge_count.load() + 2);
    // Older ranges that this one overlaps ended with their context, which no call reported.
    const std::size_t first = first_behind(of(begin)) / 2 * 2;
    std::size_t last = first;
    while (last < edge_count.load() && edge(last) < of(begin) + size)
      last += 2;
    const Change change;
    move_edges(last, first + 2);
    set_edge(first, of(begin));
    set_edge(first + 1, of(begin) + size);
  } catch (...) {
    lost.store(true);
  }
}

bool remove(const void* begin, Bytes* size) noexcept {
  const RankedLock lock(mutex);
  const std::size_t behind = first_behind(of(begin));
  if (behind % 2 == 0 || edge(behind - 1) != of(begin)) return false;
  *size = edge(behind) - of(begin);
  const Change change;
  move_edges(behind + 1, behind - 1);
  return true;
}

void follow(Driver* driver) {
  before = *driver;
  driver->mem_host_alloc = host_alloc;
  driver->mem_host_register = host_register;
  driver->mem_free_host = let_go<&Driver::mem_free_host>;
  driver->mem_host_unregister = let_go<&Driver::mem_host_unregister>;
}

bool none() noexcept {
  return edge_count.load(std::memory_order_relaxed) == 0 &&
         !lost.load(std::memory_order_relaxed);
}

Reader::Reader() noexcept : version_(version.load(std::memory_order_acquire)) {
  const Edges* const now = edges.load(std::memory_order_acquire);
  if (now == nullptr) return;
  edges_ = now->at;
  // The count may be newer than the array. changed() then says so.
  count_ = std::min(edge_count.load(std::memory_order_relaxed), now->room);
  if (count_ == 0) return;
  lowest_ = edges_[0].load(std::memory_order_relaxed);
  span_ = edges_[count_ - 1].load(std::memory_order_relaxed) - lowest_;
}

bool Reader::holds(Address address) noexcept {
  return address - lowest_ < span_ && address - gap_ >= gap_span_ && inside(address);
}

// Checks the upper halves of kTogether words, without a branch, so that compilers vectorise it.
bool Reader::may_find(const unsigned char* words) const noexcept {
  static_assert(std::endian::native == std::endian::little);
  const auto low = static_cast<std::uint32_t>(lowest_ >> 32U);
  const auto span = static_cast<std::uint32_t>(((lowest_ + span_) >> 32U) - low);
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < kTogether; ++i) {
    std::uint32_t upper = 0;
    std::memcpy(&upper, words + i * sizeof(Address) + sizeof upper, sizeof upper);
    any |= upper - low <= span ? 1U : 0U;
  }
  return any != 0;
}

bool Reader::finds(const unsigned char* words, std::size_t count) noexcept {
  for (std::size_t left = count; left != 0;) {
    const std::size_t now = std::min(left, kTogether);
    const unsigned char* const end = words + now * sizeof(Address);
    if (now < kTogether || may_find(words)) {
      for (const unsigned char* at = words; at != end; at += sizeof(Address))
        if (holds(word_at(at))) return true;
    }
    words = end;
    left -= now;
  }
  return false;
}

bool Reader::finds_at(void* const* places, std::size_t count, std::size_t skip) noexcept {
  static constexpr unsigned char kNothing[sizeof(Address)] = {};
  const Address lowest = lowest_;
  const Bytes span = span_;
  const auto word_of = [skip](const void* place) {
    return word_at(place == nullptr ? kNothing
                                    : static_cast<const unsigned char*>(place) + skip);
  };
  unsigned any = 0;  // first without a branch
  for (std::size_t i = 0; i < count; ++i)
    any |= word_of(places[i]) - lowest < span ? 1U : 0U;
  return any != 0 && std::any_of(places, places + count, [&](const void* place) {
           return holds(word_of(place));
         });
}

bool Reader::inside(Address address) noexcept {
  const std::size_t from = first_behind(edges_, count_, address);
  if (from % 2 != 0) return true;
  if (from == 0 || from == count_) return false;  // the edges have just changed
  gap_ = edges_[from - 1].load(std::memory_order_relaxed);
  gap_span_ = edges_[from].load(std::memory_order_relaxed) - gap_;
  return false;
}

bool Reader::changed() const noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
  return version_ % 2 != 0 || version.load(std::memory_order_relaxed) != version_ ||
         lost.load(std::memory_order_relaxed);
}

}  // namespace custash::host_ranges
