// SPDX-License-Identifier: MIT
// BlockRef: a live block in one of its two shapes. Its questions are answered in pool.hpp, so
// that a class may hold one without the headers of the heap. Guarded by the lock of the
// ContextCache that owns the block.
#pragma once

#include "allocator/heap/slabs.hpp"

namespace custash {

struct Pool;

struct BlockRef {
  SmallRef small;
  Block* large = nullptr;
  std::uint64_t id = 0;  // while it is freed: the buffer id that it had

  explicit operator bool() const { return small || large != nullptr; }

  [[nodiscard]] inline SizeKind kind() const;
  [[nodiscard]] inline std::int64_t block_bytes() const;
  // The block's memory belongs to this pool.
  [[nodiscard]] inline bool home_is(const Pool& of) const;
  [[nodiscard]] inline ReuseAfter& reuse_after() const;
  [[nodiscard]] inline SharedField<std::uint64_t>& buffer_id() const;
  [[nodiscard]] inline Bytes requested() const;
  [[nodiscard]] inline BlockState state() const;
  [[nodiscard]] inline BlockMarks& marks() const;
};

}  // namespace custash
