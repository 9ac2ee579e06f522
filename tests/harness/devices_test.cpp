// SPDX-License-Identifier: MIT
// S1–S9: devices, where tensors live, and what starts CUDA.
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

TEST_CASE("S1 a guard sets the current device for a scope, also nested", "[two]") {
  const NoRaces races;
  const int outside = current_device();
  REQUIRE(zeros({4}, on(Device::cuda())).device() == Device::cuda(outside));
  {
    const DeviceGuard first(1);
    CHECK(zeros({4}, on(Device::cuda())).device() == Device::cuda(1));
    {
      const DeviceGuard second(0);
      CHECK(zeros({4}, on(Device::cuda())).device() == Device::cuda(0));
    }
    CHECK(current_device() == 1);
    CHECK(zeros({4}, on(Device::cuda())).device() == Device::cuda(1));
  }
  CHECK(current_device() == outside);
}

TEST_CASE("S1 a guard is undone by an exception", "[two]") {
  CHECK_THROWS_AS(
      [] {
        const DeviceGuard guard(1);
        throw std::runtime_error("out");
      }(),
      std::runtime_error);
  CHECK(current_device() == 0);
}

TEST_CASE("S2 an explicit index overrides the current device", "[four]") {
  const NoRaces races;
  const DeviceGuard guard(1);
  CHECK(ones({2}, on(Device::cuda(2))).device() == Device::cuda(2));
  CHECK(ones({2}).cuda(3).device() == Device::cuda(3));
  CHECK(ones({2}).cuda().device() == Device::cuda(1));
}

TEST_CASE("S3 a tensor works whatever the current device is, results are with it", "[two]") {
  const NoRaces races;
  const Tensor a = full({1000}, 3, on(Device::cuda(1)));
  const DeviceGuard guard(0);
  const Tensor b = a * 2 + a;
  CHECK(b.device() == Device::cuda(1));
  CHECK(sum(b).device() == Device::cuda(1));
  CHECK(b.values() == repeated(9, 1000));
}

TEST_CASE("S4 an operation across devices is an error that names both", "[two]") {
  const Tensor a = ones({8}, on(Device::cuda(0)));
  const Tensor b = ones({8}, on(Device::cuda(1)));
  const Tensor host = ones({8});
  CHECK_THROWS_WITH(
      a + b, "expected all tensors to be on the same device, but found cuda:0 and cuda:1");
  CHECK_THROWS_WITH(host * b,
                    "expected all tensors to be on the same device, but found cpu and cuda:1");
  CHECK_THROWS_AS(matmul(a.view({8, 1}), b.view({1, 8})), DeviceMismatch);
}

TEST_CASE("S4 copies may cross devices", "[two]") {
  const NoRaces races;
  const Tensor a = full({5000}, 7, on(Device::cuda(0)));
  Tensor b = zeros({5000}, on(Device::cuda(1)));
  b.copy_(a);
  CHECK(b.values() == repeated(7, 5000));
  b.fill_(8);
  CHECK(b.to(Device::cuda(0)).values() == repeated(8, 5000));
  CHECK(a.values() == repeated(7, 5000));
}

TEST_CASE("S4 with peer access a kernel may read across", "[two]") {
  if (!can_access_peer(0, 1)) {
    WARN("these devices are no peers");
    return;
  }
  const NoRaces races;
  enable_peer_access(0, 1);
  const Tensor a = full({3000}, 1, on(Device::cuda(0)));
  // Memory of cudaMalloc's: stream-ordered memory of another device is in reach of no kernel
  // bare, until its pool says so.
  Tensor b(Storage::plain(3000 * sizeof(float), 1), {3000}, DType::Float32);
  b.fill_(2);
  const Tensor c = a + b;
  CHECK(c.device() == Device::cuda(0));
  CHECK(c.values() == repeated(3, 3000));
}

TEST_CASE("S4 what a kernel reads across is kept until it has", "[two][custash]") {
  if (!can_access_peer(0, 1)) return;
  const NoRaces races;
  enable_peer_access(0, 1);
  const Tensor a = full({3000}, 1, on(Device::cuda(0)));
  Tensor b = full({3000}, 2, on(Device::cuda(1)));
  const Tensor c = a + b;
  b = Tensor();  // freed while the other device may still read it
  const Tensor d = full({3000}, 5, on(Device::cuda(1)));
  CHECK(c.device() == Device::cuda(0));
  CHECK(c.values() == repeated(3, 3000));
  CHECK(d.values() == repeated(5, 3000));
}

TEST_CASE("S5 a host tensor goes to the current device, by every spelling", "[two]") {
  const NoRaces races;
  const Tensor host = tensor({1, 2, 3}, {3});
  const DeviceGuard guard(1);
  CHECK(host.cuda().device() == Device::cuda(1));
  CHECK(host.to(Device::cuda()).device() == Device::cuda(1));
  CHECK(host.to(Device::parse("cuda")).device() == Device::cuda(1));
  CHECK(host.cuda().values() == host.values());
}

TEST_CASE("S6 to the device where it is gives the same tensor") {
  const Tensor a = ones({100}, on(Device::cuda()));
  const auto before = memory_allocated();
  CHECK(a.to(Device::cuda()).is_same(a));
  CHECK(a.cuda().is_same(a));
  CHECK(a.to(DType::Float32).is_same(a));
  CHECK(a.cpu().cpu().device() == Device::cpu());
  CHECK(memory_allocated() == before);
  CHECK_FALSE(a.clone().is_same(a));
}

TEST_CASE("S7 a tensor tells its device, the process its devices") {
  CHECK(is_available());
  CHECK(device_count() >= 1);
  CHECK(current_device() == 0);
  CHECK(ones({1}).device().str() == "cpu");
  CHECK_FALSE(ones({1}).is_cuda());
  const Tensor there = ones({1}, on(Device::cuda()));
  CHECK(there.is_cuda());
  CHECK(there.device().str() == "cuda:0");
  CHECK_THROWS_AS(zeros({1}, on(Device::cuda(device_count()))), CudaError);
}

TEST_CASE("S7 CUDA_VISIBLE_DEVICES limits and renumbers", "[two]") {
  const Finished all = run_child("devices");
  const Finished second = run_child("devices", "CUDA_VISIBLE_DEVICES=1");
  INFO(all.output << second.output);
  REQUIRE(all.status == 0);
  REQUIRE(second.status == 0);
  // "N BUS BUS …": the second device is there alone, as cuda:0.
  CHECK(second.output.rfind("1 ", 0) == 0);
  std::string bus = second.output.substr(2);
  bus.pop_back();
  CHECK(all.output.find(bus) > all.output.find(' ') + 1);
  CHECK(run_child("devices", "CUDA_VISIBLE_DEVICES=").output == "0\n");
}

TEST_CASE("S8 nothing of CUDA starts before the first tensor there") {
  const Finished done = run_child("lazy");
  INFO(done.output);
  CHECK(done.status == 0);
  CHECK(done.output ==
        "asked: initialized 0, context 0\n"
        "on the cpu: initialized 0, context 0\n"
        "on cuda: initialized 1, context 1\n");
}

TEST_CASE("S9 the same code runs on either device") {
  const NoRaces races;
  const auto program = [](Device device) {
    const Tensor a = rand({64, 32}, 1, on(device));
    const Tensor b = randn({32, 16}, 2, on(device));
    const Tensor c = relu(a * 2 - 1);
    return (sum_rows(c) + sort(c.view({2048})).narrow(0, 32) * 3 + sum(b)).values();
  };
  CHECK(program(Device::cpu()) == program(is_available() ? Device::cuda() : Device::cpu()));
}
