// SPDX-License-Identifier: MIT
// Depot: batches of small blocks of one pool on their way from one thread's magazine to
// another's (tcmalloc: transfer cache). No code examines the blocks in between: each is as good
// as in a magazine. Guarded by the lock of the ContextCache that owns the pool.
// Proved: tests/models/thread_cache.pml.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/heap/slabs.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace custash {

// A small block in eight bytes: its slab, and its index below the 48 bits of a pointer.
class StoredBlock {
 public:
  StoredBlock() = default;

  explicit StoredBlock(SmallRef ref)
      : value_(reinterpret_cast<std::uintptr_t>(ref.slab) << kIndexBits | ref.index) {}

  operator SmallRef() const {  // NOLINT: the same block, unpacked
    return {reinterpret_cast<Slab*>(value_ >> kIndexBits),
            static_cast<std::uint32_t>(value_ & ((1U << kIndexBits) - 1))};
  }

 private:
  static constexpr unsigned kIndexBits = 16;
  std::uint64_t value_ = 0;
};

class Depot {
 public:
  // Without the lock: whether it is worth taking the lock.
  [[nodiscard]] bool may_have(SizeClass size_class) const { return at(size_class).count != 0; }

  // Returns how many of them it took; it takes the first ones.
  std::uint32_t put(SizeClass size_class, const StoredBlock* blocks, std::uint32_t count) {
    Class& of = classes_[index(size_class)];
    CUSTASH_ASSERT(of.count == of.blocks.size() && of.count <= capacity(size_class));
    const std::uint32_t taken = std::min(count, capacity(size_class) - of.count);
    CUSTASH_ASSERT(all_ready(size_class, blocks, taken));
    of.blocks.insert(of.blocks.end(), blocks, blocks + taken);
    of.count = of.count + taken;
    return taken;
  }

  // Returns how many it gave.
  std::uint32_t take(SizeClass size_class, StoredBlock* out, std::uint32_t most) {
    Class& of = classes_[index(size_class)];
    CUSTASH_ASSERT(of.count == of.blocks.size() && of.count <= capacity(size_class));
    const std::uint32_t given = std::min<std::uint32_t>(most, of.count);
    std::copy_n(of.blocks.end() - given, given, out);
    CUSTASH_ASSERT(all_ready(size_class, out, given));
    of.blocks.resize(of.blocks.size() - given);
    of.count = of.count - given;
    return given;
  }

 private:
  struct Class {
    SharedField<std::uint32_t> count = 0;
    std::vector<StoredBlock> blocks;
  };

  // One MiB for each size class.
  static std::uint32_t capacity(SizeClass size_class) {
    return static_cast<std::uint32_t>(std::min<Bytes>(1_MiB / class_bytes(size_class), 64));
  }

  static bool all_ready(SizeClass size_class, const StoredBlock* blocks, std::uint32_t count) {
    return std::all_of(
        blocks, blocks + count, [&](SmallRef ref) { return ref.kept_ready(size_class); });
  }

  [[nodiscard]] const Class& at(SizeClass size_class) const {
    return classes_[index(size_class)];
  }

  std::array<Class, kSizeClasses> classes_;
};

}  // namespace custash
