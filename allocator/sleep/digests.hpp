// SPDX-License-Identifier: MIT
// Digests: reads device memory on the device, and finds, by 256 bits for each piece,
// whether its contents are those of an earlier time, or one value throughout, which sleep need
// not copy. The hash is NH over 64-bit words (UMAC, RFC 4418), in two steps and twice, under
// keys of the process: two contents of a piece that were chosen without the keys have the same
// digest with a probability of 2^-126 at most. Used by one thread at a time, with the context
// current. decision 21
#pragma once

#include "allocator/base/units.hpp"
#include "allocator/sleep/copy_stream.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace custash {

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

  // False: nothing is known of the contents, and unless memory was short, never will be
  // (usable()). Nothing else happened.
  bool read(std::span<const Piece> pieces, CopyStream& stream, std::span<Digest> out);

  [[nodiscard]] bool usable() const { return usable_; }

 private:
  Status load();
  Status run(std::span<const Piece> pieces, CopyStream& stream, std::span<Digest> out);

  const Driver& driver_;
  bool usable_ = true;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

}  // namespace custash
