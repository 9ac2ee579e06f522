// SPDX-License-Identifier: MIT
#include "allocator/cache/page_contents.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"

#include <algorithm>

namespace custash {

bool PageContents::reserve(HostStore& store, Bytes bytes, std::string* why) {
  return saved_.reserve(store, context_, bytes, why);
}

void PageContents::give_up(HostStore& store, Bytes keep) {
  saved_.shrink(store, context_, keep);
}

Bytes PageContents::bytes() const {
  return parts_.empty() ? 0 : parts_.back().offset + parts_.back().bytes;
}

void PageContents::drop_portion() {
  while (!parts_.empty() && parts_.back().offset >= portion_)
    parts_.pop_back();
}

template <typename Visit>
bool PageContents::each_chunk_of_portion(Visit visit) const {
  return saved_.each_chunk(bytes(), [&](const SavedChunk& chunk) {
    return chunk.offset < portion_ || visit(chunk);
  });
}

Bytes PageContents::in_file() const {
  Bytes sum = 0;
  (void)each_chunk_of_portion([&](const SavedChunk& chunk) {
    if (chunk.in_file()) sum += chunk.bytes;
    return true;
  });
  return sum;
}

// each(part, address, offset in the chunk, bytes) for what the parts have in the chunk.
template <typename Each>
Status PageContents::each_part(const SavedChunk& chunk, Each each) const {
  const Bytes end = chunk.offset + chunk.bytes;
  auto part = std::partition_point(parts_.begin(), parts_.end(), [&](const Part& before) {
    return before.offset + before.bytes <= chunk.offset;
  });
  for (; part != parts_.end() && part->offset < end; ++part) {
    const Bytes from = std::max(part->offset, chunk.offset);
    const Bytes to = std::min(part->offset + part->bytes, end);
    const Status status =
        each(*part, part->address + (from - part->offset), from - chunk.offset, to - from);
    if (!status.ok()) return status;
  }
  return {};
}

Status PageContents::save(HostStore& store, std::string* why) {
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream_.get();
  if (on == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Status status;
  (void)each_chunk_of_portion([&](const SavedChunk& chunk) {
    if (!chunk.in_file() && !store.wait(*chunk.piece, why)) {
      status = CUDA_ERROR_OUT_OF_MEMORY;
      return false;
    }
    std::byte* const host = chunk.in_file() ? store.buffer() : chunk.piece->at + chunk.in_piece;
    status = each_part(chunk, [&](const Part&, Address from, Bytes at, Bytes size) -> Status {
      return driver_.memcpy_dtoh_async(host + at, from, size, on);
    });
    if (status.ok() && chunk.in_file()) status = stream_.wait();
    if (status.ok() && chunk.in_file() &&
        !store.write(*chunk.piece, chunk.in_piece, chunk.bytes, why))
      status = CUDA_ERROR_OPERATING_SYSTEM;
    return status.ok();
  });
  // Also after an error: what was submitted before it must not run on.
  const Status waited = stream_.wait();
  if (status.ok() && waited.ok() && !store.flush(why)) status = CUDA_ERROR_OPERATING_SYSTEM;
  return status.ok() ? waited : status;
}

Status PageContents::restore(HostStore& store, const Wanted& wanted, std::string* why) {
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream_.get();
  if (on == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Status status;
  (void)saved_.each_chunk(bytes(), [&](const SavedChunk& chunk) {
    bool any = false;
    (void)each_part(chunk, [&](const Part& part, Address, Bytes, Bytes) -> Status {
      any = any || wanted(part.sleeper);
      return {};
    });
    if (!any) return true;
    if (chunk.in_file() && !store.read(*chunk.piece, chunk.in_piece, chunk.bytes, why)) {
      status = CUDA_ERROR_OPERATING_SYSTEM;
      return false;
    }
    const std::byte* const host =
        chunk.in_file() ? store.buffer() : chunk.piece->at + chunk.in_piece;
    status =
        each_part(chunk, [&](const Part& part, Address to, Bytes at, Bytes size) -> Status {
          if (!wanted(part.sleeper)) return {};
          return driver_.memcpy_htod_async(to, host + at, size, on);
        });
    if (status.ok() && chunk.in_file()) status = stream_.wait();  // one buffer
    return status.ok();
  });
  const Status waited = stream_.wait();
  return status.ok() ? waited : status;
}

void PageContents::clear() {
  parts_.clear();
  portion_ = 0;
}

CUstream CopyStream::get() {
  if (stream_ == nullptr &&
      driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    stream_ = nullptr;
  return stream_;
}

Status CopyStream::wait() {
  if (copied_ == nullptr) {
    const Status made = driver_.event_create(&copied_, CU_EVENT_DISABLE_TIMING);
    if (!made.ok()) {
      copied_ = nullptr;
      return driver_.ctx_synchronize();
    }
  }
  const Status recorded = driver_.event_record(copied_, stream_);
  const Status waited = recorded.ok() ? Status(driver_.event_synchronize(copied_)) : recorded;
  return waited.ok() ? waited : Status(driver_.ctx_synchronize());
}

}  // namespace custash
