// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/cuda.hpp"

#include "tools/text.hpp"

#include <cerrno>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace custash::bandwidth {
namespace {

// Only the simulated driver has it.
constexpr const char* kSimulatorsOwn = "custash_sim_detector";

void* library() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw CudaError(std::string("there is no CUDA driver: ") + dlerror());
  return handle;
}

template <typename Function>
Function* of_custash(const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, symbol));
}

std::string mebibytes(Bytes bytes) {
  std::string text;
  add(text, "%.6g MiB", static_cast<double>(bytes) / static_cast<double>(1_MiB));
  return text;
}

// Mapped for this buffer alone: what malloc holds from an earlier one would not be cold.
char* map_pages(Bytes bytes) {
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw CudaError(mebibytes(bytes) + " of pageable memory: " + std::strerror(errno));
  auto* const data = static_cast<volatile char*>(pages);
  const auto page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  for (Bytes at = 0; at < bytes; at += page)
    data[at] = 1;
  return static_cast<char*>(pages);
}

}  // namespace

void* driver_symbol(const char* symbol) {
  void* const address = dlsym(library(), symbol);
  if (address == nullptr) throw CudaError(std::string("libcuda.so.1 lacks ") + symbol);
  return address;
}

void check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  using Text = CUresult(CUresult, const char**);
  const char* name = nullptr;
  const char* meaning = nullptr;
  (void)reinterpret_cast<Text*>(driver_symbol("cuGetErrorName"))(result, &name);
  (void)reinterpret_cast<Text*>(driver_symbol("cuGetErrorString"))(result, &meaning);
  std::string text = what + ": ";
  text += name == nullptr ? "error " + std::to_string(result) : name;
  if (meaning != nullptr) text += std::string(" (") + meaning + ")";
  throw CudaError(text);
}

Cuda::Cuda(int device) {
  Call<CUresult(unsigned)>{"cuInit"}(0);
  int count = 0;
  Call<CUresult(int*)>{"cuDeviceGetCount"}(&count);
  if (device >= count)
    throw CudaError("there is no device " + std::to_string(device) + ": the driver has " +
                    std::to_string(count));
  Call<CUresult(CUdevice*, int)>{"cuDeviceGet"}(&device_, device);
  CUcontext context = nullptr;
  Call<CUresult(CUcontext*, CUdevice)>{"cuDevicePrimaryCtxRetain"}(&context, device_);
  Call<CUresult(CUcontext)>{"cuCtxSetCurrent"}(context);
  create_stream(&stream_, CU_STREAM_NON_BLOCKING);
}

std::string Cuda::device_name() const {
  char name[128] = "";
  Call<CUresult(char*, int, CUdevice)>{"cuDeviceGetName"}(name, sizeof name, device_);
  return name;
}

int Cuda::driver_version() const {
  int version = 0;
  Call<CUresult(int*)>{"cuDriverGetVersion"}(&version);
  return version;
}

bool simulated() {
  return dlsym(library(), kSimulatorsOwn) != nullptr;
}

std::string custash_version() {
  auto* const version = of_custash<int()>("custash_version");
  auto* const empty = of_custash<int()>("custash_host_empty_cache");
  if (version == nullptr || empty == nullptr || empty() != 0) return "";
  const int number = version();
  return std::to_string(number / 10'000) + '.' + std::to_string(number / 100 % 100) + '.' +
         std::to_string(number % 100);
}

void empty_custash() {
  if (auto* const empty = of_custash<int()>("custash_host_empty_cache")) (void)empty();
}

EventPair::EventPair(const Cuda& cuda) : cuda_(&cuda) {
  cuda.create_event(&begin_, CU_EVENT_DEFAULT);
  cuda.create_event(&end_, CU_EVENT_DEFAULT);
}

double EventPair::ms() const {
  float elapsed = 0;
  cuda_->synchronize_event(end_);
  cuda_->elapsed(&elapsed, begin_, end_);
  return elapsed;
}

Stopwatch::Stopwatch(const Cuda& cuda) : events_(cuda) {
  if (simulated()) cuda.create_stream(&idle_, CU_STREAM_NON_BLOCKING);
}

void Stopwatch::start() {
  if (idle_ != nullptr) events_.begin(idle_);
  begin_ = std::chrono::steady_clock::now();
}

double Stopwatch::ms() {
  const auto end = std::chrono::steady_clock::now();
  if (idle_ == nullptr) return std::chrono::duration<double, std::milli>(end - begin_).count();
  events_.end(idle_);
  return events_.ms();
}

HostBuffer::HostBuffer(const Cuda& cuda, Memory memory, Bytes bytes)
    : cuda_(&cuda), memory_(memory), bytes_(bytes) {
  if (memory == Memory::Pageable) {
    data_ = map_pages(bytes);
    return;
  }
  void* data = nullptr;
  const CUresult result = cuda.allocate_host.result(&data, bytes, 0);
  if (result != CUDA_SUCCESS) check(result, mebibytes(bytes) + " of pinned memory");
  data_ = static_cast<char*>(data);
}

HostBuffer::~HostBuffer() {
  if (data_ == nullptr) return;
  if (memory_ == Memory::Pageable)
    munmap(data_, bytes_);
  else
    (void)cuda_->free_host.result(data_);
}

void HostBuffer::free() {
  char* const data = data_;
  data_ = nullptr;
  if (memory_ == Memory::Pageable)
    munmap(data, bytes_);
  else
    cuda_->free_host(data);
}

DeviceBuffer::DeviceBuffer(const Cuda& cuda, Bytes bytes) : cuda_(&cuda) {
  const CUresult result = cuda.allocate.result(&address_, bytes);
  if (result != CUDA_SUCCESS) check(result, mebibytes(bytes) + " of device memory");
}

}  // namespace custash::bandwidth
