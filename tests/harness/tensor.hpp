// SPDX-License-Identifier: MIT
// Tensor: a shape and an element type over a Storage that views share. Contiguous always. A
// copy of a Tensor is the same tensor. Work on it queues on the current stream of its device.
#pragma once

#include "tests/harness/dtype.hpp"
#include "tests/harness/storage.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace custash::harness {

using Shape = std::vector<std::int64_t>;

// Where and what a new tensor is; as torch.empty's dtype, device, pin_memory.
struct Options {
  DType dtype = DType::Float32;
  Device device = Device::cpu();
  bool pinned = false;
};

enum class Copy { Blocking, NonBlocking };

class DeviceMismatch : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: no storage
  Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, std::int64_t offset = 0);

  [[nodiscard]] bool defined() const { return storage_ != nullptr; }

  [[nodiscard]] Device device() const { return storage_->device(); }

  [[nodiscard]] bool is_cuda() const { return device().is_cuda(); }

  [[nodiscard]] bool is_pinned() const;

  [[nodiscard]] DType dtype() const { return dtype_; }

  [[nodiscard]] const Shape& shape() const { return shape_; }

  [[nodiscard]] std::int64_t size(std::size_t dimension) const { return shape_.at(dimension); }

  [[nodiscard]] std::int64_t numel() const;

  [[nodiscard]] Bytes nbytes() const;

  [[nodiscard]] void* data() const;

  [[nodiscard]] bool is_same(const Tensor& other) const;  // the same storage, place and shape

  [[nodiscard]] bool shares_storage(const Tensor& other) const {
    return storage_ == other.storage_;
  }

  [[nodiscard]] long use_count() const { return storage_.use_count(); }

  // ---- views

  [[nodiscard]] Tensor view(Shape shape) const;
  [[nodiscard]] Tensor narrow(std::int64_t start, std::int64_t length) const;  // of dimension 0

  // ---- copies

  [[nodiscard]] Tensor to(Device device, Copy how = Copy::Blocking) const;  // itself, if there
  [[nodiscard]] Tensor to(DType dtype) const;

  [[nodiscard]] Tensor cuda() const { return to(Device::cuda()); }

  [[nodiscard]] Tensor cuda(int index, Copy how = Copy::Blocking) const {
    return to(Device::cuda(index), how);
  }

  [[nodiscard]] Tensor cpu() const { return to(Device::cpu()); }

  [[nodiscard]] Tensor clone() const;
  [[nodiscard]] Tensor pin_memory() const;
  const Tensor& copy_(const Tensor& from, Copy how = Copy::Blocking) const;

  // ---- values; these wait for the device

  [[nodiscard]] double item() const;
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] std::string str() const;

  // ---- in place

  const Tensor& fill_(double value) const;

  const Tensor& uniform_(std::uint64_t seed) const;
  const Tensor& normal_(std::uint64_t seed) const;
  const Tensor& set_(const std::vector<double>& values) const;  // the host's, by a copy

  // ---- like this one

  [[nodiscard]] Options options() const { return {dtype_, device(), false}; }

  [[nodiscard]] Tensor new_empty(Shape shape) const;
  [[nodiscard]] Tensor new_full(Shape shape, double value) const;
  [[nodiscard]] Tensor new_tensor(const std::vector<double>& values, Shape shape) const;

  void record_stream(const Stream& stream) const { storage_->record_stream(stream); }

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  DType dtype_ = DType::Float32;
  std::int64_t offset_ = 0;  // in elements
};

// ---- factories

Tensor empty(Shape shape, const Options& options = {});
Tensor full(Shape shape, double value, const Options& options = {});
Tensor zeros(Shape shape, const Options& options = {});
Tensor ones(Shape shape, const Options& options = {});
Tensor rand(Shape shape, std::uint64_t seed, const Options& options = {});
Tensor randn(Shape shape, std::uint64_t seed, const Options& options = {});
Tensor tensor(const std::vector<double>& values, Shape shape, const Options& options = {});
Tensor empty_like(const Tensor& like);
Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);

// {.device = Device::cuda()} and its like, in a word
Options on(Device device, DType dtype = DType::Float32);

}  // namespace custash::harness
