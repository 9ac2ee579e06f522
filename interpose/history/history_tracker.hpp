// SPDX-License-Identifier: MIT
// Tracker: writes the history into the ledger. Its own memory holds the indexes of the rows
// there. The book's lock guards it.
#pragma once

#include "interpose/history/ledger.hpp"
#include "interpose/history/ledger_book.hpp"
#include "interpose/history/mapped_pages.hpp"
#include "interpose/process/address_map.hpp"

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash::history {

// Rows of living blocks or segments, found by address. A freed row is used again.
template <typename Row>
class LivingRows {
 public:
  explicit LivingRows(ledger::Rows<Row>& rows) : rows_(rows) {}

  // False: there is no such row. Afterwards the address has none.
  bool remove(Address address, Row* out) {
    const std::uint32_t number = at_.remove(address);
    if (number == AddressMap::kNone) return false;
    Row& row = rows_[number];
    *out = row;
    std::atomic_ref(row.address).store(0, std::memory_order_release);
    free_.push_back(number);
    return true;
  }

  // A row gets its address last and loses it first, so a reader never sees half a row. Order:
  // the fence keeps the new content behind the address that remove() has removed.
  void add(const Row& row) {
    if (free_.empty()) {
      at_.add(row.address, static_cast<std::uint32_t>(rows_.size()));
      rows_.push_back(row);
      return;
    }
    at_.add(row.address, free_.back());
    Row& to = rows_[free_.back()];
    free_.pop_back();
    Row whole = row;
    whole.address = 0;
    std::atomic_thread_fence(std::memory_order_release);
    to = whole;
    std::atomic_ref(to.address).store(row.address, std::memory_order_release);
  }

 private:
  ledger::Rows<Row>& rows_;
  AddressMap at_;
  std::vector<std::uint32_t> free_;
};

class Tracker {
 public:
  explicit Tracker(ledger::Book& book);

  void start(std::size_t events, unsigned depth);
  void add_event(const Event& event);
  stacks::Id add_stack(const stacks::Stack& stack);

  void begin_life(Address address,
                  Bytes bytes,
                  stacks::Id stack,
                  std::uint16_t device,
                  observe::MemoryKind memory,
                  Nanoseconds now);
  // The block's site, or null where none is known to live there.
  const Site* end_life(Address address, Nanoseconds now, Bytes* bytes);

  // Adds the events of a driver call that made memory, moved it or released it.
  void change_segments(const Event& call, CUmemGenericAllocationHandle handle);

  [[nodiscard]] bool has_new_stacks() const { return described_ != book_.ends.size(); }

  // Addresses of code and lines of Python in new stacks: true where modules are to be read.
  bool describe_stacks();
  void add_modules(const std::vector<std::pair<ledger::ModuleRow, std::string>>& modules);

 private:
  // Fills in what the driver call does not state.
  void change_segment(Event event);
  std::uint32_t site_for(stacks::Id stack, std::uint16_t device, observe::MemoryKind memory);

  static constexpr std::size_t kMostStacks = std::size_t{1} << 18U;

  ledger::Book& book_;
  ledger::Header& head_;
  LivingRows<ledger::LiveRow> live_;
  LivingRows<ledger::SegmentRow> segments_;
  MappedPages mapped_;
  // By hash: of 64 bits, so that equal means the same.
  std::unordered_map<std::uint64_t, stacks::Id> stack_ids_;
  std::unordered_map<std::uint64_t, std::uint32_t> site_of_;  // stack, device and memory
  std::map<std::uint64_t, std::uint64_t> code_;               // known ranges: begin, end
  std::size_t described_ = 0;                                 // stacks
};

// The files whose code is mapped now, as the kernel lists them. This avoids the loader's lock,
// which another thread may hold while it waits for this one.
// Each file with its texts, to which the row's text places refer: the path, then the build id.
std::vector<std::pair<ledger::ModuleRow, std::string>> mapped_code();

}  // namespace custash::history
