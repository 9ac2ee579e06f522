// SPDX-License-Identifier: MIT
// Storage: bytes that one or several tensors share, freed with the last of them. Device memory
// is the stream's that was current when it was made; another stream that uses it is recorded.
#pragma once

#include "tests/harness/memory.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace custash::harness {

class Storage {
 public:
  enum class Kind { Pageable, Pinned, Device };
  using Release = std::function<void()>;

  static std::shared_ptr<Storage> on_device(Bytes bytes, const Stream& stream);
  // By cudaMalloc and cudaFree, as programs do that think of no stream: usable on all, freed
  // for all.
  static std::shared_ptr<Storage> plain(Bytes bytes, int device);
  static std::shared_ptr<Storage> on_host(Bytes bytes, Kind kind);
  // Memory of somebody else's (another process's, a graph's), let go by `release`.
  static std::shared_ptr<Storage> borrow(void* data, const Stream& stream, Release release);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] void* data() const { return data_; }

  [[nodiscard]] Kind kind() const { return kind_; }

  [[nodiscard]] Device device() const {
    return kind_ == Kind::Device ? Device::cuda(stream_.device()) : Device::cpu();
  }

  void record_stream(const Stream& stream);

 private:
  Storage(Kind kind, void* data, const Stream& stream, Release release);

  Kind kind_;
  void* data_;
  Stream stream_;
  Release release_;
  std::mutex mutex_;
  std::vector<Stream> recorded_;
};

}  // namespace custash::harness
