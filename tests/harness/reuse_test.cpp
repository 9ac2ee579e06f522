// SPDX-License-Identifier: MIT
// S28 and S29: when memory is really given back. tools/demos/reuse shows the same at full size.
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

constexpr Bytes kUnit = 256_MiB;

Tensor unit(Device device) {
  return zeros({static_cast<std::int64_t>(kUnit / sizeof(float))}, on(device));
}

// Units held from the driver beyond what was there at the start.
class Reserved {
 public:
  Reserved() {
    synchronize();
    empty_cache();
    start_ = memory_reserved();
    outside_ = bytes_in_use_from_outside();
    host_ = resident_host_bytes();
  }

  [[nodiscard]] double units() const {
    const double units = static_cast<double>(memory_reserved() - start_) / kUnit;
    // What is reserved is what a watcher sees in use.
    if (outside_)
      CHECK(static_cast<double>(*bytes_in_use_from_outside() - *outside_) / kUnit ==
            Approx(units).margin(0.1));
    return units;
  }

  // Of pageable host memory, which is given back at once.
  [[nodiscard]] double host_units() const {
    synchronize();  // simulated pages are the host's when they are written
    return (static_cast<double>(resident_host_bytes()) - static_cast<double>(host_)) / kUnit;
  }

 private:
  Bytes start_ = 0;
  std::optional<Bytes> outside_;
  Bytes host_ = 0;
};

}  // namespace

TEST_CASE("S28 the reuse experiment, step by step", "[custash]") {
  const NoRaces races;
  const Reserved reserved;
  const auto device = Device::cuda();
  const Tensor a = unit(device);
  CHECK(reserved.units() == Approx(1).margin(0.02));
  Tensor b = unit(device);
  CHECK(reserved.units() == Approx(2).margin(0.02));
  const void* place_of_b = b.data();
  b = b.cpu();  // its block is free, and kept
  CHECK(reserved.units() == Approx(2).margin(0.02));
  CHECK(reserved.host_units() == Approx(1).margin(0.1));
  Tensor c = unit(device);  // … and used again
  CHECK(c.data() == place_of_b);
  CHECK(reserved.units() == Approx(2).margin(0.02));
  c = unit(device);  // made while the old one still lives
  CHECK(reserved.units() == Approx(3).margin(0.02));
  Tensor d = unit(device);  // the old c's
  CHECK(d.data() == place_of_b);
  CHECK(reserved.units() == Approx(3).margin(0.02));
  d = Tensor();
  CHECK(reserved.units() == Approx(3).margin(0.02));
  Tensor e = unit(Device::cpu());
  CHECK(reserved.host_units() == Approx(2).margin(0.1));
  e = e.cuda();  // d's
  CHECK(reserved.host_units() == Approx(1).margin(0.1));
  CHECK(e.data() == place_of_b);
  CHECK(reserved.units() == Approx(3).margin(0.02));
}

TEST_CASE("S29 deleting first needs one block, assigning over needs two", "[custash]") {
  Tensor large = unit(Device::cuda());
  reset_peak_memory_stats();
  const auto before = memory_allocated();
  large = Tensor();
  large = unit(Device::cuda());
  CHECK(max_memory_allocated() == before);
  large = unit(Device::cuda());
  CHECK(max_memory_allocated() >= before + kUnit);
  CHECK(memory_allocated() == before);
}
