// SPDX-License-Identifier: MIT
// PeerAccess: the contexts whose kernels reach this context's memory, the contexts whose memory
// its kernels reach, and the devices that may access its pages. A part of a ContextCache; the
// list of devices is guarded by its lock, and the rest is lock free. Proved:
// tests/models/unpaid.pml.
#pragma once

#include "allocator/cache/cache_lock.hpp"
#include "allocator/order/owners.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <cuda.h>

namespace custash {

class PeerAccess {
 public:
  // The devices that may access the pages, and how often the list has changed.
  struct Accessors {
    std::vector<CUdevice> devices;
    std::uint64_t changes = 0;
  };

  // Kernels or network cards reach this memory that wait for nothing which is owed. Order: a
  // thread that takes debt stores it, then loads this. PeerGrants stores this, then loads the
  // debt. One of them must see the other, so all four are seq_cst.
  [[nodiscard]] bool unpaid() const { return unpaid_.load(); }

  // The host may hand this memory to a kernel of a peer that already runs.
  [[nodiscard]] bool host_may_hand_over() const { return readers_.host_may_hand_over(); }

  Owners& owners() { return owners_; }

  // From now on kernels of `reader` reach the memory of `timeline`, for good. False: they do
  // not wait for what is owed. `seen`: custash sees their submissions.
  bool add_reader(PeerAccess& reader, Timeline& its_timeline, Timeline& timeline, bool seen) {
    const bool pays = seen && reader.owners_.add(timeline) && readers_.add(its_timeline);
    if (!pays) unpaid_.store(true);
    return pays;
  }

  // Network cards may reach this memory, for good. They wait for no stream.
  void let_cards_reach() {
    cards_.store(true);
    unpaid_.store(true);
  }

  [[nodiscard]] bool reached_by_cards() const { return cards_.load(); }

  // Engines work on this memory for the program, and custash does not see their work.
  void let_engines_reach() { engines_.store(true); }

  [[nodiscard]] bool reached_by_engines() const { return engines_.load(); }

  [[nodiscard]] bool reached_by(CUdevice device) const {
    return device < kLastBit && (reached_by_.load() & bit_of(device)) != 0;
  }

  // Every page has been mapped for the device.
  void set_reached_by(CUdevice device) { reached_by_.fetch_or(bit_of(device)); }

  void add_accessor(CUdevice device) REQUIRES(cache_lock) {
    std::erase(accessors_.devices, device);
    accessors_.devices.push_back(device);
    ++accessors_.changes;
  }

  [[nodiscard]] const Accessors& accessors() const REQUIRES(cache_lock) { return accessors_; }

 private:
  // The last bit stands for all devices from 63 on.
  static constexpr CUdevice kLastBit = 63;

  static std::uint64_t bit_of(CUdevice device) {
    return std::uint64_t{1} << static_cast<unsigned>(std::min(device, kLastBit));
  }

  Accessors accessors_ GUARDED_BY(cache_lock);
  std::atomic<std::uint64_t> reached_by_{0};  // a bit for each device of accessors_
  Owners owners_, readers_;  // whose memory its kernels reach; whose kernels reach its memory
  std::atomic<bool> unpaid_{false};
  std::atomic<bool> cards_{false}, engines_{false};
};

}  // namespace custash
