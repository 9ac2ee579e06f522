// SPDX-License-Identifier: MIT
// S30–S35: pinned memory, asynchronous copies, prefetching.
#include "tests/harness/loader.hpp"
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

// Milliseconds of one copy to the device: the best of several, by events.
double copy_ms(const Tensor& host, const Tensor& there) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    Event start(Event::Timing::On);
    Event end(Event::Timing::On);
    start.record();
    there.copy_(host);
    end.record();
    synchronize();
    best = std::min(best, start.elapsed_ms(end));
  }
  return best;
}

enum class Refill { AfterTheCopy, TooEarly };

// One buffer for all batches; each is copied and summed up.
double sum_of_batches(Refill refill) {
  const Tensor buffer = empty({10'000}, {DType::Float32, Device::cpu(), true});
  const Tensor there = empty({10'000}, on(Device::cuda()));
  const Tensor total = zeros({1}, on(Device::cuda()));
  for (int batch = 1; batch <= 3; ++batch) {
    buffer.fill_(batch);
    there.copy_(buffer, Copy::NonBlocking);
    Event copied;
    copied.record();
    zip_(Binary::Add, total, sum(there));
    if (refill == Refill::AfterTheCopy) copied.synchronize();
  }
  return total.item();
}

}  // namespace

TEST_CASE("S30 copies from pinned memory are faster than from pageable") {
  const Tensor pageable = full({64 * kMiBOfFloats}, 1);
  const Tensor pinned = pageable.pin_memory();
  const Tensor there = empty({64 * kMiBOfFloats}, on(Device::cuda()));
  const double slow = copy_ms(pageable, there);
  const double fast = copy_ms(pinned, there);
  WARN("64 MiB to the device: pageable " << slow << " ms, pinned " << fast << " ms, ratio "
                                         << slow / fast);
  CHECK(slow > 1.5 * fast);
}

TEST_CASE("S31 pin_memory returns a copy, the original stays as it is") {
  const NoRaces races;
  const Tensor a = tensor({1, 2, 3}, {3});
  const Tensor pinned = a.pin_memory();
  CHECK(pinned.is_pinned());
  CHECK_FALSE(a.is_pinned());
  CHECK_FALSE(pinned.shares_storage(a));
  pinned.fill_(9);
  CHECK(a.values() == std::vector<double>{1, 2, 3});
  CHECK(pinned.pin_memory().is_same(pinned));
  CHECK(pinned.cuda().values() == repeated(9, 3));
  CHECK_FALSE(pinned.cuda().is_pinned());
  CHECK_THROWS_AS(pinned.cuda().pin_memory(), std::invalid_argument);
}

TEST_CASE("S32 a copy from pinned memory overlaps with work on another stream") {
  const NoRaces races;
  const Tensor pinned = full({4 * kMiBOfFloats}, 3).pin_memory();
  const Stream side = Stream::make();
  spin(1);
  synchronize();
  Event begin(Event::Timing::On);
  Event end(Event::Timing::On);
  begin.record();
  spin(20'000'000);
  end.record();
  Event copied(Event::Timing::On);
  Tensor there;
  {
    const StreamGuard guard(side);
    there = pinned.to(Device::cuda(), Copy::NonBlocking);
    copied.record();
  }
  copied.synchronize();
  CHECK_FALSE(end.query());  // the copy did not wait for the kernel
  synchronize();
  CHECK(begin.elapsed_ms(copied) < begin.elapsed_ms(end));
  CHECK(there.narrow(0, 5).values() == repeated(3, 5));
}

TEST_CASE("S33 an allocation of pinned memory that fails is an error to be caught") {
  const std::int64_t too_much = std::int64_t{1} << 50;
  CHECK_THROWS_AS(empty({too_much}, {DType::UInt8, Device::cpu(), true}), CudaError);
  const Tensor after = full({10}, 1).pin_memory();
  CHECK(after.cuda().values() == repeated(1, 10));
}

TEST_CASE("S34 the first mistake: the context starts within the first transfer timed",
          "[gpu]") {
  const Finished cold = run_child("first_copy pageable");
  const Finished warm = run_child("first_copy pinned_after_context");
  REQUIRE(cold.status == 0);
  REQUIRE(warm.status == 0);
  const double factor = std::stod(cold.output) / std::stod(warm.output);
  WARN("S34: one transfer a process, " << factor << " x for pinned memory");
  const Tensor there = empty({kMiBOfFloats}, on(Device::cuda()));
  const Tensor pageable = full({kMiBOfFloats}, 1);
  const double right = copy_ms(pageable, there) / copy_ms(pageable.pin_memory(), there);
  CHECK(factor > 1.5 * right);  // no bus is that much faster than another
}

TEST_CASE("S34 the second mistake: what arrives in another process is pageable again") {
  const std::int64_t n = 10 * kMiBOfFloats;  // 40 MB, as in the text
  const Tensor pageable = full({n}, 1);
  const Tensor arrived = pageable.pin_memory().clone();  // a copy, as through a queue
  const Tensor there = empty({n}, on(Device::cuda()));
  const double slow = copy_ms(pageable, there);
  const double mistaken = slow / copy_ms(arrived, there);
  const double right = slow / copy_ms(pageable.pin_memory(), there);
  WARN("S34: a tensor from another process " << mistaken << " x, rightly measured " << right
                                             << " x");
  CHECK_FALSE(arrived.is_pinned());
  CHECK(arrived.values() == pageable.values());
  CHECK(mistaken < 1.5);
  CHECK(right > 1.5);
}

TEST_CASE("S35 the prefetching loader overlaps, is right, and races with nothing") {
  const NoRaces races;
  constexpr std::int64_t kBatches = 6;
  constexpr std::uint64_t kWork = 3'000'000;
  spin(1);
  synchronize();
  Event begin(Event::Timing::On);
  Event end(Event::Timing::On);
  PrefetchLoader loader(
      {4 * kMiBOfFloats}, DType::Float32, [](std::int64_t i, const Tensor& batch) {
        if (i < kBatches) batch.fill_(static_cast<double>(i));
        return i < kBatches;
      });
  const Tensor total = zeros({1}, on(Device::cuda()));
  std::int64_t batches = 0;
  begin.record();
  for (Tensor batch = loader.next(); batch.defined(); batch = loader.next()) {
    spin(kWork);
    zip_(Binary::Add, total, batch.narrow(0, 1));
    ++batches;
  }
  end.record();
  synchronize();
  CHECK(batches == kBatches);
  CHECK(total.item() == 15);
  // Work alone, and copies beside it: well below the two one after the other (80 µs a copy at
  // least).
  if (on_simulator()) CHECK(begin.elapsed_ms(end) < kBatches * (kWork / 1e6 + 0.07));
}

TEST_CASE("a pinned buffer refilled before its copy is done is reported", "[simulator]") {
  const ExpectRace race("conflict");
  (void)sum_of_batches(Refill::TooEarly);
}

TEST_CASE("a pinned buffer refilled after its copy is right") {
  const NoRaces races;
  CHECK(sum_of_batches(Refill::AfterTheCopy) == 60'000);
}
