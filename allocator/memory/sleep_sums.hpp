// SPDX-License-Identifier: MIT
// What became of the memory, in bytes: SleepSums when the process went to sleep, CutSums of the
// pages that a deep trim looked at. Pure.
#pragma once

#include "allocator/base/units.hpp"

namespace custash {

struct SleepSums {
  Bytes asleep = 0;      // pages released to the driver
  Bytes saved = 0;       // of these, contents that are in host memory or in a file
  Bytes in_file = 0;     // of these, contents that are in a file
  Bytes kept = 0;        // of these, contents that were there since the last sleep
  bool compared = true;  // it is known what changed, and what holds one value
  // What stays awake:
  Bytes plain = 0;       // segments of cuMemAlloc: their addresses cannot be kept
  Bytes exported = 0;    // other processes or other interfaces have it open
  Bytes registered = 0;  // SYNC_MEMOPS: a network card may reach it
  Bytes refused = 0;     // on its way elsewhere, or the driver refused to take it back
  Bytes mapped = 0;      // the program's own, known outside or not mapped whole at one address

  SleepSums& operator+=(const SleepSums& other) {
    asleep += other.asleep;
    saved += other.saved;
    in_file += other.in_file;
    kept += other.kept;
    compared = compared && other.compared;
    plain += other.plain;
    exported += other.exported;
    registered += other.registered;
    refused += other.refused;
    mapped += other.mapped;
    return *this;
  }
};

struct CutSums {
  Bytes trimmed = 0;   // of pages that were wholly free: released to the driver
  Bytes given = 0;     // of pages that were cut: released to the driver
  Bytes copied = 0;    // contents that were copied for it
  Bytes unmapped = 0;  // pages that the driver would not map again; the next submission retries
  SleepSums stays;     // pages that stay whole; of the other sums nothing
};

}  // namespace custash
