// SPDX-License-Identifier: MIT
#include "pinned/sleep_store.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/words.hpp"
#include "allocator/memory/saved_bytes.hpp"

#include <algorithm>
#include <memory>

#include <sys/mman.h>

namespace custash {
namespace {

constexpr Bytes kLeftToMachine = 256_MiB;  // left to the machine
constexpr Bytes kShort = 1_GiB;            // it is short of memory with less
constexpr int kAnyNode = -1;

Bytes less(Bytes from, Bytes amount) {
  return from - std::min(from, amount);
}

// Pieces come in whole steps.
Bytes whole(Bytes bytes) {
  return bytes / SavedBytes::kGrain * SavedBytes::kGrain;
}

// A child has no use for contents, and would hold the memory for longer than we do.
void keep_from_children(Address base, Bytes bytes) {
  (void)madvise(pointer(base), bytes, MADV_DONTFORK);
}

// Takes up to `bytes` of what `used` leaves of `most`.
Bytes take_of(std::atomic<Bytes>& used, Bytes most, Bytes bytes) {
  for (Bytes before = used.load();;) {
    const Bytes part = whole(std::min(bytes, less(most, before)));
    if (used.compare_exchange_weak(before, before + part)) return part;
  }
}

bool can_hold(const PinnedPiece& piece, PinnedPiece::State state, std::string* why) {
  if (state == PinnedPiece::State::Pinned || state == PinnedPiece::State::Pageable) return true;
  const std::string size = in_mib(piece.range.size);
  *why = state == PinnedPiece::State::NotPinned
             ? "host memory: the driver does not pin " + size +
                   ", and sleep_memory: has no room for them"
             : "host memory: needs " + size + ", and the system refuses it";
  return false;
}

}  // namespace

bool SleepStore::is_short() {
  return pinned_.load() + pageable_.load() != 0 && available_() < kShort;
}

Bytes SleepStore::machine_room() const {
  return less(available_(), kLeftToMachine + untouched_.load());
}

Bytes SleepStore::host_room() const {
  const Bytes usable = whole(machine_room());
  const Bytes pinned = whole(less(config_.sleep_pinned, pinned_.load()));
  const Bytes pageable = whole(less(config_.sleep_memory, pageable_.load()));
  return pageable > usable ? usable : std::min(usable, pinned + pageable);
}

bool SleepStore::has_room(Bytes bytes, std::string* why) {
  const Bytes host = host_room();
  if (bytes <= host) return true;
  *why = "host memory: needs " + in_mib(bytes) + ", has " + in_mib(host);
  if (config_.sleep_dir.empty()) return false;
  const Bytes disk = file_.room();
  *why += "; " + config_.sleep_dir + ": has " + in_mib(disk);
  return bytes - host <= disk;
}

// The first piece shows whether the driver registers memory.
bool SleepStore::take_pinned(CUcontext context, Bytes bytes, HostPiece* out) {
  auto piece = std::make_unique<PinnedPiece>();
  const Bytes part = take_of(pinned_, config_.sleep_pinned, bytes);
  if (part == 0) return false;
  piece->context = context;
  HostMemoryRange& range = piece->range;
  bool taken = false;
  if (!registers_.load()) {
    taken = memory_.obtain(context, part, CU_MEMHOSTALLOC_PORTABLE, &range).ok();
    registers_.store(taken && range.origin == HostOrigin::Registered);
    piece->state.store(PinnedPiece::State::Pinned);
  } else if (part <= machine_room() && memory_.map(part, &range)) {
    taken = true;
    untouched_.fetch_add(part);
  }
  if (!taken) {
    pinned_.fetch_sub(part);
    return false;
  }
  if (range.origin != HostOrigin::Driver) keep_from_children(range.base, part);
  *out = {
      .at = reinterpret_cast<std::byte*>(range.base), .size = part, .pinned = piece.release()};
  return true;
}

void SleepStore::want(const HostPiece& piece) {
  if (piece.pinned == nullptr) return;
  const PinnedPiece::State state = piece.pinned->state.load();
  if (state == PinnedPiece::State::Pinned || state == PinnedPiece::State::Pageable) return;
  workers_.add(*piece.pinned);
  if (state == PinnedPiece::State::NotPinned) untouched_.fetch_add(piece.size);
}

bool SleepStore::make(std::string* why) {
  Bytes bytes = 0;
  for (const PinnedPiece* piece : workers_.pieces())
    bytes += piece->range.size;
  if (bytes == 0) return true;
  // Pieces may be left from a try whose memory others have taken since.
  if (const Bytes room = less(available_(), kLeftToMachine); room < bytes) {
    *why = "host memory: needs " + in_mib(bytes) + ", has " + in_mib(room);
    return false;
  }
  workers_.start(config_.pinned_threads);
  // Copying is more than twice as fast as making. So it comes to the rest when that is there.
  const std::size_t first = workers_.pieces().size() * 2 / 3;
  for (std::size_t i = 0; i < first; ++i) {
    PinnedPiece& piece = *workers_.pieces()[i];
    if (!can_hold(piece, workers_.wait(piece), why)) return false;
  }
  return true;
}

bool SleepStore::wait(const HostPiece& piece, std::string* why) {
  return piece.pinned == nullptr || can_hold(*piece.pinned, workers_.wait(*piece.pinned), why);
}

// By the worker that has touched the last of it.
PinnedPiece::State SleepStore::touched(const PinnedPiece& piece) {
  if (!piece.there.load()) return PinnedPiece::State::NoMemory;
  const Bytes size = piece.range.size;
  untouched_.fetch_sub(size);
  if (memory_.pin(piece.context, piece.range)) return PinnedPiece::State::Pinned;
  if (const Bytes part = take_of(pageable_, config_.sleep_memory, size); part != size) {
    pageable_.fetch_sub(part);
    return PinnedPiece::State::NotPinned;
  }
  pinned_.fetch_sub(size);
  return PinnedPiece::State::Pageable;
}

void SleepStore::give_pinned(CUcontext context, const PinnedPiece& piece) {
  const HostMemoryRange& range = piece.range;
  const PinnedPiece::State state = piece.state.load();
  (state == PinnedPiece::State::Pageable ? pageable_ : pinned_).fetch_sub(range.size);
  if (state == PinnedPiece::State::Pinned) {
    if (!memory_.release(context, range).ok()) HostMemory::forget(range);
    return;
  }
  if (state == PinnedPiece::State::Mapped || state == PinnedPiece::State::NoMemory)
    untouched_.fetch_sub(range.size);
  HostMemory::forget(range);
}

bool SleepStore::take_pageable(Bytes most, HostPiece* out) {
  const Bytes bytes = take_of(pageable_, config_.sleep_memory, std::min(most, machine_room()));
  const Address base = bytes == 0 ? 0 : map_shared(bytes);
  if (base == 0) {
    pageable_.fetch_sub(bytes);
    return false;
  }
  keep_from_children(base, bytes);
  first_touch(base, bytes, config_.pinned_threads, kAnyNode);
  *out = {.at = reinterpret_cast<std::byte*>(base), .size = bytes};
  return true;
}

bool SleepStore::take_of_file(Bytes bytes, HostPiece* out, std::string* why) {
  const Lock lock(mutex_);
  if (buffer_ == 0) {
    buffer_ = map_shared(SavedBytes::kChunk);
    if (buffer_ == 0) return false;
    keep_from_children(buffer_, SavedBytes::kChunk);
    first_touch(buffer_, SavedBytes::kChunk, 1, kAnyNode);
  }
  Bytes at = 0;
  if (!file_.take(bytes, &at, why)) {
    if (in_file_ == 0) give_buffer();
    return false;
  }
  in_file_ += bytes;
  *out = {.size = bytes, .in_file = at};
  return true;
}

void SleepStore::give_to_file(const HostPiece& piece) {
  const Lock lock(mutex_);
  file_.give(piece.in_file, piece.size);
  in_file_ -= piece.size;
  if (in_file_ == 0) give_buffer();
}

bool SleepStore::take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) {
  if (take_pinned(context, bytes, out)) return true;
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
  if (piece.at == nullptr) return give_to_file(piece);
  if (piece.pinned != nullptr) {
    const std::unique_ptr<PinnedPiece> pinned(piece.pinned);
    return give_pinned(context, *pinned);
  }
  pageable_.fetch_sub(piece.size);
  unmap_shared(reinterpret_cast<Address>(piece.at), piece.size);
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
