// SPDX-License-Identifier: MIT
// S10: tensors made like others and from nothing; types; views and reference counts.
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

constexpr DType kTypes[] = {DType::Float32, DType::Int64, DType::Int32, DType::UInt8};

}  // namespace

TEST_CASE("S10 new_full, new_tensor and new_empty keep device and dtype") {
  const NoRaces races;
  const Tensor cpu = empty({1});
  const Tensor gpu = empty({1}, on(Device::cuda()));
  CHECK(cpu.new_full({3, 2}, 0.3).values() == repeated(0.3F, 6));
  CHECK(cpu.new_full({3, 2}, 0.3).device() == Device::cpu());
  CHECK(gpu.new_full({3, 2}, -5).values() == repeated(-5, 6));
  CHECK(gpu.new_full({3, 2}, -5).device() == gpu.device());
  const Tensor integers =
      empty({1}, on(Device::cuda(), DType::Int64)).new_tensor({1, 2, 3}, {1, 3});
  CHECK(integers.dtype() == DType::Int64);
  CHECK(integers.shape() == Shape{1, 3});
  CHECK(integers.values() == std::vector<double>{1, 2, 3});
  for (const DType type : kTypes) {
    const Tensor like = zeros({2}, on(Device::cuda(), type));
    CHECK(like.new_empty({5}).dtype() == type);
    CHECK(like.new_empty({5}).device() == like.device());
    CHECK(like.new_empty({5}).shape() == Shape{5});
  }
}

TEST_CASE("S10 zeros_like and ones_like keep device, dtype and shape") {
  const NoRaces races;
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    for (const DType type : kTypes) {
      const Tensor like = full({2, 3}, 1, on(device, type));
      for (const Tensor& made : {zeros_like(like), ones_like(like)}) {
        CHECK(made.device() == device);
        CHECK(made.dtype() == type);
        CHECK(made.shape() == Shape{2, 3});
      }
      CHECK(zeros_like(like).values() == repeated(0, 6));
      CHECK(ones_like(like).values() == repeated(1, 6));
    }
  }
}

TEST_CASE("S10 factories use the current device and their arguments", "[two]") {
  const DeviceGuard guard(1);
  CHECK(zeros({3}, on(Device::cuda(), DType::Int32)).device() == Device::cuda(1));
  CHECK(zeros({3}, on(Device::cuda(0))).device() == Device::cuda(0));
  CHECK(full({3}, 2, on(Device::cuda(), DType::UInt8)).dtype() == DType::UInt8);
}

TEST_CASE("S10 random numbers are the seed's, on either device") {
  const NoRaces races;
  const Tensor there = randn({5000}, 7, on(Device::cuda()));
  CHECK(there.values() == randn({5000}, 7).values());
  CHECK(there.values() != randn({5000}, 8).values());
  CHECK(rand({5000}, 7, on(Device::cuda())).values() == rand({5000}, 7).values());
  CHECK(mean(there).item() == Approx(0).margin(0.05));
  CHECK(mean(there * there).item() == Approx(1).margin(0.05));
}

TEST_CASE("views share storage, and the last reference frees it") {
  const NoRaces races;
  synchronize();
  const auto before = memory_allocated();
  Tensor a = zeros({4, 1000}, on(Device::cuda()));
  const auto with = memory_allocated();
  CHECK(with > before);
  Tensor row = a.narrow(2, 1).view({1000});
  CHECK(row.shares_storage(a));
  CHECK(a.use_count() == 2);
  row.fill_(1);
  CHECK(sum(a).item() == 1000);
  a = Tensor();
  CHECK(row.use_count() == 1);
  CHECK(memory_allocated() == with);
  CHECK(sum(row).item() == 1000);
  row = Tensor();
  synchronize();
  CHECK(memory_allocated() == before);
  CHECK_THROWS_AS(zeros({4}).narrow(3, 2), std::out_of_range);
}
