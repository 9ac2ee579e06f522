// SPDX-License-Identifier: MIT
#include "allocator/sleep/page_contents.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"

#include <algorithm>

namespace custash {

bool PageContents::reserve(HostStore& store, Bytes bytes, std::string* why) {
  return saved_.reserve(store, context_, bytes, why);
}

Bytes PageContents::bytes() const {
  return parts_.empty() ? 0 : parts_.back().offset + parts_.back().bytes;
}

Bytes PageContents::reserve_for(Bytes bytes, bool again) const {
  const Bytes all = next() + bytes;
  if (!digests_.usable()) return all;
  const Bytes last = std::max(end_, next());
  return again ? last : std::min(all, last);
}

void PageContents::begin_portion() {
  portion_ = next();
  first_part_ = parts_.size();
  first_of_one_value_ = of_one_value_.size();
}

void PageContents::drop_portion() {
  parts_.resize(std::min(parts_.size(), first_part_));
  of_one_value_.resize(std::min(of_one_value_.size(), first_of_one_value_));
}

// ---- Where the parts of a portion go.

PageContents::Parts PageContents::cut_portion() const {
  Parts cut;
  for (std::size_t i = first_part_; i < parts_.size(); ++i) {
    const Address end = parts_[i].address + parts_[i].bytes;
    for (Address at = parts_[i].address; at < end;) {
      const Address to = std::min(end, align_down(at, Digests::kPiece) + Digests::kPiece);
      cut.push_back({parts_[i].sleeper, at, to - at});
      at = to;
    }
  }
  return cut;
}

bool PageContents::read_digests(Parts& parts) {
  std::vector<Digests::Piece> pieces;
  for (const Part& each : parts)
    pieces.push_back({each.address, each.bytes});
  std::vector<Digest> digests(pieces.size());
  if (pieces.empty()) return true;
  if (!digests_.read(pieces, stream_, digests)) return false;
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i].digest = digests[i];
  return true;
}

void PageContents::find_copies(Parts& parts) const {
  for (Part& each : parts) {
    const auto copy = std::ranges::lower_bound(copies_, each.address, {}, &Part::address);
    if (copy == copies_.end() || copy->address != each.address || copy->bytes != each.bytes ||
        each.digest.kind != Digest::Kind::Mixed ||
        (holds(Rule::copies_are_of_the_contents) && copy->digest != each.digest))
      continue;
    each.copied = true;
    each.offset = copy->offset;
  }
}

// The others go between the copies that stay.
void PageContents::lay_out(Parts& parts) {
  const auto middle =
      std::partition(parts.begin(), parts.end(), [](const Part& each) { return each.copied; });
  std::sort(
      parts.begin(), middle, [](const Part& a, const Part& b) { return a.offset < b.offset; });
  Bytes at = portion_;
  auto stays = parts.begin();
  for (auto part = middle; part != parts.end(); ++part) {
    for (; stays != middle && at + part->bytes > stays->offset; ++stays)
      at = stays->offset + stays->bytes;
    part->offset = at;
    at += part->bytes;
  }
  std::ranges::sort(parts, {}, &Part::offset);
}

bool PageContents::place(SleepSums* sums) {
  const RelaxedCapture relaxed(driver_);
  Parts parts = cut_portion();
  sums->compared = read_digests(parts);
  drop_portion();
  std::erase_if(parts, [&](const Part& each) {
    if (each.digest.kind != Digest::Kind::OneValue) return false;
    of_one_value_.push_back(each);
    return true;
  });
  find_copies(parts);
  lay_out(parts);
  for (const Part& each : parts) {
    sums->saved += each.bytes;
    if (each.copied) sums->kept += each.bytes;
  }
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  end_ = bytes();
  return end_ <= reserved();
}

// ---- There and back.

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

