// SPDX-License-Identifier: MIT
// CutSums: what became of the pages that a deep trim looked at, in bytes. Pure.
#pragma once

#include "allocator/memory/sleep_sums.hpp"

namespace custash {

struct CutSums {
  Bytes trimmed = 0;   // of pages that were wholly free: went back to the driver
  Bytes given = 0;     // of pages that were cut: went back to the driver
  Bytes copied = 0;    // contents that were copied for it
  Bytes unmapped = 0;  // pages that the driver would not map again; the next submission retries
  SleepSums stays;     // pages that stay whole; of the other sums nothing

  CutSums& operator+=(const CutSums& other) {
    trimmed += other.trimmed;
    given += other.given;
    copied += other.copied;
    unmapped += other.unmapped;
    stays += other.stays;
    return *this;
  }
};

}  // namespace custash
