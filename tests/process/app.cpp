// SPDX-License-Identifier: MIT
// The program of docs/guide.md. Its argument says which mistake it makes: leak, memory, wrong
// or slow.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

static constexpr std::size_t MiB = 1 << 20;

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "app: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

static char* load_weights() {
  char* weights = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&weights), 24 * MiB));
  check(cudaMemset(weights, 0, 24 * MiB));
  return weights;
}

// One step of work in temporary memory.
static void step(std::size_t bytes) {
  char* scratch = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&scratch), bytes));
  check(cudaMemsetAsync(scratch, 1, bytes, nullptr));
  check(cudaFree(scratch));
}

static std::vector<char*> history;

// Keeps the result of each step for a log that nobody reads.
static void keep_result() {
  char* result = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&result), MiB / 4));
  history.push_back(result);
}

static void leak() {
  for (int i = 0; i < 200; ++i) {
    step((1 + i % 8) * MiB);
    keep_result();
  }
}

static char* load_batch(int index) {
  char* batch = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&batch), (16 + index) * MiB));
  return batch;
}

static void run_out() {
  std::vector<char*> batches;
  for (int i = 0; i < 100; ++i) {
    step(4 * MiB);
    batches.push_back(load_batch(i));
  }
}

static char* make_table() {
  char* table = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&table), 4000));
  return table;
}

// One byte more than the table has.
static void fill_table(char* table) {
  check(cudaMemset(table, 0, 4001));
}

static void overrun() {
  char* const table = make_table();
  fill_table(table);
  for (int i = 0; i < 50; ++i)
    step(MiB);
  check(cudaFree(table));
}

static void stall() {
  for (int i = 0; i < 200; ++i)
    step((1 + i % 16) * MiB);
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  char* const weights = load_weights();
  if (what == "leak") leak();
  if (what == "memory") run_out();
  if (what == "wrong") overrun();
  if (what == "slow") stall();
  check(cudaFree(weights));
}
