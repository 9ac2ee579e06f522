// SPDX-License-Identifier: MIT
// HandleTable: the memory that the program makes by handles (cuMemCreate) and maps itself. The
// driver serves it; custash knows how much there is, and puts what nobody else knows to sleep.
// Memory that has slept comes back under another handle, so from then on the program's numbers
// are translated. State: a table behind its own lock, never held across a call.
#pragma once

#include "allocator/memory/mapped_memory.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <cuda.h>

namespace custash {

class HandleTable final : public MappedMemory {
 public:
  using Number = CUmemGenericAllocationHandle;

  struct Handle {
    Bytes bytes = 0;
    CUmemAllocationProp properties{};
    unsigned long long flags = 0;
    Number by_driver = 0;  // its number there
    std::uint32_t references = 1;
    std::uint32_t mappings = 0;
    bool stays = false;   // known outside of this process's addresses, or by several references
    bool counted = true;  // made by the program; else it comes from elsewhere, and the device
                          // is all that is known of its properties

    // A release of this reference is the end of the memory.
    [[nodiscard]] bool is_last() const { return references == 1 && mappings == 0; }
  };

  // The driver made it: the number by which the program will know it.
  Number made(Number by_driver,
              Bytes bytes,
              const CUmemAllocationProp& properties,
              unsigned long long flags) noexcept;
  // The same of one that comes from elsewhere, for this device; -1: it is no memory. The driver
  // may return one that the program has.
  Number obtained(Number by_driver, CUdevice device = -1) noexcept;
  // The driver's number for the program's, and the reverse. Others are the same, but for one
  // that the program has no more: the driver is to refuse it.
  Number by_driver(Number number) noexcept;
  Number of_program(Number by_driver) noexcept;

  // The memory behind a handle stays until its last reference and its last mapping are gone.
  void retained(Number number) noexcept;
  // Before the driver's call. If that fails, back() undoes it.
  std::optional<Handle> released(Number number) noexcept;
  void back(Number number, const Handle& as_before) noexcept;
  // Before the driver's call. True: if that fails, unmapped() undoes it.
  bool mapped(Address address, Bytes bytes, Bytes offset, Number number) noexcept;
  // A handle from elsewhere whose size is known from now on, since it is mapped as a whole.
  std::optional<Handle> sized(Number number, Bytes bytes) noexcept;
  // Before the driver's call: the mappings in the range, and the handles that ended by it. If
  // the call fails, back() undoes it.
  struct Unmapped;
  Unmapped unmapped(Address address, Bytes bytes) noexcept;
  void back(const Unmapped& as_before) noexcept;
  void accessed(Address address,
                Bytes bytes,
                const CUmemAccessDesc* access,
                std::size_t count) noexcept;
  // The access of a range may be any.
  void access_unknown(Address address, Bytes bytes) noexcept;

  // Before the driver's call, whatever comes of it: somebody else knows the memory.
  void stays(Number number) noexcept;
  void stays_at(Address address, Bytes bytes) noexcept;

  // The program may pass handles to a function that custash does not know.
  void all_stay() noexcept { all_stay_.store(true); }

  // The program has mapped memory at the address, or anywhere.
  bool is_mapped(Address address) noexcept;

  [[nodiscard]] bool any_mapped() const { return mapped_.load(); }

  // ---- MappedMemory.
  std::vector<MappedRange> may_leave(CUdevice device, SleepSums* sums) noexcept override;
  void set_handle(const MappedRange& range, Number by_driver) override;

  void reset_lock_after_fork() { mutex_.reset_after_fork(); }

 private:
  struct Mapping {
    Number number = 0;
    Bytes bytes = 0;
    bool whole = false;
    bool asleep = false;
    std::vector<CUmemAccessDesc> access;
  };

  [[nodiscard]] bool may_leave(const Mapping& mapping, const Handle& handle) const
      REQUIRES(mutex_);
  Number free_number(Number wanted) const REQUIRES(mutex_);
  // The driver's number of a handle from now on; 0: none, it sleeps or ends.
  void set_driver(Number number, Handle* handle, Number by_driver) REQUIRES(mutex_);
  // True: this was its end.
  bool change(Number number, int references, int mappings) REQUIRES(mutex_);
  void put(Number number, const Handle& handle) REQUIRES(mutex_);
  std::map<Address, Mapping>::iterator mapping_at(Address address) REQUIRES(mutex_);
  template <typename Visit>
  void each_mapping(Address address, Bytes bytes, Visit visit) REQUIRES(mutex_);

  RankedMutex mutex_{HookRank::Handles};
  std::map<Number, Handle> handles_ GUARDED_BY(mutex_);
  std::map<Address, Mapping> mappings_ GUARDED_BY(mutex_);
  std::map<Number, Number> by_driver_ GUARDED_BY(mutex_);  // the program's numbers
  // How many handles the driver does not know by the program's number. Order: none; a thread
  // that has a number of the program's got it from one that saw the count.
  std::atomic<std::size_t> strangers_{0};
  std::atomic<bool> mapped_{false};
  std::atomic<bool> all_stay_{false};
};

struct HandleTable::Unmapped {
  std::vector<std::pair<Address, Mapping>> mappings;
  std::vector<std::pair<Number, Handle>> ended;
};

// The process's. Never destroyed.
HandleTable& handle_table() noexcept;

}  // namespace custash
