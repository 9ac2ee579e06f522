// SPDX-License-Identifier: MIT
// PinnedSleep: the product's store of sleeping contents, with pinned memory that a second
// thread helps to make. It gives back what is left at its end, since the core never ends here.
#pragma once

#include "allocator/memory/host_store.hpp"
#include "pinned/sleep_store.hpp"
#include "tests/sim/sim.hpp"

#include <cstddef>
#include <map>
#include <string>

namespace custash {

class PinnedSleep final : public HostStore {
 public:
  explicit PinnedSleep(const Config& config)
      : config_(config), driver_(sim::make_driver()), store_(driver_, config_) {
    // Untouched pages would be made at the copy as well. Touching them only takes time.
    store_.set_pinned_calls({.touch = [](Address, Address) { return true; }});
  }

  ~PinnedSleep() override {
    store_.stop();
    for (const auto& [at, piece] : taken_)
      store_.give(nullptr, piece);
  }

  PinnedSleep(const PinnedSleep&) = delete;
  PinnedSleep& operator=(const PinnedSleep&) = delete;

  bool has_room(Bytes bytes, std::string* why) override { return store_.has_room(bytes, why); }

  bool take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) override {
    if (!store_.take(context, bytes, out, why)) return false;
    taken_[out->at] = *out;
    return true;
  }

  void give(CUcontext context, const HostPiece& piece) override {
    taken_.erase(piece.at);
    store_.give(context, piece);
  }

  Bytes keeps() override { return store_.keeps(); }

  void want(const HostPiece& piece) override { store_.want(piece); }

  bool make(std::string* why) override { return store_.make(why); }

  bool wait(const HostPiece& piece, std::string* why) override {
    return store_.wait(piece, why);
  }

  void stop() override { store_.stop(); }

 private:
  Config config_;
  Driver driver_;
  SleepStore store_;
  std::map<const std::byte*, HostPiece> taken_;
};

}  // namespace custash
