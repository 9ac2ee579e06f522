// SPDX-License-Identifier: MIT
// museum [NUMBER | right NUMBER]: small programs with one planted fault of memory each, and
// right ones. Without a number it lists the faults. With one it plants that fault and ends.
// Before the fault it prints what should be found: "expect KIND ADDRESS BYTES". Each kernel
// ends by itself. museum.py runs all of them under `custash run --check-memory`. On the
// simulator museum_kernels.cpp stands for the kernels.
#include "museum_bed.cuh"

#include <chrono>
#include <thread>

#include <sys/mman.h>

using gpu::kKiB;
using gpu::kMiB;
using museum::expect;
using museum::finish;

// `bytes` from `offset` on: written, or read and put into `sink`.
extern "C" __global__ void museum_write(char* block, long offset, long bytes) {
  for (long i = threadIdx.x; i < bytes; i += blockDim.x)
    block[offset + i] = 7;
}

extern "C" __global__ void museum_read(const char* block, long offset, long bytes, int* sink) {
  int sum = 0;
  for (long i = threadIdx.x; i < bytes; i += blockDim.x)
    sum += block[offset + i];
  atomicAdd(sink, sum);
}

struct Slice {
  int rows;
  char* block;
  long offset, bytes;
};

extern "C" __global__ void museum_slice(Slice slice) {
  for (long i = threadIdx.x; i < slice.bytes; i += blockDim.x)
    slice.block[slice.offset + i] = 7;
}

// The block's address lies in device memory.
extern "C" __global__ void museum_hidden(char* const* box, long offset) {
  (*box)[offset] = 7;
}

namespace {

char* block_of(std::size_t bytes) {
  return museum::array_of<char>(static_cast<long>(bytes));
}

char* pinned_of(std::size_t bytes) {
  return museum::pinned_of<char>(static_cast<long>(bytes));
}

// The first blocks of a run lie at their pages' end and at their beginning in turn.
char* second_block(std::size_t bytes) {
  (void)block_of(bytes);
  return block_of(bytes);
}

void write(char* block, long offset, long bytes, cudaStream_t stream = nullptr) {
  museum_write<<<1, 32, 0, stream>>>(block, offset, bytes);
}

void read(char* block, long offset, long bytes) {
  static int* const sink = reinterpret_cast<int*>(block_of(sizeof(int)));
  museum_read<<<1, 32>>>(block, offset, bytes, sink);
}

// A kernel writes beside a block, which is freed later.
void beside(const char* kind, std::size_t size, long offset, long bytes, bool second = false) {
  char* const block = second ? second_block(size) : block_of(size);
  write(block, 0, static_cast<long>(size));
  expect(kind, block, size);
  write(block, offset, bytes);
  finish();
  (void)cudaFree(block);
}

// A program whose call does wrong to a new block, which is not freed.
template <typename Call>
auto on_block(const char* kind, std::size_t size, Call call) {
  return [=] {
    char* const block = block_of(size);
    expect(kind, block, size);
    call(block);
    finish();
  };
}

template <std::size_t kSize, long kBytes, bool kSecond = false>
void past() {
  beside("past_end", kSize, static_cast<long>(kSize), kBytes, kSecond);
}

template <std::size_t kSize, long kBytes, bool kSecond = false>
void before() {
  beside("before_beginning", kSize, -kBytes, kBytes, kSecond);
}

// Far away, where no page is.
template <std::size_t kSize, bool kSecond>
void far_past() {
  beside("past_end", kSize, static_cast<long>(kSize + 4 * kMiB), 4, kSecond);
}

template <bool kSecond>
void far_before() {
  beside("before_beginning", kMiB, -static_cast<long>(kMiB + 512 * kKiB), 4, kSecond);
}

// Reads of slack are not seen; of two blocks one ends with its pages.
void read_past() {
  for (int i = 0; i < 3; ++i) {
    char* const block = block_of(64 * kKiB);
    expect("past_end", block, 64 * kKiB);
    read(block, 64 * kKiB, 4);
    finish();
  }
}

void read_before() {
  for (int i = 0; i < 3; ++i) {
    char* const block = block_of(64 * kKiB);
    expect("before_beginning", block, 64 * kKiB);
    read(block, -4, 4);
    finish();
  }
}

void off_by_one() {
  constexpr std::size_t kInts = 1000;
  char* const block = block_of(kInts * sizeof(int));
  expect("past_end", block, kInts * sizeof(int));
  write(block, 0, (kInts + 1) * sizeof(int));
  finish();
  (void)cudaFree(block);
}

void in_a_structure() {
  char* const block = block_of(10 * kKiB);
  expect("past_end", block, 10 * kKiB);
  museum_slice<<<1, 32>>>(Slice{1, block, 10 * kKiB, 40});
  finish();
  (void)cudaFree(block);
}

void wrong_pitch() {
  constexpr std::size_t kRows = 100;
  constexpr std::size_t kWidth = 300;
  char* const block = block_of(kRows * kWidth);
  expect("past_end", block, kRows * kWidth);
  for (std::size_t row = 0; row < kRows; ++row)  // as if rows lay 320 bytes apart
    write(block, static_cast<long>(row * 320), kWidth);
  finish();
  (void)cudaFree(block);
}

void hidden_pointer() {
  char* const block = block_of(kMiB);
  auto* const box = reinterpret_cast<char**>(block_of(sizeof(char*)));
  CUDA_OK(cudaMemcpy(box, &block, sizeof block, cudaMemcpyHostToDevice));
  expect("past_end", block, kMiB);
  museum_hidden<<<1, 1>>>(box, 5 * kMiB);
  finish();
}

// Memory of a pool that the program has made.
void past_of_a_pool() {
  constexpr std::size_t kSize = 10'000;
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaMemPoolCreate(&pool, &props));
  char* block = nullptr;
  CUDA_OK(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&block), kSize, pool, nullptr));
  expect("past_end", block, kSize);
  write(block, kSize, 4);
  finish();
  (void)cudaFreeAsync(block, nullptr);
  (void)cudaMemPoolDestroy(pool);
}

