// SPDX-License-Identifier: MIT
// The CUDA driver as this command needs it: found at run time, so that one binary runs without
// custash and preloaded, on a GPU and over the simulated driver. Every call that fails throws
// CudaError.
#pragma once

#include "tools/demos/bandwidth/cells.hpp"

#include <chrono>
#include <stdexcept>
#include <string>

#include <cuda.h>

namespace custash::bandwidth {

struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void* driver_symbol(const char* symbol);  // throws where it is missing
// Nothing when `result` is success; `what` begins the message.
void check(CUresult result, const std::string& what);

template <typename Signature>
class Call;

template <typename... Args>
class Call<CUresult(Args...)> {
 public:
  explicit Call(const char* symbol)
      : symbol_(symbol),
        function_(reinterpret_cast<CUresult (*)(Args...)>(driver_symbol(symbol))) {}

  void operator()(Args... args) const { check(function_(args...), symbol_); }

  CUresult result(Args... args) const { return function_(args...); }

 private:
  const char* symbol_;
  CUresult (*function_)(Args...);
};

// A device's primary context, current in the thread that made this. Lives until the process
// ends.
class Cuda {
 public:
  explicit Cuda(int device);

  std::string device_name() const;
  int driver_version() const;

  CUstream stream() const { return stream_; }

  Call<CUresult(CUdeviceptr*, std::size_t)> allocate{"cuMemAlloc_v2"};
  Call<CUresult(CUdeviceptr)> free{"cuMemFree_v2"};
  Call<CUresult(void**, std::size_t, unsigned)> allocate_host{"cuMemHostAlloc"};
  Call<CUresult(void*)> free_host{"cuMemFreeHost"};
  Call<CUresult(CUdeviceptr, const void*, std::size_t, CUstream)> copy_to_device{
      "cuMemcpyHtoDAsync_v2"};
  Call<CUresult(void*, CUdeviceptr, std::size_t, CUstream)> copy_to_host{
      "cuMemcpyDtoHAsync_v2"};
  Call<CUresult(unsigned*, void*)> host_flags{"cuMemHostGetFlags"};
  Call<CUresult(CUstream*, unsigned)> create_stream{"cuStreamCreate"};
  Call<CUresult(CUstream)> synchronize{"cuStreamSynchronize"};
  Call<CUresult(CUevent*, unsigned)> create_event{"cuEventCreate"};
  Call<CUresult(CUevent, CUstream)> record{"cuEventRecord"};
  Call<CUresult(CUevent)> synchronize_event{"cuEventSynchronize"};
  Call<CUresult(float*, CUevent, CUevent)> elapsed{"cuEventElapsedTime"};

 private:
  CUdevice device_ = 0;
  CUstream stream_ = nullptr;
};

// Over the simulated driver times are modelled.
bool simulated();

// custash in this process: empty where there is none, else its version.
std::string custash_version();
// Gives the pinned memory that custash holds back, so that the next allocation is a first one.
void empty_custash();

// The time between two records in a stream.
class EventPair {
 public:
  explicit EventPair(const Cuda& cuda);

  void begin(CUstream stream) { cuda_->record(begin_, stream); }

  void end(CUstream stream) { cuda_->record(end_, stream); }

  double ms() const;  // waits for the end

 private:
  const Cuda* cuda_;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

// Time as the host sees it. The modelled clock of the simulated driver is read through events
// in a stream in which nothing else happens.
class Stopwatch {
 public:
  explicit Stopwatch(const Cuda& cuda);

  void start();
  double ms();

 private:
  EventPair events_;
  CUstream idle_ = nullptr;
  std::chrono::steady_clock::time_point begin_;
};

// Bytes in host memory, every page of them there.
class HostBuffer {
 public:
  HostBuffer(const Cuda& cuda, Memory memory, Bytes bytes);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  char* data() const { return data_; }

  void free();

 private:
  const Cuda* cuda_;
  Memory memory_;
  Bytes bytes_;
  char* data_ = nullptr;
};

class DeviceBuffer {
 public:
  DeviceBuffer(const Cuda& cuda, Bytes bytes);

  ~DeviceBuffer() { (void)cuda_->free.result(address_); }

  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  CUdeviceptr address() const { return address_; }

 private:
  const Cuda* cuda_;
  CUdeviceptr address_ = 0;
};

}  // namespace custash::bandwidth
