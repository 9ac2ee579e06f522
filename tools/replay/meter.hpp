// SPDX-License-Identifier: MIT
// Meter: a Driver in front of a Driver, which counts and times every call that the allocator
// makes and knows how many bytes it holds. One at a time in the process, as a table of plain
// functions has nowhere to keep a pointer. Thread safe.
#pragma once

#include "allocator/base/driver.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace custash::replay {

struct CallRow {
  std::string symbol;
  std::uint64_t calls = 0;
  Nanoseconds time = 0;
};

class Meter {
 public:
  explicit Meter(const Driver& real);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Outlives the meter, as allocators do, which are never destroyed; only without one does it
  // call past it.
  static const Driver& driver();

  // The program works for this time: the allocator's clock goes on, the device does not.
  static void pass_time(Nanoseconds time);

  [[nodiscard]] Bytes held() const { return held_.load(); }

  [[nodiscard]] Bytes peak() const { return peak_.load(); }

  // Mappings of a handle that had been mapped before, elsewhere.
  [[nodiscard]] std::uint64_t moves() const { return moves_.load(); }

  [[nodiscard]] Bytes moved_bytes() const { return moved_bytes_.load(); }

  // Mappings now of handles that are mapped elsewhere too: moves whose old place is not
  // unmapped yet.
  [[nodiscard]] std::uint64_t aliases() const { return aliases_.load(); }

  [[nodiscard]] std::vector<CallRow> rows() const;  // of calls made, the dearest first

  // Called by the table's functions.
  struct CallTime {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<Nanoseconds> time{0};
  };

  CallTime& call_time(int call) { return call_times_[static_cast<std::size_t>(call)]; }

  void allocated(Address address, Bytes bytes);
  void freed(Address address);
  void created(CUmemGenericAllocationHandle handle, Bytes bytes);
  void released(CUmemGenericAllocationHandle handle);
  void mapped(Address address, CUmemGenericAllocationHandle handle);
  void unmapped(Address address, Bytes bytes);

 private:
  struct Handle {
    Bytes bytes = 0;
    int mappings = 0;
    bool referenced = true;
    bool was_mapped = false;
  };

  using Handles = std::unordered_map<std::uint64_t, Handle>;  // by a number of our own

  void hold(Bytes bytes);
  void drop_unused(Handles::iterator it);

  std::vector<CallTime> call_times_;
  std::atomic<Bytes> held_{0};
  std::atomic<Bytes> peak_{0};
  std::atomic<std::uint64_t> moves_{0};
  std::atomic<Bytes> moved_bytes_{0};
  std::atomic<std::uint64_t> aliases_{0};
  std::mutex mutex_;  // guards what follows
  std::uint64_t next_ = 0;
  Handles handles_;
  // The driver may give a released handle's value out again while its memory is still mapped.
  std::unordered_map<CUmemGenericAllocationHandle, std::uint64_t> numbers_;
  std::map<Address, std::uint64_t> mappings_;
  std::unordered_map<Address, Bytes> blocks_;
};

}  // namespace custash::replay
