// SPDX-License-Identifier: MIT
// Memory that was freed is there for other processes after a while, though this one makes no
// call, or none that misses a cache. Free memory is counted by the device. Contexts leave
// little host memory behind. Bare, memory is there at once.
#include "check.cuh"

#include <fstream>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using gpu::kGiB;
using gpu::kMiB;

// As custash takes for decay: 2 and pinned_decay: 2, with some room.
constexpr double kLongest = 7;

std::string own_path;
gpu::Report report;

double now() {
  return gpu::now_us() / 1e6;
}

void nap() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// What another process sees, in MiB; without a preload, or with this one's.
std::size_t free_elsewhere(bool preloaded) {
  int out[2];
  if (pipe(out) != 0) return 0;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  std::vector<char*> env;
  for (char** each = environ; *each != nullptr; ++each)
    if (preloaded || std::strncmp(*each, "LD_PRELOAD=", 11) != 0) env.push_back(*each);
  env.push_back(nullptr);
  std::string word = "--other";
  char* args[] = {own_path.data(), word.data(), nullptr};
  pid_t child = 0;
  const int started = posix_spawn(&child, own_path.c_str(), &files, nullptr, args, env.data());
  posix_spawn_file_actions_destroy(&files);
  close(out[1]);
  char text[64] = "";
  if (started == 0 && read(out[0], text, sizeof text - 1) < 0) text[0] = '\0';
  close(out[0]);
  if (started == 0) waitpid(child, nullptr, 0);
  return static_cast<std::size_t>(std::atoll(text));
}

std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t pages = 0;
  file >> all >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / gpu::kKiB;
}

template <typename Meanwhile>
double returns_after(std::size_t wanted_mib, Meanwhile meanwhile) {
  const double begin = now();
  while (now() - begin < kLongest + 3) {
    for (const double until = now() + 0.5; now() < until; nap())
      meanwhile();
    if (free_elsewhere(false) >= wanted_mib) return now() - begin;
  }
  return 1e9;
}

void no_call() {
}

void small_calls() {
  void* p = nullptr;
  CUDA_OK(cudaMalloc(&p, 1000));
  CUDA_OK(cudaMemset(p, 0, 1000));
  CUDA_OK(cudaFree(p));
}

void device_memory() {
  small_calls();
  const std::size_t size = std::min(40 * kGiB, gpu::free_memory() / 4 * 3) / kMiB * kMiB;
  const std::size_t wanted = free_elsewhere(false) - 1024;
  for (const bool busy : {false, true}) {
    small_calls();
    char* p = nullptr;
    CUDA_OK(cudaMalloc(&p, size));
    CUDA_OK(cudaMemset(p, 0, size));
    CUDA_OK(cudaFree(p));
    CUDA_OK(cudaDeviceSynchronize());
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    // A neighbour counts it before it has returned, if it is asked to return it.
    const std::size_t counted = free_elsewhere(true);
    report.check(counted >= wanted, "a_neighbour_counts_it", "seen_mib=%zu", counted);
    const double took = returns_after(wanted, busy ? small_calls : no_call);
    report.check(took < kLongest,
                 busy ? "returns_while_all_calls_hit" : "returns_without_a_call",
                 "mib=%zu seconds=%.1f",
                 size / kMiB,
                 took);
  }
}

void pinned_memory() {
  constexpr std::size_t kSize = 2 * kGiB;
  char* p = nullptr;
  const std::size_t before = resident_kib();
  CUDA_OK(cudaMallocHost(&p, kSize));
  std::memset(p, 1, kSize);
  CUDA_OK(cudaFreeHost(p));
  const double begin = now();
  while (resident_kib() > before + kSize / gpu::kKiB / 2 && now() - begin < kLongest + 3)
    nap();
  const double took = now() - begin;
  report.check(took < kLongest, "pinned_memory_returns_without_a_call", "seconds=%.1f", took);
}

void resets() {
  constexpr int kRounds = 60;
  std::size_t first = 0;
  for (int i = 0; i < kRounds; ++i) {
    void* p = nullptr;
    CUDA_OK(cudaMalloc(&p, kMiB));
    CUDA_OK(cudaMemset(p, 0, kMiB));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaFree(p));
    CUDA_OK(cudaDeviceReset());
    if (i == kRounds / 4) first = resident_kib();
  }
  const double each =
      (static_cast<double>(resident_kib()) - static_cast<double>(first)) / (kRounds * 3 / 4);
  report.check(each < 20, "resets_leave_little_host_memory", "kib_each=%.1f", each);
}

}  // namespace

int main(int argc, char** argv) {
  gpu::need_devices(1);
  if (argc > 1 && std::strcmp(argv[1], "--other") == 0) {
    std::printf("%zu\n", gpu::free_memory() / kMiB);
    return 0;
  }
  own_path = argv[0];
  if (std::getenv("CUSTASH_CONF") == nullptr) {  // read when the library is loaded
    setenv("CUSTASH_CONF", "decay:2,pinned_decay:2", 1);
    execv(argv[0], argv);
  }
  device_memory();
  pinned_memory();
  resets();
  return report.finish();
}
