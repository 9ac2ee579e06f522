// SPDX-License-Identifier: MIT
// S11–S17, S19: queues, what waits and what does not.
#include "tests/harness/need.hpp"

#include <chrono>

using namespace custash;
using namespace custash::harness;

namespace {

constexpr std::uint64_t kLong = 50'000'000;  // nanoseconds that the device is busy

}  // namespace

TEST_CASE("S11 operations return before they are done, and their order hides it") {
  const NoRaces races;
  const Tensor a = zeros({1000}, on(Device::cuda()));
  synchronize();
  spin(kLong);
  a.fill_(1);
  const Tensor b = a + a;
  CHECK_FALSE(Stream::current().query());
  CHECK(b.values() == repeated(2, 1000));
  CHECK(Stream::current().query());
}

TEST_CASE("S12 a kernel's error shows at the next call that waits, or at once when blocking") {
  const Finished later = run_child("faulty");
  INFO(later.output);
  CHECK(later.output == "launch: 0\nvalues: 700\n");
  const Finished once = run_child("faulty", "CUDA_LAUNCH_BLOCKING=1");
  INFO(once.output);
  CHECK(once.output == "launch: 700\n");
}

TEST_CASE("S13 without a synchronisation only the launch is timed") {
  spin(1);
  synchronize();
  Event start(Event::Timing::On);
  Event end(Event::Timing::On);
  const auto seconds = [](auto what) {
    const auto before = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  };
  start.record();
  const double launch = seconds([] { spin(kLong); });
  end.record();
  CHECK_FALSE(end.query());
  const double work = seconds([] { synchronize(); });
  // Real time means something on a device only; the simulator's clock is the events'.
  if (!on_simulator()) CHECK(launch < work / 10);
  CHECK(start.elapsed_ms(end) >= 0.9 * kLong / 1e6);
}

TEST_CASE("S14 reading a value, printing and moving to the CPU wait") {
  const NoRaces races;
  const Tensor a = zeros({6}, on(Device::cuda()));
  for (const int way : {0, 1, 2, 3}) {
    spin(kLong / 10);
    a.fill_(way);
    CHECK_FALSE(Stream::current().query());
    if (way == 0) CHECK(a.cpu().values() == repeated(0, 6));
    if (way == 1) CHECK(sum(a).item() == 6);
    if (way == 2)
      CHECK(a.str() == "tensor([2, 2, 2, 2, 2, 2], shape=(6), device=cuda:0, dtype=float32)");
    if (way == 3) CHECK(a.values() == repeated(3, 6));
    CHECK(Stream::current().query());
  }
}

TEST_CASE("S15 a non-blocking copy returns before it is done where the host memory is pinned") {
  const NoRaces races;
  const Tensor pinned = full({100'000}, 4).pin_memory();
  const Tensor there = zeros({100'000}, on(Device::cuda()));
  const Tensor back = empty({100'000}, {DType::Float32, Device::cpu(), true});
  synchronize();
  spin(kLong);
  there.copy_(pinned, Copy::NonBlocking);
  zip_(Binary::Mul, there, 2);
  back.copy_(there, Copy::NonBlocking);
  CHECK_FALSE(Stream::current().query());
  synchronize();
  CHECK(back.values() == repeated(8, 100'000));
  spin(kLong / 10);
  there.copy_(pinned);
  CHECK(Stream::current().query());
}

TEST_CASE("S16 a stream runs in order, the default stream where none is chosen") {
  const NoRaces races;
  CHECK(Stream::current() == Stream::default_of());
  const Tensor a = zeros({100}, on(Device::cuda()));
  const Stream side = Stream::make();
  side.wait_stream(Stream::current());
  {
    const StreamGuard guard(side);
    CHECK(Stream::current() == side);
    for (int i = 1; i <= 100; ++i)
      zip_(Binary::Add, a, i);
  }
  CHECK(Stream::current() == Stream::default_of());
  side.synchronize();
  CHECK(side.query());
  CHECK(a.values() == repeated(5050, 100));
}

TEST_CASE("S16 a stream guard sets the stream's device too, and nests", "[two]") {
  const Stream zero = Stream::make(0);
  const Stream one = Stream::make(1);
  const StreamGuard outer(zero);
  {
    const StreamGuard inner(one);
    CHECK(current_device() == 1);
    CHECK(Stream::current(0) == zero);
    CHECK(Stream::current() == one);
  }
  CHECK(current_device() == 0);
  CHECK(Stream::current(1) == Stream::default_of(1));
}

TEST_CASE("S17 streams overlap unless they are told to wait") {
  const Stream first = Stream::make();
  const Stream second = Stream::make();
  spin(1);
  synchronize();
  {
    const StreamGuard guard(first);
    spin(kLong);
  }
  {
    const StreamGuard guard(second);
    spin(1000);
  }
  second.synchronize();
  CHECK_FALSE(first.query());
  second.wait_stream(first);
  {
    const StreamGuard guard(second);
    spin(1000);
  }
  second.synchronize();
  CHECK(first.query());
}

TEST_CASE("S17 each way to wait makes the order right") {
  const Stream side = Stream::make();
  const NoRaces races;
  const Tensor a = zeros({50'000}, on(Device::cuda()));
  for (const int way : {0, 1, 2, 3}) {
    const Stream main = Stream::current();
    side.synchronize();
    a.fill_(way);
    if (way == 0) main.synchronize();
    if (way == 1) side.wait_stream(main);
    if (way == 2) {
      Event done;
      done.record();
      side.wait_event(done);
    }
    if (way == 3) synchronize();
    Tensor b;
    {
      const StreamGuard guard(side);
      b = a + 1;
    }
    main.wait_stream(side);
    CHECK((b + 0).values() == repeated(way + 1, 50'000));
    b.record_stream(main);
  }
}

TEST_CASE("S19 on the default stream data movement is in order by itself") {
  const NoRaces races;
  const Tensor a = full({20'000}, 2);
  Tensor b = a.cuda();
  zip_(Binary::Mul, b, 3);
  b = b + a.cuda();
  CHECK(b.cpu().values() == repeated(8, 20'000));
}
