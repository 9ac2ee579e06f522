// SPDX-License-Identifier: MIT
// SavedBytes: pieces of a HostStore in a row, addressed by one offset, and gone through in
// chunks. Used by one thread at a time.
#pragma once

#include "allocator/memory/host_store.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace custash {

// A stretch of one piece.
struct SavedChunk {
  const HostPiece* piece = nullptr;
  Bytes in_piece = 0;
  Bytes offset = 0;  // in all that is saved
  Bytes bytes = 0;
  std::size_t number = 0;

  [[nodiscard]] bool in_file() const { return piece->at == nullptr; }
};

class SavedBytes {
 public:
  static constexpr Bytes kGrain = 2_MiB;  // pieces are multiples of it

  static constexpr Bytes kChunk = 8_MiB;

  // Takes room for `bytes` in all; keeps the pieces that are there. HostStore::make() then
  // makes them.
  bool reserve(HostStore& store, CUcontext context, Bytes bytes, std::string* why) {
    while (size_ < bytes) {
      HostPiece piece;
      const Bytes wanted = bytes - size_ < kPiece ? align_up(bytes - size_, kGrain) : kPiece;
      pieces_.reserve(pieces_.size() + 1);  // what is taken has its place
      if (!store.take(context, wanted, &piece, why)) return false;
      pieces_.push_back(piece);
      size_ += piece.size;
    }
    Bytes begin = 0;
    for (const HostPiece& piece : pieces_) {
      if (begin < bytes) store.want(piece);
      begin += piece.size;
    }
    return true;
  }

  // Releases what goes beyond `keep` bytes, and all that is in a file. The answer: up to there
  // offsets are what they were.
  Bytes shrink(HostStore& store, CUcontext context, Bytes keep) {
    Bytes intact = size_;
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      if (pieces_[i].at != nullptr && size_ <= keep) continue;
      const HostPiece piece = pieces_[i];
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(i));
      size_ -= piece.size;
      intact = begin_of(i);
      store.give(context, piece);
    }
    return intact;
  }

  [[nodiscard]] Bytes size() const { return size_; }

  // Where the first chunk begins that has nothing of the first `bytes`.
  [[nodiscard]] Bytes next_chunk(Bytes bytes) const {
    Bytes end = 0;
    (void)each_chunk(size_, [&](const SavedChunk& chunk) {
      if (chunk.offset >= bytes) return false;
      end = chunk.offset + chunk.bytes;
      return true;
    });
    return end;
  }

  // visit(chunk) for each chunk of the first `bytes`, until one answers false.
  template <typename Visit>
  bool each_chunk(Bytes bytes, Visit visit) const {
    SavedChunk chunk;
    for (const HostPiece& piece : pieces_) {
      for (Bytes in = 0; in < piece.size && chunk.offset < bytes; in += kChunk) {
        chunk.piece = &piece;
        chunk.in_piece = in;
        chunk.bytes = std::min({kChunk, piece.size - in, bytes - chunk.offset});
        if (!visit(std::as_const(chunk))) return false;
        chunk.offset += chunk.bytes;
        ++chunk.number;
      }
    }
    return chunk.offset == bytes;
  }

 private:
  static constexpr Bytes kPiece = 256_MiB;

  [[nodiscard]] Bytes begin_of(std::size_t piece) const {
    Bytes sum = 0;
    for (std::size_t i = 0; i < piece; ++i)
      sum += pieces_[i].size;
    return sum;
  }

  std::vector<HostPiece> pieces_;
  Bytes size_ = 0;
};

}  // namespace custash
