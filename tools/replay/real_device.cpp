// SPDX-License-Identifier: MIT
// The real driver as a replay's device: libcuda.so.1, found at run time, device 0.
#include "tools/replay/device.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <dlfcn.h>

namespace custash::replay {
namespace {

void* library() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

void* find_in_library(const char* symbol) {
  return dlsym(library(), symbol);
}

class RealDevice final : public Device {
 public:
  RealDevice() {
    if (library() == nullptr)
      throw std::runtime_error("there is no CUDA driver (libcuda.so.1)");
    if (!driver_.fill(find_in_library))
      throw std::runtime_error("libcuda.so.1 lacks a call that is needed");
    call("cuInit", 0U);
    call("cuDevicePrimaryCtxRetain", &context_, CUdevice{0});
    call("cuCtxSetCurrent", context_);
    memset_ = reinterpret_cast<Memset*>(find("cuMemsetD8Async"));
    get_info_ = reinterpret_cast<GetInfo*>(find("cuMemGetInfo_v2"));
    if (memset_ == nullptr || get_info_ == nullptr)
      throw std::runtime_error("libcuda.so.1 lacks a call that is needed");
  }

  const Driver& driver() const override { return driver_; }

  CUcontext context() const override { return context_; }

  void* find(const char* symbol) const override { return find_in_library(symbol); }

  Bytes used() const override {
    std::size_t free = 0;
    std::size_t total = 0;
    const bool known = get_info_(&free, &total) == CUDA_SUCCESS;
    return known ? total - free : 0;
  }

  CUstream stream(std::uint32_t number) override {
    while (streams_.size() < number)
      call("cuStreamCreate", &streams_.emplace_back(), unsigned{CU_STREAM_NON_BLOCKING});
    return number == 0 ? nullptr : streams_[number - 1];
  }

  CUresult submit(CUstream stream, Address address, Bytes bytes) override {
    return memset_(address, 0, std::min(bytes, kTouched), stream);
  }

  bool finish() override { return driver_.ctx_synchronize() == CUDA_SUCCESS; }

 private:
  using Memset = CUresult(CUdeviceptr, unsigned char, size_t, CUstream);
  using GetInfo = CUresult(size_t*, size_t*);

  template <typename... Args>
  void call(const char* symbol, Args... args) {
    auto* const function = reinterpret_cast<CUresult (*)(Args...)>(find(symbol));
    const CUresult result = function == nullptr ? CUDA_ERROR_NOT_SUPPORTED : function(args...);
    if (result != CUDA_SUCCESS)
      throw std::runtime_error(std::string(symbol) + " answers " + std::to_string(result));
  }

  Driver driver_;
  CUcontext context_ = nullptr;
  Memset* memset_ = nullptr;
  GetInfo* get_info_ = nullptr;
  std::vector<CUstream> streams_;
};

}  // namespace

std::unique_ptr<Device> make_real_device() {
  return std::make_unique<RealDevice>();
}

}  // namespace custash::replay