// each(address, offset in the chunk, bytes) for what the parts that are `taken` have in the
// chunk, those side by side in one page at once. (Two pages may lie in two reservations.)
template <typename Taken, typename Each>
Status PageContents::each_run(const SavedChunk& chunk, Taken taken, Each each) const {
  const Bytes end = chunk.offset + chunk.bytes;
  auto part = std::partition_point(parts_.begin(), parts_.end(), [&](const Part& before) {
    return before.offset + before.bytes <= chunk.offset;
  });

  struct {
    std::size_t sleeper = 0;
    Address address = 0;
    Bytes at = 0;
    Bytes bytes = 0;
  } run;

  for (; part != parts_.end() && part->offset < end; ++part) {
    if (!taken(*part)) continue;
    const Bytes from = std::max(part->offset, chunk.offset);
    const Bytes bytes = std::min(part->offset + part->bytes, end) - from;
    const Address address = part->address + (from - part->offset);
    const Bytes at = from - chunk.offset;
    if (run.bytes != 0 && run.sleeper == part->sleeper && run.address + run.bytes == address &&
        run.at + run.bytes == at) {
      run.bytes += bytes;
      continue;
    }
    const Status status = run.bytes == 0 ? Status() : each(run.address, run.at, run.bytes);
    if (!status.ok()) return status;
    run = {part->sleeper, address, at, bytes};
  }
  return run.bytes == 0 ? Status() : each(run.address, run.at, run.bytes);
}

template <typename Taken>
bool PageContents::any(const SavedChunk& chunk, Taken taken) const {
  bool found = false;
  (void)each_run(chunk, taken, [&](Address, Bytes, Bytes) -> Status {
    found = true;
    return {};
  });
  return found;
}

Status PageContents::save(HostStore& store, std::string* why) {
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream_.get();
  if (on == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Status status;
  copies_.clear();  // others go to their place
  const auto changed = [](const Part& part) { return !part.copied; };
  (void)each_chunk_of_portion([&](const SavedChunk& chunk) {
    if (!any(chunk, changed)) return true;
    if (!chunk.in_file() && !store.wait(*chunk.piece, why)) {
      status = CUDA_ERROR_OUT_OF_MEMORY;
      return false;
    }
    std::byte* const host = chunk.in_file() ? store.buffer() : chunk.piece->at + chunk.in_piece;
    status = each_run(chunk, changed, [&](Address from, Bytes at, Bytes size) -> Status {
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
  CUstream const on = stream_.get();
  if (on == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Status status;
  for (auto part = of_one_value_.begin(); part != of_one_value_.end();) {
    const Part& first = *part;
    Bytes bytes = 0;
    for (; part != of_one_value_.end() && wanted(part->sleeper) &&
           part->sleeper == first.sleeper && part->address == first.address + bytes &&
           part->digest.value == first.digest.value;
         ++part)
      bytes += part->bytes;
    if (bytes == 0)
      ++part;
    else
      status = driver_.memset_d32_async(first.address, first.digest.value, bytes / 4, on);
    if (!status.ok()) return status;
  }
  const auto taken = [&](const Part& part) { return wanted(part.sleeper); };
  (void)saved_.each_chunk(bytes(), [&](const SavedChunk& chunk) {
    if (!any(chunk, taken)) return true;
    if (chunk.in_file() && !store.read(*chunk.piece, chunk.in_piece, chunk.bytes, why)) {
      status = CUDA_ERROR_OPERATING_SYSTEM;
      return false;
    }
    const std::byte* const host =
        chunk.in_file() ? store.buffer() : chunk.piece->at + chunk.in_piece;
    status = each_run(chunk, taken, [&](Address to, Bytes at, Bytes size) -> Status {
      return driver_.memcpy_htod_async(to, host + at, size, on);
    });
    if (status.ok() && chunk.in_file()) status = stream_.wait();  // one buffer
    return status.ok();
  });
  return status;
}

void PageContents::woken() {
  Bytes in_memory = 0;  // a chunk of a file is written whole
  (void)saved_.each_chunk(bytes(), [&](const SavedChunk& chunk) {
    if (!chunk.in_file()) in_memory = chunk.offset + chunk.bytes;
    return !chunk.in_file();
  });
  copies_ = std::move(parts_);
  std::erase_if(copies_, [&](const Part& each) {
    return each.digest.kind != Digest::Kind::Mixed || each.offset + each.bytes > in_memory;
  });
  std::ranges::sort(copies_, {}, &Part::address);
  clear();
}

}  // namespace custash
