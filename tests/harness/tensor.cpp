// SPDX-License-Identifier: MIT
#include "tests/harness/tensor.hpp"

#include "tests/harness/dispatch.hpp"

#include <numeric>
#include <sstream>

namespace custash::harness {
namespace {

std::int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

const char* name_of(DType type) {
  switch (type) {
    case DType::Float32:
      return "float32";
    case DType::Int64:
      return "int64";
    case DType::Int32:
      return "int32";
    case DType::UInt8:
      return "uint8";
  }
  return "?";
}

Tensor::Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, std::int64_t offset)
    : storage_(std::move(storage)), shape_(std::move(shape)), dtype_(dtype), offset_(offset) {
}

bool Tensor::is_pinned() const {
  return storage_ != nullptr && storage_->kind() == Storage::Kind::Pinned;
}

std::int64_t Tensor::numel() const {
  return product(shape_);
}

Bytes Tensor::nbytes() const {
  return static_cast<Bytes>(numel()) * size_of(dtype_);
}

void* Tensor::data() const {
  return static_cast<char*>(storage_->data()) +
         static_cast<std::uint64_t>(offset_) * size_of(dtype_);
}

bool Tensor::is_same(const Tensor& other) const {
  return storage_ == other.storage_ && offset_ == other.offset_ && shape_ == other.shape_ &&
         dtype_ == other.dtype_;
}

Tensor Tensor::view(Shape shape) const {
  if (product(shape) != numel())
    throw std::invalid_argument("view: another number of elements");
  return {storage_, std::move(shape), dtype_, offset_};
}

Tensor Tensor::narrow(std::int64_t start, std::int64_t length) const {
  if (start < 0 || length < 0 || start + length > size(0))
    throw std::out_of_range("narrow: outside the tensor");
  const std::int64_t row = size(0) == 0 ? 0 : numel() / size(0);
  Shape shape = shape_;
  shape[0] = length;
  return {storage_, std::move(shape), dtype_, offset_ + start * row};
}

Tensor Tensor::clone() const {
  Tensor copy = empty_like(*this);
  copy.copy_(*this, Copy::NonBlocking);
  return copy;
}

Tensor Tensor::to(Device device, Copy how) const {
  if (device == this->device()) return *this;
  Tensor there = empty(shape_, {dtype_, device});
  there.copy_(*this, how);
  return there;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out = empty(shape_, {dtype, device()});
  const auto n = static_cast<std::uint64_t>(numel());
  dispatch(Map{out.data(), dtype, data(), dtype_, n, Unary::Copy}, out, {*this});
  return out;
}

Tensor Tensor::pin_memory() const {
  if (is_pinned()) return *this;
  if (is_cuda()) throw std::invalid_argument("only tensors of the CPU can be pinned");
  Tensor pinned = empty(shape_, {dtype_, Device::cpu(), true});
  pinned.copy_(*this);
  return pinned;
}

double Tensor::item() const {
  if (numel() != 1) throw std::invalid_argument("item: not one element");
  return values().front();
}

std::vector<double> Tensor::values() const {
  const Tensor here = cpu();
  host_touches(here, detector::Touch::Read);
  std::vector<double> out(static_cast<std::size_t>(numel()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = load(here.data(), dtype_, i);
  return out;
}

std::string Tensor::str() const {
  constexpr std::size_t kShown = 8;
  std::ostringstream out;
  out << "tensor([";
  const std::vector<double> all = values();
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i)
    out << (i == 0 ? "" : ", ") << all[i];
  out << (all.size() > kShown ? ", …" : "") << "], shape=(";
  for (std::size_t i = 0; i < shape_.size(); ++i)
    out << (i == 0 ? "" : ", ") << shape_[i];
  out << "), device=" << device().str() << ", dtype=" << name_of(dtype_) << ")";
  return out.str();
}

// ---- in place

const Tensor& Tensor::fill_(double value) const {
  dispatch(Fill{data(), dtype_, static_cast<std::uint64_t>(numel()), value}, *this);
  return *this;
}

const Tensor& Tensor::uniform_(std::uint64_t seed) const {
  dispatch(Random{data(), dtype_, static_cast<std::uint64_t>(numel()), seed, false}, *this);
  return *this;
}

const Tensor& Tensor::normal_(std::uint64_t seed) const {
  dispatch(Random{data(), dtype_, static_cast<std::uint64_t>(numel()), seed, true}, *this);
  return *this;
}

const Tensor& Tensor::set_(const std::vector<double>& values) const {
  if (static_cast<std::int64_t>(values.size()) != numel())
    throw std::invalid_argument("set_: another number of elements");
  if (is_cuda()) return copy_(empty(shape_, {dtype_}).set_(values));
  host_touches(*this, detector::Touch::Write);
  for (std::size_t i = 0; i < values.size(); ++i)
    store(data(), dtype_, i, values[i]);
  return *this;
}

// ---- creation

Tensor Tensor::new_empty(Shape shape) const {
  return empty(std::move(shape), options());
}

Tensor Tensor::new_full(Shape shape, double value) const {
  return full(std::move(shape), value, options());
}

Tensor Tensor::new_tensor(const std::vector<double>& values, Shape shape) const {
  return tensor(values, std::move(shape), options());
}

Tensor empty(Shape shape, const Options& options) {
  const Bytes bytes = static_cast<Bytes>(product(shape)) * size_of(options.dtype);
  auto storage =
      options.device.is_cuda()
          ? Storage::on_device(bytes, Stream::current(options.device.index()))
          : Storage::on_host(bytes,
                             options.pinned ? Storage::Kind::Pinned : Storage::Kind::Pageable);
  return {std::move(storage), std::move(shape), options.dtype};
}

Tensor full(Shape shape, double value, const Options& options) {
  return empty(std::move(shape), options).fill_(value);
}

Tensor zeros(Shape shape, const Options& options) {
  return full(std::move(shape), 0, options);
}

Tensor ones(Shape shape, const Options& options) {
  return full(std::move(shape), 1, options);
}

Tensor rand(Shape shape, std::uint64_t seed, const Options& options) {
  return empty(std::move(shape), options).uniform_(seed);
}

Tensor randn(Shape shape, std::uint64_t seed, const Options& options) {
  return empty(std::move(shape), options).normal_(seed);
}

Tensor tensor(const std::vector<double>& values, Shape shape, const Options& options) {
  return empty(std::move(shape), options).set_(values);
}

Tensor empty_like(const Tensor& like) {
  return like.new_empty(like.shape());
}

Tensor zeros_like(const Tensor& like) {
  return like.new_full(like.shape(), 0);
}

Tensor ones_like(const Tensor& like) {
  return like.new_full(like.shape(), 1);
}

Options on(Device device, DType dtype) {
  return {dtype, device};
}

}  // namespace custash::harness
