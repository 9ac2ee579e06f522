// SPDX-License-Identifier: MIT
// CopyStream: the stream of a context on which custash copies contents, made at need. Belongs
// to the one thread that copies. Called without any lock held, with the context current.
#pragma once

#include "allocator/base/driver.hpp"

namespace custash {

class CopyStream {
 public:
  explicit CopyStream(const Driver& driver) : driver_(driver) {}

  // Null: the driver makes none.
  CUstream get();
  // Returns when all copies on it are over.
  Status wait();

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
  CUevent copied_ = nullptr;
};

}  // namespace custash
