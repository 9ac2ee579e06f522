// SPDX-License-Identifier: MIT
// S37: several processes at one device, memory shared between them, forks.
#include "tests/harness/ipc.hpp"
#include "tests/harness/need.hpp"

#include <thread>

using namespace custash;
using namespace custash::harness;

TEST_CASE("S37 several processes at one device each get their own results") {
  std::vector<Finished> done(3);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < done.size(); ++i)
    threads.emplace_back([&, i] { done[i] = run_child("worker " + std::to_string(i)); });
  for (std::thread& thread : threads)
    thread.join();
  for (std::size_t i = 0; i < done.size(); ++i) {
    const Tensor a = randn({200'000}, i);
    Tensor b = a;
    for (int step = 0; step < 50; ++step)
      b = relu(b * 2) - a;
    INFO(done[i].output);
    CHECK(done[i].status == 0);
    CHECK(std::stod(done[i].output) == Approx(sum(b).item()).epsilon(1e-8));
  }
}

TEST_CASE("S37 a tensor is shared with another process") {
  const Tensor a = to_shareable(full({10'000}, 1, on(Device::cuda())));
  const std::string text = share(a);
  const Finished child = run_child("open " + text);
  INFO(child.output);
  REQUIRE(child.status == 0);
  CHECK(child.output == "10000\n");
  CHECK(a.values() == repeated(2, 10'000));  // the child wrote that
}

TEST_CASE("S37 what is no handle, and a handle of one's own, is refused") {
  CHECK_THROWS_AS(open_shared("nonsense"), std::invalid_argument);
  const Tensor a = to_shareable(ones({100}, on(Device::cuda())));
  const std::string text = share(a);
  CHECK_THROWS_AS(open_shared(text), CudaError);
  CHECK(a.values() == repeated(1, 100));
}

TEST_CASE("S37 the driver's stream-ordered memory has no handle, and says so", "[bare]") {
  const Tensor a = ones({100}, on(Device::cuda()));
  CHECK_THROWS_AS(share(a), CudaError);
  (void)cudaGetLastError();
}

TEST_CASE("S37 a child forked after CUDA has begun gets a clear error, the parent goes on") {
  const Finished done = run_child("forked");
  CHECK(
      done.output ==
      "child: 3 CUDA was used before the fork and cannot be used in the child: start children "
      "by exec\nchild: on the cpu 7\nparent: 200\n");
}
