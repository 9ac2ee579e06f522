// SPDX-License-Identifier: MIT
// Which sizes are small, how they are rounded, how large a page is. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace custash {

inline constexpr Bytes kAlignment = 512;     // of cudaMalloc, in practice
inline constexpr Bytes kSmallLimit = 1_MiB;  // requests up to this come from slabs
inline constexpr Bytes kSlabBytes = 2_MiB;
inline constexpr Bytes kPageBytes = 2_MiB;  // a page is this or a multiple

// Blocks of kAlignedFrom and more begin at multiples of kLargeAlignment, as those of cuMemAlloc
// do at least: GDRCopy maps and cards register pages of 64 KiB.
inline constexpr Bytes kAlignedFrom = 2_MiB;
inline constexpr Bytes kLargeAlignment = 64_KiB;

constexpr Bytes alignment_of(Bytes bytes) {
  return bytes < kAlignedFrom ? kAlignment : kLargeAlignment;
}

// Size classes: 512, 1024, 1536, 2048, then four per doubling up to 1 MiB.
inline constexpr int kSizeClasses = 4 + 9 * 4;

// The number of a size class. Large: a request or a block that no slab serves.
enum class SizeClass : std::uint8_t { Large = kSizeClasses };

constexpr std::size_t index(SizeClass size_class) {
  return static_cast<std::size_t>(size_class);
}

// All of them but Large, smallest first.
inline constexpr auto kEachClass = [] {
  std::array<SizeClass, kSizeClasses> each{};
  for (int i = 0; i < kSizeClasses; ++i)
    each[static_cast<std::size_t>(i)] = SizeClass(i);
  return each;
}();

struct ClassTable {
  constexpr ClassTable() {
    for (int i = 0; i < kSizeClasses; ++i) {
      const Bytes base = i < 4 ? 0 : 2048ULL << (i - 4) / 4;
      const Bytes step = i < 4 ? kAlignment : base / 4;
      bytes[i] = base + step * static_cast<Bytes>(i % 4 + 1);
      const Bytes units = bytes[i] / kAlignment;
      reciprocal[i] = ((1ULL << 32U) + units - 1) / units;
    }
  }

  Bytes bytes[kSizeClasses] = {};
  std::uint64_t reciprocal[kSizeClasses] =
      {};  // of the bytes in units of kAlignment, times 2^32
};

inline constexpr ClassTable kClasses;

constexpr Bytes class_bytes(SizeClass size_class) {
  return kClasses.bytes[index(size_class)];
}

// The smallest class that holds `bytes` (1 .. kSmallLimit).
constexpr SizeClass size_class(Bytes bytes) {
  if (bytes <= 2048) return SizeClass((bytes + kAlignment - 1) / kAlignment - 1);
  const int doubling = static_cast<int>(std::bit_width(bytes - 1)) - 12;  // 2049..4096 -> 0
  const Bytes base = 2048ULL << doubling;
  const Bytes quarter = base / 4;
  return SizeClass(4 + doubling * 4 + static_cast<int>((bytes - base + quarter - 1) / quarter) -
                   1);
}

// The block of a slab of that class that an offset lies in. A division by the class's bytes,
// done as a multiplication (exact: offsets are below 2^12 units, classes below 2^11).
constexpr std::uint32_t class_index(SizeClass size_class, Bytes offset) {
  return static_cast<std::uint32_t>(
      (offset / kAlignment * kClasses.reciprocal[index(size_class)]) >> 32U);
}

constexpr Bytes round_large(Bytes bytes) {
  return align_up(bytes, alignment_of(bytes));
}

// The bytes to request from the driver when a large request finds nothing (segments of plain
// cuMemAlloc). PyTorch's sizes, so that neighbours of moderate size share a segment.
constexpr Bytes driver_segment_bytes(Bytes bytes) {
  return bytes < 10_MiB ? 20_MiB : align_up(bytes, kPageBytes);
}

// With less than this left on the device, memory is saved at the cost of time: a program that
// fits without custash must fit with it.
inline constexpr Bytes kNearlyFull = 1_GiB;
// With this much left, some of it is spent to keep streams from waiting for each other.
inline constexpr Bytes kPlenty = 4_GiB;

// A request for less new memory than this never waits instead.
inline constexpr Bytes kRunAheadFloor = 32_MiB;

inline constexpr Bytes kHandleBytes = 32_MiB;
inline constexpr Bytes kFineHandleBytes = 18_MiB;
inline constexpr Bytes kShareLost = 32;       // of the most in use; beyond it, much is lost
inline constexpr Bytes kHandlesAtMost = 128;  // that the most in use is made of
inline constexpr Bytes kShareBought = 64;

// The handle size for new pages when about `left` bytes are left on the device. The driver
// charges per handle (about 25 µs with its access, whatever its size). Only handles that are
// wholly free can be moved or returned. The fuller the device, the more that matters.
constexpr Bytes handle_bytes(Bytes growth, Bytes left) {
  if (left < kNearlyFull) return kPageBytes;
  const Bytes share = std::clamp(align_up(growth / 64, kPageBytes), kHandleBytes, 256_MiB);
  return std::clamp(align_down(left / 2048, kPageBytes), kPageBytes, share);
}

// A limit on it where more is `held` than the `most` that was in use. The difference is
// lost in partly used handles. The more is lost, the smaller new handles are.
constexpr Bytes finer_handle_bytes(Bytes held, Bytes most) {
  const Bytes fair = most / kShareLost;
  if (held <= most + fair) return ~0ULL;
  const Bytes bytes = kHandleBytes / kPageBytes * fair / (held - most) * kPageBytes;
  return std::max(bytes, kFineHandleBytes);
}

// The limit while making and moving pages takes little of the time (MappingCost).
constexpr Bytes finest_handle_bytes(Bytes most) {
  return std::max(align_down(most / kHandlesAtMost, kPageBytes), kPageBytes);
}

// What may then be made in place of moves.
constexpr Bytes most_bought(Bytes most) {
  return std::max(most / kShareBought, kHandleBytes);
}

// Where a block may lie in a free range: at its start; only where it touches no more pages than
// it needs; for small blocks, only where the driver itself would have put it; for large ones,
// only inside one page, which is one physical allocation; or only where it fills the range, so
// that it shares no page. Packed: anywhere, by the size alone (pinned memory).
enum class Fit { Quick, FewPages, AsDriver, OnePage, OwnPages, Packed };

// The first place in a free range from `begin` on where a block may begin. Unless `fit` is
// Quick it touches no more pages than it needs there. Then it never keeps more of them than
// cuMemAlloc would have taken for it.
constexpr Address place(Address begin, Bytes bytes, Fit fit) {
  if (fit == Fit::Packed) return begin;
  begin = align_up(begin, alignment_of(bytes));
  return fit == Fit::Quick || begin % kPageBytes + bytes <= align_up(bytes, kPageBytes)
             ? begin
             : align_up(begin, kPageBytes);
}

// Shares of the most that was in use since the last trim. Beyond the first, pages are moved
// instead of made. The second limits how much is made ahead of the requests.
inline constexpr Bytes kShareBeforeMoves = 128;
inline constexpr Bytes kShareAhead = 64;

}  // namespace custash
