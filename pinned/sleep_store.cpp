// SPDX-License-Identifier: MIT
#include "pinned/sleep_store.hpp"

#include "allocator/base/log.hpp"
#include "allocator/memory/saved_bytes.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_limits.hpp"

#include <algorithm>

#include <sys/resource.h>

namespace custash {
namespace {

constexpr Bytes kLeftToMachine = 256_MiB;  // left to the machine
constexpr int kPageable = -1;
constexpr int kFile = -2;
constexpr int kAnyNode = -1;

Bytes less(Bytes from, Bytes amount) {
  return from - std::min(from, amount);
}

// Pieces come in whole steps.
Bytes whole(Bytes bytes) {
  return bytes / SavedBytes::kGrain * SavedBytes::kGrain;
}

std::string mib(Bytes bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

}  // namespace

Bytes SleepStore::most_pinned() const {
  rlimit limit{};
  const bool limited =
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? std::min<Bytes>(config_.sleep_pinned, limit.rlim_cur) : config_.sleep_pinned;
}

Bytes SleepStore::host_room() const {
  const Bytes usable = whole(less(available_host_memory(), kLeftToMachine));
  const Bytes pinned = whole(less(most_pinned(), pinned_.load()));
  const Bytes pageable = whole(less(config_.sleep_memory, pageable_.load()));
  return pageable > usable ? usable : std::min(usable, pinned + pageable);
}

bool SleepStore::has_room(Bytes bytes, std::string* why) {
  const Bytes host = host_room();
  if (bytes <= host) return true;
  *why = "host memory: needs " + mib(bytes) + ", has " + mib(host);
  if (config_.sleep_dir.empty()) return false;
  const Bytes disk = file_.room();
  *why += "; " + config_.sleep_dir + ": has " + mib(disk);
  return bytes - host <= disk;
}

bool SleepStore::take_pageable(Bytes most, HostPiece* out) {
  const Bytes bytes = whole(std::min({most,
                                      less(config_.sleep_memory, pageable_.load()),
                                      less(available_host_memory(), kLeftToMachine)}));
  if (bytes == 0) return false;
  const Address base = map_shared(bytes);
  if (base == 0) return false;
  first_touch(base, bytes, config_.pinned_threads, kAnyNode);
  pageable_.fetch_add(bytes);
  *out = {.at = reinterpret_cast<std::byte*>(base), .size = bytes, .origin = kPageable};
  return true;
}

bool SleepStore::take_of_file(Bytes bytes, HostPiece* out, std::string* why) {
  const Lock lock(mutex_);
  if (buffer_ == 0) {
    buffer_ = map_shared(SavedBytes::kChunk);
    if (buffer_ == 0) return false;
    first_touch(buffer_, SavedBytes::kChunk, 1, kAnyNode);
  }
  Bytes at = 0;
  if (!file_.take(bytes, &at, why)) {
    if (in_file_ == 0) give_buffer();
    return false;
  }
  in_file_ += bytes;
  *out = {.size = bytes, .origin = kFile, .in_file = at};
  return true;
}

void SleepStore::give_to_file(const HostPiece& piece) {
  const Lock lock(mutex_);
  file_.give(piece.in_file, piece.size);
  in_file_ -= piece.size;
  if (in_file_ == 0) give_buffer();
}

bool SleepStore::take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) {
  HostMemoryRange range;
  const Bytes part = whole(std::min(bytes, less(most_pinned(), pinned_.load())));
  if (part != 0 && memory_.obtain(context, part, CU_MEMHOSTALLOC_PORTABLE, &range).ok()) {
    pinned_.fetch_add(range.size);
    *out = {.at = reinterpret_cast<std::byte*>(range.base),
            .size = range.size,
            .origin = static_cast<int>(range.origin)};
    return true;
  }
  if (take_pageable(bytes, out)) return true;
  if (config_.sleep_dir.empty() || !take_of_file(bytes, out, why)) return false;
  try {
    if (out->in_file == 0)
      log(LogLevel::Info, "event=sleep_file folder=\"" + file_.folder() + "\"");
  } catch (...) {  // no memory for the line
  }
  return true;
}

void SleepStore::give(CUcontext context, const HostPiece& piece) {
  const auto base = reinterpret_cast<Address>(piece.at);
  if (piece.origin == kFile) return give_to_file(piece);
  if (piece.origin == kPageable) {
    pageable_.fetch_sub(piece.size);
    return unmap_shared(base, piece.size);
  }
  const HostMemoryRange range{base, piece.size, static_cast<HostOrigin>(piece.origin)};
  pinned_.fetch_sub(piece.size);
  if (!memory_.release(context, range).ok()) HostMemory::forget(range);
}

void SleepStore::give_buffer() {
  if (buffer_ != 0) unmap_shared(buffer_, SavedBytes::kChunk);
  buffer_ = 0;
}

bool SleepStore::write(const HostPiece& piece, Bytes from, Bytes bytes, std::string* why) {
  return file_.write(piece.in_file + from, buffer(), bytes, why);
}

bool SleepStore::read(const HostPiece& piece, Bytes from, Bytes bytes, std::string* why) {
  return file_.read(piece.in_file + from, buffer(), bytes, why);
}

}  // namespace custash
