// SPDX-License-Identifier: MIT
// DeepTrim: returns all free memory to the driver, also that in pages of which a part is alive.
// Such pages are replaced by small ones at the same addresses, while the process is kept still.
// Thread safe; the state is the allocator's.
// decision 22
#pragma once

#include "allocator/memory/sleep_sums.hpp"
#include "allocator/sleep/sleep.hpp"

#include <string>

namespace custash {

struct DeepTrimAnswer {
  bool done = false;
  std::string text;  // what became of the memory, or why pages stay whole
  CutSums sums;
};

class DeepTrim {
 public:
  explicit DeepTrim(Allocator& core) : DeepTrim(core.state()) {}

  explicit DeepTrim(Allocator::State& state) : state_(state) {}

  // Pages that are wholly free are returned in any case.
  DeepTrimAnswer go(const SleepRequest& request);

  // From now on an allocation that would fail for memory cuts pages, if the option
  // deep_trim_after allows pages to change. Called once, at the start.
  void serve_requests();

 private:
  Allocator::State& state_;
};

}  // namespace custash
