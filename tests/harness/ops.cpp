// SPDX-License-Identifier: MIT
#include "tests/harness/ops.hpp"

#include "tests/harness/dispatch.hpp"

#include <dlfcn.h>

namespace custash::harness {
namespace {

void require_same_device(const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return;
  if (a.is_cuda() && b.is_cuda() && peer_access_enabled(a.device().index(), b.device().index()))
    return;
  throw DeviceMismatch("expected all tensors to be on the same device, but found " +
                       a.device().str() + " and " + b.device().str());
}

void require(bool right, const char* what) {
  if (!right) throw std::invalid_argument(what);
}

// What a product or a sum over rows takes.
void require_matrix(const Tensor& a) {
  require(a.shape().size() == 2, "expected a matrix");
}

Stream current_of(const Tensor& a) {
  return Stream::current(a.device().index());
}

std::uint64_t count(const Tensor& a) {
  return static_cast<std::uint64_t>(a.numel());
}

void zip_into(const Tensor& out, Binary op, const Tensor& a, const Tensor& b) {
  require_same_device(a, b);
  require(a.dtype() == b.dtype(), "operands of different types: convert one");
  require(b.numel() != 0 && a.numel() % b.numel() == 0, "shapes that do not fit");
  const bool across = !(a.device() == b.device());
  // As copies between devices do: b's stream comes before and goes on after.
  if (across) current_of(a).wait_stream(current_of(b));
  dispatch(
      Zip{out.data(), a.data(), b.data(), a.dtype(), count(a), count(b), 0, op}, out, {a, b});
  if (across) current_of(b).wait_stream(current_of(a));
}

void zip_into(const Tensor& out, Binary op, const Tensor& a, double b) {
  dispatch(Zip{out.data(), a.data(), nullptr, a.dtype(), count(a), 1, b, op}, out, {a});
}

// As in PyTorch: what is written may be an operand, but not overlap with one in part.
void require_no_partial_overlap(const Tensor& written, const Tensor& read) {
  if (!written.shares_storage(read) || written.numel() == 0 || read.numel() == 0) return;
  const auto* const w = static_cast<const char*>(written.data());
  const auto* const r = static_cast<const char*>(read.data());
  const bool apart = w + written.nbytes() <= r || r + read.nbytes() <= w;
  require(apart || (w == r && written.nbytes() == read.nbytes()),
          "the written tensor overlaps with an operand in part: clone the operand");
}

Tensor rank_sort(const Tensor& a) {
  Tensor out = empty_like(a);
  dispatch(RankSort{out.data(), a.data(), a.dtype(), count(a)}, out, {a});
  return out;
}

}  // namespace

Tensor zip(Binary op, const Tensor& a, const Tensor& b) {
  require_same_device(a, b);
  Tensor out = empty_like(a);
  zip_into(out, op, a, b);
  return out;
}

Tensor zip(Binary op, const Tensor& a, double b) {
  Tensor out = empty_like(a);
  zip_into(out, op, a, b);
  return out;
}

const Tensor& zip_(Binary op, const Tensor& a, const Tensor& b) {
  require_no_partial_overlap(a, b);
  zip_into(a, op, a, b);
  return a;
}

const Tensor& zip_(Binary op, const Tensor& a, double b) {
  zip_into(a, op, a, b);
  return a;
}

Tensor relu(const Tensor& a) {
  Tensor out = empty_like(a);
  dispatch(Map{out.data(), a.dtype(), a.data(), a.dtype(), count(a), Unary::Relu}, out, {a});
  return out;
}

Tensor sum(const Tensor& a) {
  constexpr std::uint64_t kLanes = 1024;
  const DType type = is_floating(a.dtype()) ? a.dtype() : DType::Int64;
  const DType between = is_floating(a.dtype()) ? DType::Float32 : DType::Int64;
  Tensor lanes = empty({static_cast<std::int64_t>(kLanes)}, {between, a.device()});
  Tensor out = empty({1}, {type, a.device()});
  dispatch(
      StridedSum{lanes.data(), between, a.data(), a.dtype(), count(a), kLanes}, lanes, {a});
  dispatch(StridedSum{out.data(), type, lanes.data(), between, kLanes, 1}, out, {lanes});
  return out;
}

Tensor sum_rows(const Tensor& a) {
  require_matrix(a);
  Tensor out = a.new_empty({a.size(1)});
  dispatch(
      StridedSum{out.data(), a.dtype(), a.data(), a.dtype(), count(a), count(out)}, out, {a});
  return out;
}

Tensor mean(const Tensor& a) {
  return sum(a) / static_cast<double>(a.numel());
}

Tensor matmul(const Tensor& a, const Tensor& b, Transpose of_a, Transpose of_b) {
  require_matrix(a);
  require_matrix(b);
  require_same_device(a, b);
  require(a.dtype() == DType::Float32 && b.dtype() == DType::Float32, "matmul is of float32");
  const bool turn_a = of_a == Transpose::Yes;
  const bool turn_b = of_b == Transpose::Yes;
  require(a.size(turn_a ? 0 : 1) == b.size(turn_b ? 1 : 0), "shapes that do not fit");
  const std::int64_t rows = a.size(turn_a ? 1 : 0);
  const std::int64_t columns = b.size(turn_b ? 0 : 1);
  Tensor out = a.new_empty({rows, columns});
  const MatMul work{static_cast<float*>(out.data()),
                    static_cast<const float*>(a.data()),
                    static_cast<const float*>(b.data()),
                    static_cast<std::uint64_t>(rows),
                    static_cast<std::uint64_t>(a.size(turn_a ? 0 : 1)),
                    static_cast<std::uint64_t>(columns),
                    turn_a,
                    turn_b};
  if (a.is_cuda() && blas::usable())
    blas::multiply(work, current_of(a));
  else
    dispatch(work, out, {a, b});
  return out;
}

Tensor sort(const Tensor& a) {
  const bool built =
      a.dtype() == DType::Float32 || a.dtype() == DType::Int32 || a.dtype() == DType::Int64;
  if (!a.is_cuda() || on_simulator() || !built) return rank_sort(a);
  const Stream stream = current_of(a);
  use_device(stream.device());
  Tensor out = empty_like(a);
  std::size_t bytes = 0;
  check(kernels::sort(nullptr, bytes, a.data(), out.data(), a.dtype(), count(a), stream.get()),
        "sort");
  const Tensor scratch = empty({static_cast<std::int64_t>(bytes)}, {DType::UInt8, a.device()});
  check(kernels::sort(
            scratch.data(), bytes, a.data(), out.data(), a.dtype(), count(a), stream.get()),
        "sort");
  return out;
}

void spin(std::uint64_t nanoseconds) {
  const Stream stream = Stream::current();
  use_device(stream.device());
  check(kernels::launch(Spin{nanoseconds}, stream.get()), "spin");
}

void fault() {
  const Stream stream = Stream::current();
  use_device(stream.device());
  check(kernels::launch(Fault{64}, stream.get()), "fault");
}

bool on_simulator() {
  static const bool simulated = [] {
    (void)device_count();
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver != nullptr && dlsym(driver, "custash_sim_detector") != nullptr;
  }();
  return simulated;
}

}  // namespace custash::harness