// Other allocations come after a free, as in most programs.
void go_on() {
  for (int i = 0; i < 4; ++i) {
    char* const other = block_of(kMiB);
    write(other, 0, kMiB);
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaFree(other));
  }
}

template <typename Use>
auto after_free(std::size_t size, Use use) {
  return [=] {
    char* const block = block_of(size);
    write(block, 0, static_cast<long>(size));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaFree(block));
    go_on();
    expect("after_free", block, size);
    use(block);
    finish();
  };
}

// The process ends while another thread is told of the fault.
void seen_by_two_threads() {
  char* const block = block_of(kMiB);
  expect("past_end", block, kMiB);
  write(block, 5 * kMiB, 4);
  std::thread([] { (void)cudaStreamSynchronize(nullptr); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  finish();
}

void freed_by_a_thread() {
  char* const block = block_of(2 * kMiB);
  std::thread([&] { CUDA_OK(cudaFree(block)); }).join();
  go_on();
  expect("after_free", block, 2 * kMiB);
  std::thread([&] {
    write(block, 64, 4);
    finish();
  }).join();
}

void after_free_async() {
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreate(&stream));
  char* block = nullptr;
  CUDA_OK(cudaMallocAsync(&block, kMiB, stream));
  write(block, 0, kMiB, stream);
  CUDA_OK(cudaFreeAsync(block, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  go_on();
  expect("after_free", block, kMiB);
  write(block, 0, 4, stream);
  finish();
}

void past_async() {
  char* block = nullptr;
  CUDA_OK(cudaMallocAsync(&block, 3000, nullptr));
  expect("past_end", block, 3000);
  write(block, 3000, 16);
  CUDA_OK(cudaFreeAsync(block, nullptr));
  finish();
}

void graph_after_free() {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  char* const block = block_of(kMiB);
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  write(block, 0, 64, stream);
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphLaunch(exec, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaFree(block));
  go_on();
  expect("after_free", block, kMiB);
  (void)cudaGraphLaunch(exec, stream);
  finish();
}

void second_free() {
  char* const block = block_of(kMiB);
  CUDA_OK(cudaFree(block));
  expect("second_free", block, kMiB);
  (void)cudaFree(block);
}

void second_free_later() {
  char* const block = block_of(500);
  CUDA_OK(cudaFree(block));
  go_on();
  expect("second_free", block, 500);
  (void)cudaFree(block);
}

void second_free_async() {
  char* block = nullptr;
  CUDA_OK(cudaMallocAsync(&block, kMiB, nullptr));
  CUDA_OK(cudaFreeAsync(block, nullptr));
  expect("second_free", block, kMiB);
  (void)cudaFreeAsync(block, nullptr);
}

void copy_source_past() {
  char* const source = block_of(1000);
  char* const target = block_of(2000);
  expect("past_end", source, 1000);
  (void)cudaMemcpyAsync(target, source, 1016, cudaMemcpyDeviceToDevice, nullptr);
  finish();
}

void copy_target_past() {
  char* const source = block_of(2000);
  char* const target = block_of(1000);
  expect("past_end", target, 1000);
  (void)cudaMemcpyAsync(target, source, 1100, cudaMemcpyDeviceToDevice, nullptr);
  finish();
}

void second_free_pinned() {
  char* const block = pinned_of(4096);
  CUDA_OK(cudaFreeHost(block));
  expect("second_free", block, 4096);
  (void)cudaFreeHost(block);
}

void part_free_pinned() {
  char* const block = pinned_of(4096);
  expect("part_free", block, 4096);
  (void)cudaFreeHost(block + 64);
}

void copy_past_pinned() {
  char* const source = pinned_of(1000);
  char* const target = block_of(2000);
  expect("past_end", source, 1000);
  (void)cudaMemcpyAsync(target, source, 1100, cudaMemcpyHostToDevice, nullptr);
  finish();
}

void copy_to_freed_pinned() {
  char* const source = block_of(1000);
  char* const target = pinned_of(1000);
  CUDA_OK(cudaFreeHost(target));
  expect("after_free", target, 1000);
  (void)cudaMemcpyAsync(target, source, 1000, cudaMemcpyDeviceToHost, nullptr);
  finish();
}

char host_memory[8 * kMiB];

auto copy_out(std::size_t bytes) {
  return
      [=](char* block) { (void)cudaMemcpy(host_memory, block, bytes, cudaMemcpyDeviceToHost); };
}

auto copy_in(std::size_t bytes) {
  return
      [=](char* block) { (void)cudaMemcpy(block, host_memory, bytes, cudaMemcpyHostToDevice); };
}

const museum::Program kFaults[] = {
    {"a byte past the end", past<1000, 1>},
    {"a byte past the end, second block", past<1000, 1, true>},
    {"four bytes past the end", past<1000, 4>},
    {"four bytes past an end that is aligned", past<4096, 4>},
    {"the same, second block", past<4096, 4, true>},
    {"64 bytes past a large block's end", past<16 * kMiB, 64>},
    {"4 KiB past the end", past<100'000, 4096>},
    {"far past the end", far_past<kMiB, false>},
    {"far past the end, second block", far_past<kMiB, true>},
    {"a byte before the beginning", before<1000, 1>},
    {"a byte before the beginning, second block", before<1000, 1, true>},
    {"256 bytes before the beginning", before<kMiB, 256>},
    {"far before the beginning", far_before<false>},
    {"far before the beginning, second block", far_before<true>},
    {"a read past the end", read_past},
    {"a read before the beginning", read_before},
    {"one integer too many", off_by_one},
    {"past the end by an address in a structure", in_a_structure},
    {"rows with a wrong pitch", wrong_pitch},
    {"past the end by an address in device memory", hidden_pointer},
    {"past the end of a block that nobody frees",
     on_block("past_end", 5000, [](char* block) { write(block, 5000, 8); })},
    {"past the end of stream-ordered memory", past_async},
    {"past the end of a pool's memory", past_of_a_pool},
    {"far past the end, seen by two threads", seen_by_two_threads},
    {"a write after the free", after_free(kMiB, [](char* block) { write(block, 0, 4); })},
    {"a read after the free", after_free(kMiB, [](char* block) { read(block, 0, 4); })},
    {"a write to a small block after the free",
     after_free(100, [](char* block) { write(block, 0, 100); })},
    {"a write to a large block after the free",
     after_free(64 * kMiB, [](char* block) { write(block, 40 * kMiB, 4); })},
    {"a write on a stream after the free",
     after_free(kMiB,
                [](char* block) {
                  cudaStream_t const stream = museum::stream_of();
                  write(block, 128, 4, stream);
                  (void)cudaStreamSynchronize(stream);
                })},
    {"a write after another thread's free", freed_by_a_thread},
    {"a write after a stream-ordered free", after_free_async},
    {"a graph after the free", graph_after_free},
    {"a copy from a freed block", after_free(kMiB, copy_out(64))},
    {"a copy to a freed block", after_free(kMiB, copy_in(64))},
    {"a memset of a freed block",
     after_free(kMiB, [](char* block) { (void)cudaMemset(block, 0, 64); })},
    {"a second free", second_free},
    {"a second free, later", second_free_later},
    {"a second stream-ordered free", second_free_async},
    {"a free of a part",
     on_block("part_free", 4096, [](char* block) { (void)cudaFree(block + 256); })},
    {"a free of an odd address",
     on_block("part_free", 4096, [](char* block) { (void)cudaFree(block + 1); })},
    {"a stream-ordered free of a part",
     on_block(
         "part_free", 4096, [](char* block) { (void)cudaFreeAsync(block + 512, nullptr); })},
    {"a copy out of more than the block", on_block("past_end", 1000, copy_out(1024))},
    {"a copy in of a byte too many", on_block("past_end", 1000, copy_in(1001))},
    {"a copy whose source is too small", copy_source_past},
    {"a copy whose target is too small", copy_target_past},
    {"a copy of far too much", on_block("past_end", kMiB, copy_out(5 * kMiB))},
    {"a memset of a byte too many",
     on_block("past_end", 1000, [](char* block) { (void)cudaMemset(block, 0, 1001); })},
    {"an asynchronous memset past the end",
     on_block("past_end",
              4096,
              [](char* block) { (void)cudaMemsetAsync(block, 0, 4096 + 512, nullptr); })},
    {"a memset of a row too many",
     on_block("past_end",
              100 * 256,
              [](char* block) { (void)cudaMemset2D(block, 256, 0, 200, 101); })},
    {"a memset that begins too early",
     on_block(
         "before_beginning", 1000, [](char* block) { (void)cudaMemset(block - 8, 0, 16); })},
    {"a second free of pinned memory", second_free_pinned},
    {"a free of a part of pinned memory", part_free_pinned},
    {"a copy of more than a pinned block", copy_past_pinned},
    {"a copy to a freed pinned block", copy_to_freed_pinned},
};

// Right programs, of which nothing may be said.

void ordinary() {
  static char host[64 * kKiB];
  cudaStream_t streams[3] = {};
  for (cudaStream_t& each : streams)
    CUDA_OK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  char* const pinned = pinned_of(64 * kKiB);
  for (int i = 0; i < 100; ++i) {
    const std::size_t bytes = 1 + static_cast<std::size_t>(i) * 641;
    cudaStream_t const stream = streams[i % 3];
    char* const block = block_of(bytes);
    char* ordered = nullptr;
    CUDA_OK(cudaMallocAsync(&ordered, bytes, stream));
    write(block, 0, static_cast<long>(bytes), stream);
    CUDA_OK(cudaMemcpyAsync(ordered, block, bytes, cudaMemcpyDeviceToDevice, stream));
    CUDA_OK(cudaMemcpyAsync(pinned, ordered, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaMemsetAsync(ordered, 1, bytes, stream));
    CUDA_OK(cudaFreeAsync(ordered, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaMemcpy(host, block, bytes, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaFree(block));
  }
  char* rows = nullptr;
  std::size_t pitch = 0;
  CUDA_OK(cudaMallocPitch(&rows, &pitch, 300, 100));
  CUDA_OK(cudaMemset2D(rows, pitch, 0, 300, 100));
  CUDA_OK(cudaMemcpy2D(host, 300, rows, pitch, 300, 100, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaFree(rows));
  CUDA_OK(cudaFreeHost(pinned));
  CUDA_OK(cudaDeviceSynchronize());
}

// What was pinned belongs to others once its context has ended.
void addresses_of_others() {
  constexpr std::size_t kBytes = 4 * kMiB;
  char* const pinned = pinned_of(kBytes);
  CUDA_OK(cudaFreeHost(pinned));
  CUDA_OK(cudaDeviceReset());
  void* const here = mmap(pinned,
                          kBytes,
                          PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                          -1,
                          0);
  std::printf("%s\n", here == pinned ? "at the same address" : "elsewhere");
  if (here == MAP_FAILED) return;
  char* const block = block_of(kBytes);
  CUDA_OK(cudaMemcpyAsync(block, here, kBytes, cudaMemcpyHostToDevice, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(block));
}

const museum::Program kRight[] = {
    {"ordinary", ordinary},
    {"addresses of others", addresses_of_others},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return museum::list(kFaults);
  gpu::need_devices(1);
  if (museum::is_right(argc, argv)) return museum::run(kRight, argv[2]);
  return museum::run(kFaults, argv[1]);
}
