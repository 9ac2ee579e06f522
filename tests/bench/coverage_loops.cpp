// SPDX-License-Identifier: MIT
// Loops that get device memory as well-known programs do, for coverage_programs.py. Each loop
// allocates, works on the memory by copies and fills, checks what it wrote, and frees. One line
// says how long a turn took. It exits 1 where a call failed or a byte was wrong, 77 without a
// GPU.
//
//   coverage_loops plain|pitched|pool|pool_small|handles|segments [TURNS]
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace {

#define MUST(call)                                                          \
  do {                                                                      \
    const auto must_code = (call);                                          \
    if (must_code != 0) {                                                   \
      std::printf("FAIL %s code=%d\n", #call, static_cast<int>(must_code)); \
      std::fflush(stdout);                                                  \
      std::_Exit(1);                                                        \
    }                                                                       \
  } while (0)

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A large program's linked libraries resolve the driver by the runtime, as this one does.
template <typename Function>
Function* driver(const char* name, Function*) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  MUST(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
  return reinterpret_cast<Function*>(found);
}

#define DRIVER(name) (*driver(#name, &name))

void check_byte(const void* device, int value, cudaStream_t stream) {
  unsigned char byte = 0;
  MUST(cudaMemcpyAsync(&byte, device, 1, cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  if (byte == value) return;
  std::printf("FAIL byte=%d expected=%d\n", byte, value);
  std::exit(1);
}

void plain(int turns) {
  for (int i = 0; i < turns; ++i) {
    void* block = nullptr;
    MUST(cudaMalloc(&block, (1 + static_cast<std::size_t>(i) * 7 % 64) << 16));
    MUST(cudaMemsetAsync(block, i & 255, 4096, nullptr));
    if (i % 16 == 0) check_byte(block, i & 255, nullptr);
    MUST(cudaFree(block));
  }
}

// As OpenCV's GpuMat: an image is uploaded, results of other sizes and types are made and
// freed.
void pitched(int turns) {
  struct Shape {
    std::size_t width, height;
  };

  constexpr Shape kShapes[] = {
      {640, 480}, {1280, 720}, {3840, 720}, {1920, 1080}, {5760, 1080}};
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<unsigned char> image(5760 * 1080, 7);
  for (int i = 0; i < turns; ++i) {
    const Shape& shape = kShapes[i % 5];
    void* source = nullptr;
    void* result = nullptr;
    std::size_t pitch = 0;
    std::size_t result_pitch = 0;
    MUST(cudaMallocPitch(&source, &pitch, shape.width, shape.height));
    MUST(cudaMallocPitch(&result, &result_pitch, shape.width, shape.height));
    MUST(cudaMemcpy2DAsync(source,
                           pitch,
                           image.data(),
                           shape.width,
                           shape.width,
                           64,
                           cudaMemcpyHostToDevice,
                           stream));
    MUST(cudaMemset2DAsync(result, result_pitch, i & 255, shape.width, shape.height, stream));
    MUST(cudaMemcpy2DAsync(source,
                           pitch,
                           result,
                           result_pitch,
                           shape.width,
                           shape.height,
                           cudaMemcpyDeviceToDevice,
                           stream));
    if (i % 16 == 0) check_byte(static_cast<char*>(source) + pitch * 100, i & 255, stream);
    MUST(cudaFree(source));
    MUST(cudaFree(result));
  }
}

// As RMM's cuda_async_memory_resource (keeps all) or CCCL's pool as it is made (keeps none).
void from_pool(int turns, unsigned long long threshold) {
  cudaMemPoolProps properties;
  std::memset(&properties, 0, sizeof properties);
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  MUST(cudaMemPoolCreate(&pool, &properties));
  MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams)
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::deque<void*> kept;
  for (int i = 0; i < turns; ++i) {
    cudaStream_t stream = streams[(i / 64) % 2];
    void* block = nullptr;
    MUST(cudaMallocFromPoolAsync(
        &block, (1 + static_cast<std::size_t>(i) * 11 % 128) << 15, pool, stream));
    MUST(cudaMemsetAsync(block, i & 255, 4096, stream));
    if (i % 16 == 0) check_byte(block, i & 255, stream);
    kept.push_back(block);
    if (kept.size() < 8) continue;
    if (i % 64 == 0) MUST(cudaDeviceSynchronize());
    MUST(cudaFreeAsync(kept.front(), stream));
    kept.pop_front();
  }
  for (void* const block : kept)
    MUST(cudaFreeAsync(block, streams[0]));
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemPoolDestroy(pool));
}

class Mapper {
 public:
  Mapper() {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    access_.location = properties_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }

  CUdeviceptr reserve(std::size_t bytes) const {
    CUdeviceptr at = 0;
    MUST(reserve_(&at, bytes, 0, 0, 0));
    return at;
  }

  void free(CUdeviceptr at, std::size_t bytes) const { MUST(free_(at, bytes)); }

  CUmemGenericAllocationHandle map(CUdeviceptr at, std::size_t bytes) const {
    CUmemGenericAllocationHandle handle = 0;
    MUST(create_(&handle, bytes, &properties_, 0));
    MUST(map_(at, bytes, 0, handle, 0));
    MUST(set_access_(at, bytes, &access_, 1));
    return handle;
  }

  void unmap(CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle) const {
    MUST(unmap_(at, bytes));
    MUST(release_(handle));
  }

 private:
  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_{};
  decltype(&cuMemAddressReserve) reserve_ = &DRIVER(cuMemAddressReserve);
  decltype(&cuMemAddressFree) free_ = &DRIVER(cuMemAddressFree);
  decltype(&cuMemCreate) create_ = &DRIVER(cuMemCreate);
  decltype(&cuMemMap) map_ = &DRIVER(cuMemMap);
  decltype(&cuMemSetAccess) set_access_ = &DRIVER(cuMemSetAccess);
  decltype(&cuMemUnmap) unmap_ = &DRIVER(cuMemUnmap);
  decltype(&cuMemRelease) release_ = &DRIVER(cuMemRelease);
};

// As JAX's platform allocator: a handle, a range and a mapping for each block.
void handles(int turns) {
  const Mapper mapper;
  for (int i = 0; i < turns; ++i) {
    const std::size_t bytes = (1 + static_cast<std::size_t>(i) % 4) * 2 * kMiB;
    const CUdeviceptr at = mapper.reserve(bytes);
    const CUmemGenericAllocationHandle handle = mapper.map(at, bytes);
    MUST(cudaMemsetAsync(reinterpret_cast<void*>(at), i & 255, bytes, nullptr));
    check_byte(reinterpret_cast<const void*>(at + bytes - 1), i & 255, nullptr);
    mapper.unmap(at, bytes, handle);
    mapper.free(at, bytes);
  }
}

// As PyTorch's expandable segments: handles of 20 MiB in a large range that grows and shrinks.
void segments(int turns) {
  constexpr std::size_t kPart = 20 * kMiB;
  constexpr std::size_t kMost = 16;
  const Mapper mapper;
  const CUdeviceptr range = mapper.reserve(kMost * kPart);
  std::vector<CUmemGenericAllocationHandle> mapped;
  for (int i = 0; i < turns; ++i) {
    const std::size_t wanted = 1 + static_cast<std::size_t>(i) * 5 % kMost;
    while (mapped.size() < wanted)
      mapped.push_back(mapper.map(range + mapped.size() * kPart, kPart));
    const CUdeviceptr last = range + (mapped.size() - 1) * kPart;
    MUST(cudaMemsetAsync(reinterpret_cast<void*>(last), i & 255, kPart, nullptr));
    check_byte(reinterpret_cast<const void*>(last), i & 255, nullptr);
    while (mapped.size() > wanted / 2) {
      mapper.unmap(range + (mapped.size() - 1) * kPart, kPart, mapped.back());
      mapped.pop_back();
    }
  }
  while (!mapped.empty()) {
    mapper.unmap(range + (mapped.size() - 1) * kPart, kPart, mapped.back());
    mapped.pop_back();
  }
  mapper.free(range, kMost * kPart);
}

struct Loop {
  const char* name;
  void (*run)(int turns);
};

constexpr Loop kLoops[] = {
    {"plain", plain},
    {"pitched", pitched},
    {"pool", [](int turns) { from_pool(turns, ~0ULL); }},
    {"pool_small", [](int turns) { from_pool(turns, 0); }},
    {"handles", handles},
    {"segments", segments},
};

}  // namespace

int main(int argc, char** argv) {
  const char* const name = argc > 1 ? argv[1] : "";
  const int turns = argc > 2 ? std::atoi(argv[2]) : 2000;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
  MUST(cudaFree(nullptr));
  for (const Loop& loop : kLoops) {
    if (std::strcmp(loop.name, name) != 0 || turns < 1) continue;
    const auto begin = std::chrono::steady_clock::now();
    loop.run(turns);
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - begin;
    std::printf("turn: %.3f us\n", took.count() / turns);
    return 0;
  }
  std::fprintf(
      stderr, "usage: coverage_loops plain|pitched|pool|pool_small|handles|segments [TURNS]\n");
  return 2;
}
