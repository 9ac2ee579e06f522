// SPDX-License-Identifier: MIT
// Programs that are wrong on purpose: the race detector says so, and is silent once they are
// repaired. A device may run a wrong program rightly by chance, so there only the repaired ones
// are judged, by their values.
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

enum class Side { Waits, DoesNot };

// The documentation's: A filled on the default stream, summed on a side stream.
Tensor sum_on_the_side(Side waits) {
  const Stream side = Stream::make();
  const Tensor a = empty({100, 100}, on(Device::cuda())).normal_(1);
  if (waits == Side::Waits) side.wait_stream(Stream::current());
  const StreamGuard guard(side);
  const Tensor b = sum(a);
  side.synchronize();  // the race is the fill's and the sum's alone, not the frees'
  return b;
}

enum class Recorded { Yes, No };

// A block is used on a side stream, freed, and used again on its own stream.
std::vector<double> free_while_in_use(Recorded recorded) {
  const Stream side = Stream::make();
  Tensor a = full({100'000}, 1, on(Device::cuda()));
  side.wait_stream(Stream::current());
  Tensor b;
  {
    const StreamGuard guard(side);
    spin(2'000'000);
    b = a + 1;
  }
  if (recorded == Recorded::Yes) a.record_stream(side);
  a = Tensor();
  const Tensor again = full({100'000}, 9, on(Device::cuda()));
  side.synchronize();
  return b.values();
}

}  // namespace

TEST_CASE("S18 a sum on a side stream that does not wait is reported", "[simulator]") {
  const ExpectRace race("conflict");
  (void)sum_on_the_side(Side::DoesNot);
}

TEST_CASE("S18 with wait_stream it is right") {
  const NoRaces races;
  CHECK(sum_on_the_side(Side::Waits).item() == sum(empty({100, 100}).normal_(1)).item());
}

TEST_CASE("S19 on other streams order is the user's business: forgotten, it is reported",
          "[simulator]") {
  const ExpectRace race("conflict");
  const Tensor a = zeros({10'000}, on(Device::cuda()));
  synchronize();
  const Stream side = Stream::make();
  {
    const StreamGuard guard(side);
    zip_(Binary::Add, a, 1);
  }
  (void)a.values();  // read on the default stream, which nothing makes wait
}

TEST_CASE("record_stream forgotten: a block freed while a side stream uses it is reported",
          "[simulator]") {
  const ExpectRace race("free unordered");
  (void)free_while_in_use(Recorded::No);
}

TEST_CASE("record_stream forgotten: the next owner's race is reported too",
          "[simulator][custash]") {
  const ExpectRace race("ALLOCATOR FAULT");  // which the program brought about
  (void)free_while_in_use(Recorded::No);
}

TEST_CASE("record_stream keeps the block until the side stream is done with it") {
  const NoRaces races;
  CHECK(free_while_in_use(Recorded::Yes) == repeated(2, 100'000));
}
