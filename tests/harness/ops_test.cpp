// SPDX-License-Identifier: MIT
// The operations themselves: a device computes what the CPU does, to the bit but for cuBLAS.
#include "tests/harness/need.hpp"

#include <algorithm>

using namespace custash;
using namespace custash::harness;

namespace {

void check_same(const std::string& what, const Tensor& there, const Tensor& here) {
  INFO(what);
  CHECK(there.is_cuda());
  CHECK(there.dtype() == here.dtype());
  CHECK(there.values() == here.values());
}

}  // namespace

TEST_CASE("element-wise operations, with scalars and rows") {
  const NoRaces races;
  for (const DType type : {DType::Float32,
                           DType::Float16,
                           DType::BFloat16,
                           DType::Int64,
                           DType::Int32,
                           DType::UInt8}) {
    const Tensor a = (randn({40, 25}, 1) * 20).to(type);
    const Tensor b = (randn({40, 25}, 2) * 20).to(type);
    const Tensor x = a.cuda();
    const Tensor y = b.cuda();
    for (const Binary op :
         {Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::ReluGrad}) {
      const std::string what =
          std::string(name_of(type)) + ", operation " + std::to_string(static_cast<int>(op));
      // A float divided by zero is not comparable with itself.
      const Tensor divisor = op == Binary::Div && is_floating(type) ? b * 0 + 3 : b;
      check_same(what, zip(op, x, divisor.cuda()), zip(op, a, divisor));
      check_same(what + " and a row",
                 zip(op, x, divisor.narrow(0, 1).cuda()),
                 zip(op, a, divisor.narrow(0, 1)));
      check_same(what + " and a scalar", zip(op, x, 7), zip(op, a, 7));
    }
    for (const Unary op : {Unary::Copy, Unary::Relu, Unary::Neg, Unary::Abs})
      check_same(name_of(type), map(op, x), map(op, a));
    zip_(Binary::Add, x, y);
    check_same("in place", x, a + b);
  }
}

TEST_CASE("an operand that overlaps in part with what is written is an error") {
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    const Tensor a = ones({100}, on(device));
    CHECK_THROWS_AS(zip_(Binary::Add, a, a.narrow(50, 50)), std::invalid_argument);
    CHECK_THROWS_AS(zip_(Binary::Add, a.narrow(0, 60), a.narrow(40, 60)),
                    std::invalid_argument);
    zip_(Binary::Add, a, a);
    zip_(Binary::Add, a.narrow(0, 50), a.narrow(50, 50));
    CHECK(a.narrow(0, 50).values() == std::vector<double>(50, 4));
    CHECK(a.narrow(50, 50).values() == std::vector<double>(50, 2));
  }
}

TEST_CASE("sums are those of the CPU, to the bit") {
  const NoRaces races;
  const Tensor a = randn({123, 77}, 3);
  check_same("sum", sum(a.cuda()), sum(a));
  check_same("sum of columns", sum_rows(a.cuda()), sum_rows(a));
  const Tensor n = (a * 1000).to(DType::Int32);
  check_same("sum of integers", sum(n.cuda()), sum(n));
  CHECK(sum(n).dtype() == DType::Int64);
  CHECK(sum(ones({100'000}, on(Device::cuda()))).item() == 100'000);
}

TEST_CASE("products of matrices, also of transposed ones") {
  const NoRaces races;
  const Tensor a = randn({30, 20}, 4);
  const Tensor b = randn({20, 10}, 5);
  const Tensor expected = matmul(a, b);
  CHECK(expected.shape() == Shape{30, 10});
  const auto near = [&](const Tensor& product, const Tensor& wanted) {
    const auto left = product.values();
    const auto right = wanted.values();
    REQUIRE(left.size() == right.size());
    for (std::size_t i = 0; i < left.size(); ++i)
      REQUIRE(left[i] == Approx(right[i]).margin(1e-2));  // cuBLAS may round to tf32
    if (!blas::usable()) CHECK(left == right);
  };
  near(matmul(a.cuda(), b.cuda()), expected);
  const Tensor square = randn({16, 16}, 6);
  const Tensor other = randn({16, 16}, 7);
  for (const Transpose of_a : {Transpose::No, Transpose::Yes})
    for (const Transpose of_b : {Transpose::No, Transpose::Yes})
      near(matmul(square.cuda(), other.cuda(), of_a, of_b), matmul(square, other, of_a, of_b));
  CHECK(matmul(tensor({1, 2}, {1, 2}), tensor({3, 4}, {2, 1})).item() == 11);
  CHECK_THROWS_AS(matmul(a, a), std::invalid_argument);
}

TEST_CASE("sorting") {
  const NoRaces races;
  for (const DType type : {DType::Float32, DType::Int32, DType::Int64, DType::UInt8}) {
    const Tensor a = (rand({1000}, 9) * 200).to(type);
    std::vector<double> expected = a.values();
    std::sort(expected.begin(), expected.end());
    INFO(name_of(type));
    CHECK(sort(a).values() == expected);
    CHECK(sort(a.cuda()).values() == expected);
    CHECK(rank_sort(a.cuda()).values() == expected);
  }
}
