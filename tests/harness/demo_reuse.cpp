// SPDX-License-Identifier: MIT
// The reuse experiment (S28) as a table with explanations; started by tools/demos/reuse.
// Tensors of 1 GiB on a GPU with room for them, smaller on the simulator or when asked:
// harness_reuse [MIB].
#include "tests/harness/ops.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace custash;
using namespace custash::harness;

namespace {

double mebibytes(Bytes bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

struct Row {
  Bytes outside;
  Bytes host;
};

Row start{};

Row now() {
  return {bytes_in_use_from_outside().value_or(memory_reserved()), resident_host_bytes()};
}

void step(const char* what, const char* why) {
  synchronize();
  const Row row = now();
  std::printf("%-22s %9.0f  %9.0f  %9.0f  %9.0f  %+9.0f  %+9.0f\n",
              what,
              mebibytes(memory_allocated()),
              mebibytes(memory_reserved()),
              mebibytes(max_memory_allocated()),
              mebibytes(memory_info().free),
              mebibytes(row.outside) - mebibytes(start.outside),
              mebibytes(row.host) - mebibytes(start.host));
  if (custash_loaded()) std::printf("    %s\n", why);
}

Bytes unit_size(int argc, char** argv) {
  if (argc > 1) return std::strtoull(argv[1], nullptr, 10) << 20;
  if (on_simulator()) return 64_MiB;
  return memory_info().free >= 5_GiB ? 1_GiB : 64_MiB;
}

void experiment(Bytes unit) {
  const auto make = [unit](Device device) {
    return zeros({static_cast<std::int64_t>(unit / sizeof(float))}, on(device));
  };
  const Device cuda = Device::cuda();
  step("start", "the context alone");
  const Tensor a = make(cuda);
  step("a = zeros(cuda)", "new: nothing is cached yet");
  Tensor b = make(cuda);
  step("b = zeros(cuda)", "new as well: a still lives");
  b = b.cpu();
  step("b = b.cpu()", "the block is free again but kept; the values are in host memory now");
  Tensor c = make(cuda);
  step("c = zeros(cuda)", "no new memory: c has b's old block");
  c = make(cuda);
  step("c = zeros(cuda)", "the new c is made before the old one is let go: one block more");
  Tensor d = make(cuda);
  step("d = zeros(cuda)", "no new memory: d has the old c's block");
  d = Tensor();
  step("del d", "kept for the next one");
  Tensor e = make(Device::cpu());
  step("e = zeros(cpu)", "host memory only");
  e = e.cuda();
  step("e = e.cuda()", "e has d's block; the host memory went back to the system at once");
  b = c = e = Tensor();
  step("del b, c, e", "all but a is cached, and counts as free");
  synchronize();
  empty_cache();
  step("empty_cache()", "what is cached goes back to the driver; a stays");
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_available()) return std::puts("no GPU"), 77;
  const Bytes unit = unit_size(argc, argv);
  (void)ones({1}, on(Device::cuda())).item();  // the context and the kernels are there
  synchronize();
  empty_cache();
  reset_peak_memory_stats();
  start = now();
  std::printf(
      "Tensors of %.0f MiB, %s. All in MiB; the last two columns are against the start.\n\n",
      mebibytes(unit),
      custash_loaded() ? "through custash" : "bare: the driver's own pool");
  std::printf("%-22s %9s  %9s  %9s  %9s  %9s  %9s\n",
              "",
              "allocated",
              "reserved",
              "peak",
              "free",
              "outside",
              "host");
  experiment(unit);
  if (!custash_loaded())
    std::puts(
        "\nThe driver's pool gives what is free back at every synchronisation, and each step\n"
        "of this table synchronises: nothing is kept, all is obtained anew.");
  std::puts(
      "\nallocated: what tensors occupy. reserved: what the allocator holds of the device.\n"
      "free: what cudaMemGetInfo tells the program (custash counts its cache as free).\n"
      "outside: device memory in use as nvidia-smi sees it. host: of this process.");
  return 0;
}
