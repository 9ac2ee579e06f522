// SPDX-License-Identifier: MIT
// Operations on tensors. Operands are on one device, or the error names both; results are there
// too. With peer access enabled an operation may read its second operand across (zip).
#pragma once

#include "tests/harness/tensor.hpp"
#include "tests/harness/work.hpp"

namespace custash::harness {

// b: of a's shape, a row of it, or one element.
Tensor zip(Binary op, const Tensor& a, const Tensor& b);
Tensor zip(Binary op, const Tensor& a, double b);
const Tensor& zip_(Binary op, const Tensor& a, const Tensor& b);  // into a
const Tensor& zip_(Binary op, const Tensor& a, double b);

Tensor relu(const Tensor& a);

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return zip(Binary::Add, a, b);
}

inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return zip(Binary::Sub, a, b);
}

inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return zip(Binary::Mul, a, b);
}

inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return zip(Binary::Div, a, b);
}

inline Tensor operator+(const Tensor& a, double b) {
  return zip(Binary::Add, a, b);
}

inline Tensor operator-(const Tensor& a, double b) {
  return zip(Binary::Sub, a, b);
}

inline Tensor operator*(const Tensor& a, double b) {
  return zip(Binary::Mul, a, b);
}

inline Tensor operator/(const Tensor& a, double b) {
  return zip(Binary::Div, a, b);
}

Tensor sum(const Tensor& a);       // one element; of integers an int64
Tensor sum_rows(const Tensor& a);  // [rows, columns] -> [columns]
Tensor mean(const Tensor& a);

enum class Transpose { No, Yes };
// [rows, inner] x [inner, columns], float32; `Yes` for an operand that is stored transposed. By
// cuBLAS on a GPU that has it and where it is wanted, else by a kernel of the harness.
Tensor matmul(const Tensor& a,
              const Tensor& b,
              Transpose of_a = Transpose::No,
              Transpose of_b = Transpose::No);

// Ascending; on a GPU by CUB, for the types that it is built for, else by a kernel of the
// harness.
Tensor sort(const Tensor& a);

// Keeps the current stream of the current device busy; writes to an address that is nobody's.
void spin(std::uint64_t nanoseconds);
void fault();

bool on_simulator();  // its driver knows the harness's kernels, and no libraries'

namespace blas {

bool usable();
// C of MatMul, by cublasSgemm.
void multiply(const MatMul& work, const Stream& stream);

}  // namespace blas
}  // namespace custash::harness
