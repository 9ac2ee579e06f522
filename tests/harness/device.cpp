// SPDX-License-Identifier: MIT
#include "tests/harness/device.hpp"

#include <array>
#include <atomic>

#include <unistd.h>

namespace custash::harness {
namespace {

constexpr int kMaxDevices = 64;

thread_local int the_current = 0;    // what the program chose
thread_local int the_runtimes = -1;  // what the runtime was told, on this thread

std::atomic<int> user{0};  // the process that uses CUDA; 0: none yet
std::array<std::array<std::atomic<bool>, kMaxDevices>, kMaxDevices> peers{};

void require_device(int index) {
  if (index < 0 || index >= device_count())
    throw CudaError(cudaErrorInvalidDevice,
                    "invalid device cuda:" + std::to_string(index) + ": there are " +
                        std::to_string(device_count()));
}

}  // namespace

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();
  throw CudaError(code, std::string(what) + ": " + cudaGetErrorString(code));
}

Device Device::cuda() {
  return cuda(current_device());
}

Device Device::parse(const std::string& name) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda();
  if (name.rfind("cuda:", 0) == 0) return cuda(std::stoi(name.substr(5)));
  throw std::invalid_argument("not a device: " + name);
}

std::string Device::str() const {
  if (!is_cuda()) return "cpu";
  std::string name = "cuda:";
  return name += std::to_string(index_);
}

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool is_available() {
  return device_count() > 0;
}

bool is_initialized() {
  return user == getpid();
}

int current_device() {
  return the_current;
}

void set_device(int index) {
  if (index != the_current) require_device(index);
  the_current = index;
}

void use_device(int index) {
  int nobody = 0;
  if (!user.compare_exchange_strong(nobody, getpid()) && nobody != getpid())
    throw CudaError(cudaErrorInitializationError,
                    "CUDA was used before the fork and cannot be used in the child: start "
                    "children by exec");
  if (the_runtimes == index) return;
  require_device(index);
  check(cudaSetDevice(index), "cudaSetDevice");
  the_runtimes = index;
}

void synchronize(int index) {
  use_device(index);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void synchronize() {
  synchronize(current_device());
}

bool can_access_peer(int device, int peer) {
  int can = 0;
  return cudaDeviceCanAccessPeer(&can, device, peer) == cudaSuccess && can != 0;
}

void enable_peer_access(int device, int peer) {
  if (peers[device][peer].exchange(true)) return;
  use_device(device);
  const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0);
  if (code != cudaSuccess) peers[device][peer] = false;
  check(code, "cudaDeviceEnablePeerAccess");
}

bool peer_access_enabled(int device, int peer) {
  return peers[device][peer];
}

}  // namespace custash::harness
