// SPDX-License-Identifier: MIT
// museum_others [NUMBER | right NUMBER]: more planted faults of memory, as museum.cu has them,
// and right programs. The faults are those that real programs have: wrong sizes, stale
// pointers, wrong indices. The protocol is museum.cu's. After a fault of a kernel the program
// ignores errors and exits with 0. Only "a pinned buffer after its free" may die of a signal.
#include "museum_bed.cuh"
#include "museum_others_device.cuh"
#include "museum_others_right.cuh"

#include <map>
#include <thread>

using gpu::kKiB;
using gpu::kMiB;
using museum::array_of;
using museum::expect;
using museum::finish;
using museum::pinned_of;
using museum::stream_of;

namespace {

constexpr int kThreads = 256;

// 40 blocks of 256 threads for 10007 elements, and no bound in the kernel.
void rounded_grid() {
  constexpr int kCount = 10'007;
  float* const out = array_of<float>(kCount);
  expect("past_end", out, kCount * sizeof(float));
  others_scale<<<(kCount + kThreads - 1) / kThreads, kThreads>>>(out, 2.0F);
  (void)finish();
  (void)cudaFree(out);
}

void transposed_stride() {
  constexpr int kWidth = 64;
  constexpr int kHeight = 48;
  int* const in = array_of<int>(kWidth * kHeight);
  int* const out = array_of<int>(kWidth * kHeight);
  CUDA_OK(cudaMemset(in, 1, kWidth * kHeight * sizeof(int)));
  expect("past_end", out, kWidth * kHeight * sizeof(int));
  others_transpose<<<1, kThreads>>>(in, out, kWidth, kHeight, kWidth);
  (void)finish();
  (void)cudaFree(out);
  (void)cudaFree(in);
}

// The loop begins with 0, which has no left neighbour.
void left_neighbour() {
  int* const values = array_of<int>(5000);
  expect("before_beginning", values, 5000 * sizeof(int));
  others_shift<<<1, kThreads>>>(values, 0, 5000);
  (void)finish();
  (void)cudaFree(values);
}

void late_wrap() {
  constexpr int kSlots = 31;
  constexpr int kRecord = 48;
  cudaStream_t const stream = stream_of();
  char* base = nullptr;
  CUDA_OK(cudaMallocAsync(&base, kSlots * kRecord, stream));
  expect("past_end", base, kSlots * kRecord);
  others_push<<<1, 32, 0, stream>>>(museum::Ring{base, kSlots + 1, kRecord}, 0, 40);
  (void)cudaFreeAsync(base, stream);
  (void)finish();
}

// Each turn sums a new block, and one element more. A read does no harm to what lies behind,
// so only a block that ends with its pages can show it.
void inclusive_sum() {
  constexpr long kCount = 64 * 1024;
  int* const sink = array_of<int>(1);
  for (int turn = 0; turn < 3; ++turn) {
    int* const values = array_of<int>(kCount);
    expect("past_end", values, kCount * sizeof(int));
    others_sum<<<1, kThreads>>>(values, 0, kCount, sink);
    if (!finish()) return;
  }
}

// The clean-up stands inside the loop.
void freed_in_the_first_turn() {
  constexpr long kCells = 100'000;
  float* const field = array_of<float>(kCells);
  float* scratch = array_of<float>(kCells);
  CUDA_OK(cudaMemset(field, 0, kCells * sizeof(float)));
  for (int turn = 0; turn < 2; ++turn) {
    char* const report = array_of<char>(4096);
    if (turn == 1) expect("after_free", scratch, kCells * sizeof(float));
    others_step<<<1, kThreads>>>(museum::Step{kCells, field, scratch});
    if (!finish()) return;
    if (turn == 0) CUDA_OK(cudaFree(scratch));
    (void)cudaFree(report);
  }
}

// The window grows and the back buffer is replaced. The struct keeps the old one.
void freed_back_buffer() {
  constexpr long kCells = 5L * 1024 * 1024;
  float* const front = array_of<float>(kCells);
  float* back = array_of<float>(kCells);
  museum::Step frame{kCells, front, back};
  CUDA_OK(cudaMemset(front, 0, kCells * sizeof(float)));
  others_step<<<1, kThreads>>>(frame);
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(back));
  back = array_of<float>(kCells * 2);
  expect("after_free", frame.next, kCells * sizeof(float));
  frame.cells = 64;
  frame.next += kCells / 2;  // the dirty lines begin in the middle
  others_step<<<1, kThreads>>>(frame);
  (void)finish();
}

// 1003 integers are 250 vectors and three quarters.
void vector_tail() {
  constexpr long kCount = 1003;
  int* const out = array_of<int>(kCount);
  expect("past_end", out, kCount * sizeof(int));
  others_fill4<<<1, kThreads>>>(reinterpret_cast<int4*>(out), (kCount + 3) / 4);
  (void)finish();
  (void)cudaFree(out);
}

