// SPDX-License-Identifier: MIT
#include "tests/harness/storage.hpp"

#include "tests/harness/detector.hpp"
#include "tests/harness/graph.hpp"

#include <algorithm>
#include <cstdlib>

namespace custash::harness {

Storage::Storage(Kind kind, void* data, const Stream& stream, Release release)
    : kind_(kind), data_(data), stream_(stream), release_(std::move(release)) {
}

std::shared_ptr<Storage> Storage::on_device(Bytes bytes, const Stream& stream) {
  using Made = std::shared_ptr<Storage>;
  if (bytes == 0) return Made(new Storage(Kind::Device, nullptr, stream, {}));
  if (const auto memory = GraphMemory::capturing(stream)) {
    void* data = memory->take(bytes);
    return borrow(data, stream, [memory, data] { memory->put_back(data); });
  }
  void* data = allocate(bytes, stream);
  Made made(new Storage(Kind::Device, data, stream, {}));
  detector::allocated(data, bytes, &stream);
  return made;
}

std::shared_ptr<Storage> Storage::plain(Bytes bytes, int device) {
  use_device(device);
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  detector::allocated(memory, bytes, nullptr);
  return borrow(memory, Stream::default_of(device), [memory, device] {
    use_device(device);
    detector::freed(memory, nullptr);
    (void)cudaFree(memory);
  });
}

std::shared_ptr<Storage> Storage::on_host(Bytes bytes, Kind kind) {
  const Stream none = Stream::default_of(0);
  void* data = nullptr;
  if (kind == Kind::Pinned && bytes != 0) {
    data = allocate_pinned(bytes);
    detector::allocated(data, bytes, nullptr);
  } else if (bytes != 0) {
    data = std::malloc(bytes);
    if (data == nullptr) throw std::bad_alloc();
  }
  return std::shared_ptr<Storage>(new Storage(kind, data, none, {}));
}

std::shared_ptr<Storage> Storage::borrow(void* data, const Stream& stream, Release release) {
  return std::shared_ptr<Storage>(new Storage(Kind::Device, data, stream, std::move(release)));
}

Storage::~Storage() {
  if (kind_ == Kind::Pageable) std::free(data_);
  if (kind_ == Kind::Pageable || data_ == nullptr) return;
  try {
    if (release_) {
      release_();
      return;
    }
    detector::freed(data_, kind_ == Kind::Device ? &stream_ : nullptr);
  } catch (const CudaError&) {
    // As in release(): a forked child, or a device that is gone.
  }
  if (kind_ == Kind::Pinned)
    release_pinned(data_, recorded_);
  else
    release(data_, stream_, recorded_);
}

void Storage::record_stream(const Stream& stream) {
  const bool own = kind_ == Kind::Device && stream == stream_;
  if (kind_ == Kind::Pageable || own || data_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (std::find(recorded_.begin(), recorded_.end(), stream) != recorded_.end()) return;
  recorded_.push_back(stream);
  if (release_ || kind_ != Kind::Device) return;
  note_use(data_, stream);
  detector::recorded(data_, stream);
}

}  // namespace custash::harness
