// SPDX-License-Identifier: MIT
// SleepSums: what became of the memory when the process went to sleep, in bytes. Pure.
#pragma once

#include "allocator/base/units.hpp"

namespace custash {

struct SleepSums {
  Bytes asleep = 0;   // pages that went back to the driver
  Bytes saved = 0;    // of these, contents that are in host memory or in a file
  Bytes in_file = 0;  // of these, contents that are in a file
  // What stays awake:
  Bytes plain = 0;       // segments of cuMemAlloc: their addresses cannot be kept
  Bytes exported = 0;    // other processes or other interfaces have it open
  Bytes registered = 0;  // SYNC_MEMOPS: a network card may reach it
  Bytes refused = 0;     // on its way elsewhere, or the driver refused to take it back

  SleepSums& operator+=(const SleepSums& other) {
    asleep += other.asleep;
    saved += other.saved;
    in_file += other.in_file;
    plain += other.plain;
    exported += other.exported;
    registered += other.registered;
    refused += other.refused;
    return *this;
  }

  [[nodiscard]] Bytes awake() const { return plain + exported + registered + refused; }
};

}  // namespace custash