// The mesh was copied before its normals were computed anew.
void stale_normals() {
  constexpr int kVertices = 30'000;
  float* const positions = array_of<float>(kVertices);
  float* normals = array_of<float>(kVertices);
  float* const out = array_of<float>(kVertices);
  CUDA_OK(cudaMemset(positions, 0, kVertices * sizeof(float)));
  CUDA_OK(cudaMemset(normals, 0, kVertices * sizeof(float)));
  const museum::Mesh mesh{kVertices, positions, normals};
  float* const smooth = array_of<float>(kVertices);
  CUDA_OK(cudaFree(normals));
  normals = smooth;
  expect("after_free", mesh.normals, kVertices * sizeof(float));
  others_shade<<<1, kThreads>>>(mesh, out);
  (void)finish();
}

// A cache on the host, by size, whose trim frees and forgets to erase.
void cached_workspace() {
  std::map<long, float*> cache;
  for (const long count : {1024L, 4096L, 65'536L})
    cache[count] = array_of<float>(count);
  others_scale<<<65'536 / kThreads, kThreads>>>(cache.at(65'536), 1.0F);
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(cache.at(65'536)));
  for (int i = 0; i < 4; ++i)
    CUDA_OK(cudaMemset(array_of<char>(10'000), 0, 10'000));
  expect("after_free", cache.at(65'536), 65'536 * sizeof(float));
  others_scale<<<65'536 / kThreads, kThreads>>>(cache.at(65'536), 2.0F);
  (void)finish();
}

// The graph's buffer is stream-ordered memory. It goes between two replays.
void replayed_too_often() {
  constexpr long kCells = 50'000;
  cudaStream_t const stream = stream_of();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  float* const input = array_of<float>(kCells);
  float* buffer = nullptr;
  CUDA_OK(cudaMallocAsync(&buffer, kCells * sizeof(float), stream));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaMemsetAsync(input, 0, kCells * sizeof(float), stream));
  others_step<<<1, kThreads, 0, stream>>>(museum::Step{kCells, input, buffer});
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i)
    CUDA_OK(cudaGraphLaunch(exec, stream));
  CUDA_OK(cudaFreeAsync(buffer, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  expect("after_free", buffer, kCells * sizeof(float));
  (void)cudaGraphLaunch(exec, stream);
  (void)finish();
}

// The mask is that of the table before it shrank from 64 MiB to 4. Key 4 goes to 55 MiB.
void mask_of_a_larger_table() {
  constexpr long kSlots = 1024 * 1024;
  int* const slots = array_of<int>(kSlots);
  CUDA_OK(cudaMemset(slots, 0, kSlots * sizeof(int)));
  expect("past_end", slots, kSlots * sizeof(int));
  others_insert<<<1, 1>>>(museum::Table{slots, 16 * kSlots - 1}, 4);
  (void)finish();
}

// Elements from 32768 on get negative indices.
void short_index() {
  constexpr int kCount = 40'000;
  float* const out = array_of<float>(kCount);
  expect("before_beginning", out, kCount * sizeof(float));
  others_scatter<<<1, kThreads>>>(out, kCount);
  (void)finish();
  (void)cudaFree(out);
}

void negative_remainder() {
  constexpr int kBuckets = 1021;
  int* const buckets = array_of<int>(kBuckets);
  CUDA_OK(cudaMemset(buckets, 0, kBuckets * sizeof(int)));
  expect("before_beginning", buckets, kBuckets * sizeof(int));
  others_put<<<1, 1>>>(buckets, kBuckets, 1, 1);
  (void)finish();
  (void)cudaFree(buckets);
}

// The value 1 has no bin.
void bin_too_many() {
  float values[100];
  for (int i = 0; i < 100; ++i)
    values[i] = static_cast<float>(i) / 99.0F;
  float* const from = array_of<float>(100);
  int* const bins = array_of<int>(256);
  CUDA_OK(cudaMemcpy(from, values, sizeof values, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemset(bins, 0, 256 * sizeof(int)));
  expect("past_end", bins, 256 * sizeof(int));
  others_histogram<<<1, kThreads>>>(from, 100, bins, 256);
  (void)finish();
  (void)cudaFree(bins);
  (void)cudaFree(from);
}

// The size of an element is multiplied in twice.
void size_taken_twice() {
  constexpr std::size_t kBytes = 4096 * sizeof(int);
  int* const block = array_of<int>(4096);
  expect("past_end", block, kBytes);
  (void)cudaMemset(block, 0, kBytes * sizeof(int));
  (void)finish();
}

void doubles_into_floats() {
  static double host[3000];
  float* const block = array_of<float>(3000);
  expect("past_end", block, 3000 * sizeof(float));
  (void)cudaMemcpy(block, host, 3000 * sizeof(double), cudaMemcpyHostToDevice);
  (void)finish();
}

// An image of 320 x 200 bytes, copied as one of 200 x 320. The host's side is right.
void swapped_width_and_height() {
  static char host[200 * 320];
  char* const image = array_of<char>(320 * 200);
  expect("past_end", image, 320 * 200);
  (void)cudaMemcpy2D(image, 320, host, 200, 200, 320, cudaMemcpyHostToDevice);
  (void)finish();
}

void rows_of_a_freed_block() {
  cudaStream_t const stream = stream_of();
  char* const pinned = pinned_of<char>(64 * 256);
  char* const block = array_of<char>(64 * 512);
  CUDA_OK(cudaMemset(block, 0, 64 * 512));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(block));
  expect("after_free", block, 64 * 512);
  (void)cudaMemcpy2DAsync(pinned, 256, block, 512, 256, 64, cudaMemcpyDeviceToHost, stream);
  (void)finish();
}

// Two threads share an address, and each takes it for its own.
void freed_by_two_threads() {
  float* const block = array_of<float>(20'000);
  others_scale<<<20'000 / 100, 100>>>(block, 1.0F);
  CUDA_OK(cudaDeviceSynchronize());
  std::thread([&] { CUDA_OK(cudaFree(block)); }).join();
  expect("second_free", block, 20'000 * sizeof(float));
  std::thread([&] { (void)cudaFree(block); }).join();
}

// A program's own arena hands out parts. One of them goes to cudaFree.
void part_of_an_arena() {
  char* const arena = array_of<char>(8 * kMiB);
  char* const part = arena + 3 * kMiB;
  CUDA_OK(cudaMemset(part, 0, 64 * kKiB));
  CUDA_OK(cudaDeviceSynchronize());
  expect("part_free", arena, 8 * kMiB);
  (void)cudaFree(part);
}

// The host packs a header of 24 bytes and a payload of 1000 into 1000 bytes.
void staging_too_small() {
  char* const staging = pinned_of<char>(1000);
  char* const block = array_of<char>(1000);
  expect("past_end", staging, 1000);
  std::memset(staging, 1, 24);
  std::memset(staging + 24, 2, 1000);
  (void)cudaMemcpy(block, staging, 1000, cudaMemcpyHostToDevice);
  (void)cudaFreeHost(staging);
  (void)cudaFree(block);
}

// The host writes the next frame into a buffer that it gave back. A signal may end this.
void staging_after_free() {
  char* const staging = pinned_of<char>(64 * 1024);
  char* const block = array_of<char>(64 * 1024);
  std::memset(staging, 1, 64 * kKiB);
  CUDA_OK(cudaMemcpy(block, staging, 64 * kKiB, cudaMemcpyHostToDevice));
  CUDA_OK(cudaFreeHost(staging));
  expect("after_free", staging, 64 * kKiB);
  *static_cast<volatile char*>(staging + 100) = 2;
}

void second_free_of_mapped() {
  void* first = nullptr;
  void* second = nullptr;
  CUDA_OK(cudaHostAlloc(&first, 20'000, cudaHostAllocMapped | cudaHostAllocPortable));
  CUDA_OK(cudaHostAlloc(&second, 40'000, cudaHostAllocPortable));
  CUDA_OK(cudaFreeHost(first));
  expect("second_free", first, 20'000);
  (void)cudaFreeHost(first);
  (void)cudaFreeHost(second);
}

const museum::Program kFaults[] = {
    {"a grid rounded up, without a bound", rounded_grid},
    {"a transposition with the wrong stride", transposed_stride},
    {"the left neighbour of the first element", left_neighbour},
    {"a ring that wraps one slot late", late_wrap},
    {"a sum of one element too many", inclusive_sum},
    {"a scratch buffer freed in the first turn", freed_in_the_first_turn},
    {"a back buffer that was replaced", freed_back_buffer},
    {"a vector store over the tail", vector_tail},
    {"one stale pointer of two", stale_normals},
    {"a cached workspace after its free", cached_workspace},
    {"a graph replayed after its buffer went", replayed_too_often},
    {"a hash table's mask of before it shrank", mask_of_a_larger_table},
    {"an index of 16 bits that overflows", short_index},
    {"a negative remainder", negative_remainder},
    {"a histogram without a bin for the maximum", bin_too_many},
    {"a memset whose size has the element twice", size_taken_twice},
    {"doubles copied into floats", doubles_into_floats},
    {"rows and columns swapped in a copy", swapped_width_and_height},
    {"rows copied from a freed block", rows_of_a_freed_block},
    {"a free by each of two threads", freed_by_two_threads},
    {"a free of an arena's part", part_of_an_arena},
    {"a pinned buffer overrun by the host", staging_too_small},
    {"a pinned buffer after its free, by the host", staging_after_free},
    {"a second free of mapped pinned memory", second_free_of_mapped},
};

const museum::Program kRight[] = {
    {"a pipeline of images", museum::image_pipeline},
    {"many threads", museum::many_threads},
    {"graphs and double buffers", museum::graphs_and_buffers},
    {"staging through pinned memory", museum::pinned_staging},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return museum::list(kFaults);
  gpu::need_devices(1);
  if (museum::is_right(argc, argv)) return museum::run(kRight, argv[2]);
  return museum::run(kFaults, argv[1]);
}
