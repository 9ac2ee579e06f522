// SPDX-License-Identifier: MIT
// Digests: reads device memory on the device, and tells by 256 bits per piece whether its
// contents are those of an earlier time, or one value throughout. So that sleep need not copy
// them. The hash is NH over 64-bit words (UMAC, RFC 4418), in two steps and twice, under keys
// of the process: two contents of a piece that were chosen without the keys have the same
// digest with a probability of 2^-126 at most. Used by one thread at a time, with the context
// current. decision 21
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/status.hpp"
#include "allocator/base/units.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace custash {

// The stream of a context on which custash copies contents, made at need. Belongs to the one
// thread that copies. Called without any lock held, with the context current.
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

// As the kernel writes it.
struct Digest {
  enum class Kind : std::uint32_t { None, Mixed, OneValue };

  std::array<std::uint64_t, 4> words{};
  std::uint32_t value = 0;  // the first four bytes
  Kind kind = Kind::None;

  friend bool operator==(const Digest&, const Digest&) = default;
};

class Digests {
 public:
  static constexpr Bytes kPiece = 2_MiB;  // the most that one digest is of
  static constexpr std::size_t kKeys = 3072;

  // As the kernel reads it. Address and bytes are multiples of 16.
  struct Piece {
    Address address = 0;
    Bytes bytes = 0;
  };

  explicit Digests(const Driver& driver) : driver_(driver) {}

  // False: nothing is known of the contents, now or ever again (usable()). Nothing else
  // happened.
  bool read(std::span<const Piece> pieces, CopyStream& stream, std::span<Digest> out);

  [[nodiscard]] bool usable() const { return usable_; }

 private:
  bool load();

  const Driver& driver_;
  bool usable_ = true;
  CUfunction kernel_ = nullptr;
};

}  // namespace custash
