// SPDX-License-Identifier: MIT
// Every kernel of the harness as a struct: its arguments, what one index does, what it touches.
// The CPU runs the index in a loop, kernels.cu in a grid, models.cpp on the simulator: one
// arithmetic, the same to the bit.
#pragma once

#include "tests/harness/arithmetic.hpp"

namespace custash::harness {

struct Fill {
  void* out;
  DType type;
  std::uint64_t n;
  double value;

  HARNESS_BOTH std::uint64_t count() const { return n; }

  HARNESS_BOTH void operator()(std::uint64_t i) const { store(out, type, i, value); }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, n * size_of(type), true);
  }
};

// Normal with mean 0 and variance 1, near enough: twelve uniform numbers less 6, since a
// logarithm is not the same to the bit everywhere. Or one uniform number.
struct Random {
  void* out;
  DType type;
  std::uint64_t n;
  std::uint64_t seed;
  bool normal;

  HARNESS_BOTH std::uint64_t count() const { return n; }

  HARNESS_BOTH void operator()(std::uint64_t i) const {
    double value = normal ? -6 : 0;
    const std::uint64_t draws = normal ? 12 : 1;
    for (std::uint64_t draw = 0; draw < draws; ++draw)
      value += uniform(seed, i * draws + draw);
    store(out, type, i, value);
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, n * size_of(type), true);
  }
};

// out = op(a), converted to another type where the types differ.
struct Map {
  void* out;
  DType out_type;
  const void* a;
  DType type;
  std::uint64_t n;
  Unary op;

  HARNESS_BOTH std::uint64_t count() const { return n; }

  HARNESS_BOTH void operator()(std::uint64_t i) const {
    if (is_floating(type) || is_floating(out_type))
      store(out, out_type, i, apply(op, load(a, type, i)));
    else
      store_integer(out, out_type, i, apply(op, load_integer(a, type, i)));
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, n * size_of(out_type), true);
    visit(const_cast<void*>(a), n * size_of(type), false);
  }
};

// out = op(a, b): b has as many elements, or n / repeats that start again (a row, one element),
// or is null and `scalar` stands for it.
struct Zip {
  void* out;
  const void* a;
  const void* b;
  DType type;
  std::uint64_t n;
  std::uint64_t b_count;
  double scalar;
  Binary op;

  HARNESS_BOTH std::uint64_t count() const { return n; }

  HARNESS_BOTH void operator()(std::uint64_t i) const {
    const std::uint64_t j = b == nullptr ? 0 : i % b_count;
    if (is_floating(type)) {
      const double right = b == nullptr ? scalar : load(b, type, j);
      store(out, type, i, apply(op, load(a, type, i), right));
      return;
    }
    // Without a sign, where overflow is defined; Div, Max and ReluGrad see the sign.
    const std::int64_t left = load_integer(a, type, i);
    const std::int64_t right =
        b == nullptr ? static_cast<std::int64_t>(scalar) : load_integer(b, type, j);
    const bool wraps = op == Binary::Add || op == Binary::Sub || op == Binary::Mul;
    store_integer(
        out,
        type,
        i,
        wraps ? static_cast<std::int64_t>(apply(
                    op, static_cast<std::uint64_t>(left), static_cast<std::uint64_t>(right)))
              : apply(op, left, right));
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, n * size_of(type), true);
    visit(const_cast<void*>(a), n * size_of(type), false);
    if (b != nullptr) visit(const_cast<void*>(b), b_count * size_of(type), false);
  }
};

// Sums of every `stride`-th element from i on: with stride = count() lanes, then 1, a whole sum
// in an order that does not depend on the device; with stride = columns, the sum of each
// column.
struct StridedSum {
  void* out;
  DType out_type;
  const void* a;
  DType type;
  std::uint64_t n;
  std::uint64_t stride;

  HARNESS_BOTH std::uint64_t count() const { return stride; }

  HARNESS_BOTH void operator()(std::uint64_t i) const {
    if (is_floating(type)) {
      double sum = 0;
      for (std::uint64_t at = i; at < n; at += stride)
        sum += load(a, type, at);
      store(out, out_type, i, sum);
    } else {
      std::uint64_t sum = 0;
      for (std::uint64_t at = i; at < n; at += stride)
        sum += static_cast<std::uint64_t>(load_integer(a, type, at));
      store_integer(out, out_type, i, static_cast<std::int64_t>(sum));
    }
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, stride * size_of(out_type), true);
    visit(const_cast<void*>(a), n * size_of(type), false);
  }
};

// out[rows, columns] = a[rows, inner] b[inner, columns], float32; a or b as stored transposed.
// A product of two floats is exact in double, so contraction changes nothing.
struct MatMul {
  float* out;
  const float* a;
  const float* b;
  std::uint64_t rows;
  std::uint64_t inner;
  std::uint64_t columns;
  bool a_transposed;
  bool b_transposed;

  HARNESS_BOTH std::uint64_t count() const { return rows * columns; }

  HARNESS_BOTH void operator()(std::uint64_t i) const {
    const std::uint64_t row = i / columns;
    const std::uint64_t column = i % columns;
    double sum = 0;
    for (std::uint64_t k = 0; k < inner; ++k) {
      const double left = a_transposed ? a[k * rows + row] : a[row * inner + k];
      const double right = b_transposed ? b[column * inner + k] : b[k * columns + column];
      sum += left * right;
    }
    out[i] = static_cast<float>(sum);
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, rows * columns * sizeof(float), true);
    visit(const_cast<float*>(a), rows * inner * sizeof(float), false);
    visit(const_cast<float*>(b), inner * columns * sizeof(float), false);
  }
};

// Each element goes to the place that its rank names; equal ones keep their order.
struct RankSort {
  void* out;
  const void* a;
  DType type;
  std::uint64_t n;

  HARNESS_BOTH std::uint64_t count() const { return n; }

  HARNESS_BOTH void operator()(std::uint64_t i) const {
    std::uint64_t rank = 0;
    for (std::uint64_t j = 0; j < n; ++j)
      rank += before(j, i) || (j < i && !before(i, j));
    if (is_floating(type))
      store(out, type, rank, load(a, type, i));
    else
      store_integer(out, type, rank, load_integer(a, type, i));
  }

  HARNESS_BOTH bool before(std::uint64_t i, std::uint64_t j) const {
    return is_floating(type) ? load(a, type, i) < load(a, type, j)
                             : load_integer(a, type, i) < load_integer(a, type, j);
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(out, n * size_of(type), true);
    visit(const_cast<void*>(a), n * size_of(type), false);
  }
};

// Keeps its stream busy.
struct Spin {
  std::uint64_t nanoseconds;

  HARNESS_BOTH std::uint64_t count() const { return 1; }

  HARNESS_BOTH void operator()(std::uint64_t) const {
#ifdef __CUDA_ARCH__
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    for (const std::uint64_t end = now + nanoseconds; now < end;)
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
  }

  template <typename Visit>
  void touches(Visit) const {
  }
};

// Writes where no memory is.
struct Fault {
  std::uint64_t address;

  HARNESS_BOTH std::uint64_t count() const { return 1; }

  HARNESS_BOTH void operator()(std::uint64_t) const {
    *reinterpret_cast<volatile int*>(address) = 1;
  }

  template <typename Visit>
  void touches(Visit visit) const {
    visit(reinterpret_cast<void*>(address), sizeof(int), true);
  }
};

#define HARNESS_WORKS(X) \
  X(Fill) X(Random) X(Map) X(Zip) X(StridedSum) X(MatMul) X(RankSort) X(Spin) X(Fault)

}  // namespace custash::harness
