// SPDX-License-Identifier: MIT
// S36: one process, all its devices; and threads that share one.
#include "tests/harness/parallel.hpp"

#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

Tensor network(const Tensor& x, const std::vector<Tensor>& weights) {
  return relu(matmul(x, weights[0]) + weights[1]) * 2;
}

void check_data_parallel(const std::vector<int>& devices) {
  const NoRaces races;
  const Tensor batch = randn({103, 32}, 1);
  const std::vector<Tensor> weights = {randn({32, 8}, 2), randn({8}, 3)};
  const std::vector<double> expected = network(batch, weights).values();
  for (int round = 0; round < 3; ++round) {
    const Tensor result =
        data_parallel(network,
                      batch.cuda(devices[0]),
                      {weights[0].cuda(devices[0]), weights[1].cuda(devices[0])},
                      devices);
    CHECK(result.device() == Device::cuda(devices[0]));
    CHECK(result.shape() == Shape{103, 8});
    const std::vector<double> values = result.values();
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::abs(values[i] - expected[i]));
    CHECK(worst <= (blas::usable() ? 0.05 : 0));
  }
}

}  // namespace

TEST_CASE("S36 data parallel on two devices", "[two]") {
  check_data_parallel({0, 1});
}

TEST_CASE("S36 data parallel on four devices", "[four]") {
  check_data_parallel({0, 1, 2, 3});
}

TEST_CASE("S36 data parallel is also right when one device does it all") {
  check_data_parallel({0, 0});
}

TEST_CASE("S36 scatter and gather are each other's inverse", "[two]") {
  const NoRaces races;
  const Tensor batch = rand({7, 3}, 4);
  const std::vector<Tensor> pieces = scatter(batch, {1, 0});
  CHECK(pieces[0].device() == Device::cuda(1));
  CHECK(pieces[0].size(0) == 4);
  CHECK(pieces[1].size(0) == 3);
  CHECK(gather(pieces, 1).values() == batch.values());
}

TEST_CASE("S36 an error on one device reaches the caller", "[two]") {
  CHECK_THROWS_AS(parallel_apply(
                      [](std::size_t i) -> Tensor {
                        if (i == 1) throw DeviceMismatch("here");
                        return ones({1}, on(Device::cuda()));
                      },
                      {0, 1}),
                  DeviceMismatch);
}

TEST_CASE("threads with streams of their own share a device") {
  const NoRaces races;
  std::vector<double> sums(4);
  run_threads(4, [&](std::size_t i) {
    const StreamGuard guard(Stream::make());
    Tensor a = full({50'000}, static_cast<double>(i), on(Device::cuda()));
    for (int step = 0; step < 20; ++step)
      a = a + 1;
    sums[i] = sum(a).item();
    Stream::current().synchronize();
  });
  for (std::size_t i = 0; i < sums.size(); ++i)
    CHECK(sums[i] == 50'000 * (20 + static_cast<double>(i)));
}
