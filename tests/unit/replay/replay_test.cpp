// SPDX-License-Identifier: MIT
// Replays on the simulated device: that what is counted is what the driver counts, that
// refusals are told, and the models of PyTorch.
#include "tests/catch.hpp"
#include "tests/sim/sim.hpp"
#include "tools/replay/questions.hpp"
#include "tools/replay/report.hpp"

#include <random>

namespace custash::replay {
namespace {

Trace trace_of(const std::string& lines) {
  return parse_trace("t", lines);
}

// Allocations of so many bytes each, then frees of those that stand in `freed` (from 1), in
// turn.
Trace blocks(const std::vector<Bytes>& sizes, const std::vector<std::size_t>& freed = {}) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += "0 0 a " + std::to_string(i + 1) + " " + std::to_string(sizes[i]) + " -\n";
  for (const std::size_t id : freed)
    text += "0 0 f " + std::to_string(id) + " " + std::to_string(sizes[id - 1]) + " -\n";
  return trace_of(text);
}

// Sizes of all kinds, at most some 200 MiB at once, on no stream and on three.
enum class Ends { Live, Freed };

Trace random_trace(unsigned seed, Ends ends = Ends::Live) {
  std::mt19937 random(seed);
  std::string text;
  std::vector<std::pair<int, Bytes>> live;
  int next = 1;
  constexpr int kEvents = 1500;
  for (int i = 0; i < kEvents || (ends == Ends::Freed && !live.empty()); ++i) {
    const unsigned stream = random() % 4;
    const std::string on = stream == 0 ? "-" : std::to_string(stream);
    if (i >= kEvents || live.size() > 30 || (!live.empty() && random() % 2 == 0)) {
      const std::size_t at = random() % live.size();
      text += "0 0 f " + std::to_string(live[at].first) + " " +
              std::to_string(live[at].second) + " " + on + "\n";
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      const unsigned bits = 6 + random() % 18;
      const Bytes bytes = 1 + random() % (Bytes{1} << bits);
      live.emplace_back(next++, bytes);
      text += "0 0 a " + std::to_string(live.back().first) + " " + std::to_string(bytes) + " " +
              on + "\n";
    }
  }
  return trace_of(text);
}

constexpr DeviceOptions kDevice{8_GiB, 64};

std::uint64_t calls(const Outcome& outcome, const std::string& symbol) {
  for (const CallRow& row : outcome.calls)
    if (row.symbol == symbol) return row.calls;
  return 0;
}

}  // namespace

TEST_CASE("a replay tells what is in use and held, and gives all of it back", "[replay]") {
  for (const Backing backing : {Backing::Vmm, Backing::Driver}) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      INFO("seed " << seed);
      Config config;
      config.backing = backing;
      const Trace trace = random_trace(seed);
      const auto device = make_simulated_device(kDevice);
      std::vector<std::pair<std::size_t, Bytes>> used;  // as the simulator has it, now and then
      RunOptions options{.keep_samples = true};
      options.progress = [&](std::size_t event) { used.emplace_back(event, sim::used(0)); };
      const Outcome outcome = replay(trace, *device, Subject::Custash, config, options);
      CHECK(outcome.fits);
      CHECK(outcome.sound);
      CHECK(outcome.peak_in_use == trace.peak);
      REQUIRE(outcome.samples.size() == trace.events.size());
      REQUIRE(used.size() > 2);
      for (const auto& [event, bytes] : used)
        CHECK(outcome.samples[event].held == bytes);
      CHECK(sim::used(0) == 0);  // all has been given back
      CHECK(outcome.utilisation() >= 1);
      Bytes most = 0;
      for (const Sample& sample : outcome.samples) {
        CHECK(sample.in_use <= sample.held);
        most = std::max(most, sample.held);
      }
      CHECK(outcome.peak_held >= most);
    }
  }
}

TEST_CASE("pages are followed through moves until their last mapping goes", "[replay]") {
  const auto device = make_simulated_device(kDevice);
  const Meter meter(device->driver());
  const Driver& driver = Meter::driver();
  const auto agree = [&](Bytes held) {
    CHECK(meter.held() == held);
    CHECK(sim::used(0) == held);
  };
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = 0;
  CUmemGenericAllocationHandle pages[2] = {};
  CUdeviceptr base = 0;
  REQUIRE(driver.mem_address_reserve(&base, 64_MiB, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(driver.mem_create(&pages[0], 2_MiB, &prop, 0) == CUDA_SUCCESS);
  REQUIRE(driver.mem_create(&pages[1], 4_MiB, &prop, 0) == CUDA_SUCCESS);
  agree(6_MiB);
  REQUIRE(driver.mem_map(base, 2_MiB, 0, pages[0], 0) == CUDA_SUCCESS);
  REQUIRE(driver.mem_map(base + 2_MiB, 4_MiB, 0, pages[1], 0) == CUDA_SUCCESS);
  CHECK(meter.moves() == 0);
  REQUIRE(driver.mem_map(base + 8_MiB, 4_MiB, 0, pages[1], 0) == CUDA_SUCCESS);  // an alias
  CHECK(meter.moves() == 1);
  CHECK(meter.moved_bytes() == 4_MiB);
  CHECK(meter.aliases() == 1);
  agree(6_MiB);
  REQUIRE(driver.mem_release(pages[1]) == CUDA_SUCCESS);
  REQUIRE(driver.mem_unmap(base, 6_MiB) == CUDA_SUCCESS);  // two mappings at once
  CHECK(meter.aliases() == 0);
  agree(6_MiB);
  REQUIRE(driver.mem_release(pages[0]) == CUDA_SUCCESS);
  agree(4_MiB);
  REQUIRE(driver.mem_unmap(base + 8_MiB, 4_MiB) == CUDA_SUCCESS);
  agree(0);
  CUdeviceptr plain = 0;
  REQUIRE(driver.mem_alloc(&plain, 3_MiB) == CUDA_SUCCESS);
  agree(4_MiB);
  REQUIRE(driver.mem_free(plain) == CUDA_SUCCESS);
  agree(0);
  CHECK(meter.peak() == 6_MiB);
}

TEST_CASE("calls are counted and timed as the simulator counts them", "[replay]") {
  const auto device = make_simulated_device(kDevice);
  sim::clear_log();
  const Outcome outcome =
      replay(random_trace(9, Ends::Freed), *device, Subject::Bare, Config{}, {});
  CHECK(calls(outcome, "cuMemAlloc_v2") == sim::count("cuMemAlloc_v2"));
  CHECK(calls(outcome, "cuMemFree_v2") == sim::count("cuMemFree_v2"));
  CHECK(calls(outcome, "cuMemFree_v2") > 500);
  CHECK(outcome.memory_calls().calls == outcome.all_calls().calls);
  // All that the driver did but what the replay itself asks for.
  const Nanoseconds own =
      sim::count("cuLaunchKernel") * 3000 + sim::count("cuStreamCreate") * 8000;
  CHECK(outcome.all_calls().time + own == sim::driver_time());
}

TEST_CASE("the allocator's clock goes by the times of the trace", "[replay]") {
  const auto released = [](std::uint64_t seconds) {  // between two blocks
    std::string text;
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::string at = std::to_string(i * seconds * 1'000'000'000);
      const std::string block =
          std::to_string(i) + " " + std::to_string(i == 0 ? 64_MiB : 1_KiB * i) + " -\n";
      text += at + " 0 a " + block + at + " 0 f " + block;
    }
    Config config;
    config.decay = 10;
    const auto device = make_simulated_device(kDevice);
    return calls(replay(trace_of(text), *device, Subject::Custash, config, {}), "cuMemRelease");
  };
  CHECK(released(1) == 0);
  CHECK(released(11) > 0);
}

TEST_CASE("the driver's pool is replayed too", "[replay]") {
  const auto device = make_simulated_device(kDevice);
  sim::clear_log();
  const Trace trace = random_trace(4, Ends::Freed);
  const Outcome outcome = replay(trace, *device, Subject::Pool, Config{}, {});
  CHECK(outcome.fits);
  CHECK(outcome.sound);
  CHECK(outcome.peak_held >= trace.peak);
  CHECK(calls(outcome, "cuMemAllocAsync") == sim::count("cuMemAllocAsync"));
  CHECK(calls(outcome, "cuMemFreeAsync") == sim::count("cuMemFreeAsync"));
  CHECK(calls(outcome, "cuMemFreeAsync") > 500);
}

TEST_CASE("a request that is refused is told, and the rest goes on", "[replay]") {
  const Trace trace = blocks({20_MiB, 100_MiB, 20_MiB}, {2, 1, 3});
  const auto device = make_simulated_device({64_MiB, 64});
  const Outcome outcome = replay(trace, *device, Subject::Custash, Config{}, {});
  CHECK(!outcome.fits);
  CHECK(outcome.sound);
  CHECK(outcome.ooms == 1);
  CHECK(outcome.peak_in_use == 40_MiB);
}

TEST_CASE("a submission that touches memory it may not makes a replay unsound", "[replay]") {
  const auto device = make_simulated_device(kDevice);
  CHECK(device->submit(nullptr, 0x1000, 512) == CUDA_SUCCESS);
  CHECK(!device->finish());
}

TEST_CASE("the smallest device is found to a granule", "[replay]") {
  // Each takes 2 MiB of the driver; all are there at once.
  const Trace trace = blocks(std::vector<Bytes>(14, 1_MiB + 1), {3, 5});
  const auto quiet = [](Bytes, std::size_t, std::size_t) {};
  CHECK(smallest_device(trace, Config{}, Subject::Bare, quiet) == 28_MiB);
  CHECK(replay(trace, *make_simulated_device(kDevice), Subject::Bare, Config{}, {}).peak_held ==
        28_MiB);
  const Bytes ours = smallest_device(trace, Config{}, Subject::Custash, quiet);
  CHECK(fits(trace, Config{}, Subject::Custash, ours));
  CHECK(!fits(trace, Config{}, Subject::Custash, ours - 2_MiB));
}

TEST_CASE("PyTorch's segments are modelled by their sizes", "[replay]") {
  const auto held = [](const std::vector<Bytes>& sizes,
                       const std::vector<std::size_t>& freed = {}) {
    return model_pytorch(blocks(sizes, freed), PyTorchPolicy::Native).peak_held;
  };
  CHECK(held({1}) == 2_MiB);
  CHECK(held({1_MiB, 1_MiB}) == 2_MiB);
  CHECK(held({1_MiB, 1_MiB, 512}) == 4_MiB);
  CHECK(held({1_MiB + 1}) == 20_MiB);
  CHECK(held({9_MiB, 9_MiB, 9_MiB}) == 40_MiB);  // the 2 MiB left of the first are too few
  CHECK(held({10_MiB}) == 10_MiB);
  CHECK(held({11_MiB}) == 12_MiB);
  CHECK(held({100_MiB - 1, 50_MiB}) == 150_MiB);
  // What is left of a block that is used again serves what it can hold.
  const auto reuse = [](Bytes first, Bytes second, Bytes third) {
    return model_pytorch(
               trace_of("0 0 a 1 " + std::to_string(first) + " -\n0 0 f 1 " +
                        std::to_string(first) + " -\n0 0 a 2 " + std::to_string(second) +
                        " -\n0 0 a 3 " + std::to_string(third) + " -\n"),
               PyTorchPolicy::Native)
        .peak_held;
  };
  CHECK(reuse(40_MiB, 39_MiB, 1_MiB + 512) == 60_MiB);
  CHECK(reuse(40_MiB, 38_MiB, 1_MiB + 512) == 40_MiB);
}

TEST_CASE("expandable segments are modelled by their handles", "[replay]") {
  const auto model = [](const Trace& trace) {
    return model_pytorch(trace, PyTorchPolicy::Expandable);
  };
  CHECK(model(blocks({1})).peak_held == 2_MiB);
  CHECK(model(blocks({3_MiB})).peak_held == 20_MiB);
  CHECK(model(blocks({15_MiB, 15_MiB})).peak_held == 40_MiB);
  CHECK(model(blocks({100_MiB, 50_MiB})).peak_held == 160_MiB);
  // The last block's rest is used before more is mapped: 20 MiB, and one handle more.
  CHECK(model(blocks({12_MiB, 20_MiB})).peak_held == 40_MiB);
  // Another stream has a range of its own.
  CHECK(
      model(trace_of("0 0 a 1 2000000 1\n0 0 f 1 2000000 1\n0 0 a 2 2000000 2\n")).peak_held ==
      40_MiB);
  // Reserve, two handles made and mapped, access once.
  CHECK(model(blocks({30_MiB})).driver_calls == 6);
}

TEST_CASE("a report names what it found in words and in JSON", "[replay]") {
  const Trace trace = random_trace(3);
  const auto device = make_simulated_device(kDevice);
  Report report;
  report.trace = &trace;
  report.outcome = replay(trace, *device, Subject::Custash, Config{}, {});
  report.native = model_pytorch(trace, PyTorchPolicy::Native);
  const std::string text = text_of(report);
  CHECK(text.find("\n  utilisation: ") != std::string::npos);
  CHECK(text.find("PyTorch (model)") != std::string::npos);
  CHECK(text.find("FAILED") == std::string::npos);
  const std::string json = json_of(report);
  CHECK(json.find("\"peak_in_use_bytes\":" + std::to_string(trace.peak)) != std::string::npos);
  report.outcome.sound = false;
  CHECK(text_of(report).find("FAILED") != std::string::npos);
}

TEST_CASE("a plot has both series, and few points however long the trace", "[replay]") {
  std::vector<Sample> samples(100'000, {1_GiB, 2_GiB});
  samples[77'777].held = 9_GiB;
  const std::string plot = plot_of("a <b> & c", samples);
  CHECK(plot.size() < 60'000);
  CHECK(plot.find("a &lt;b> &amp; c") != std::string::npos);
  CHECK(plot.find(">8</text>") != std::string::npos);  // the peak has not been thinned away
  CHECK(plot_of("empty", {}).find("</svg>") != std::string::npos);
}

}  // namespace custash::replay
