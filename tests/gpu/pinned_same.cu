// SPDX-License-Identifier: MIT
// Says what pinned memory is answered about on this machine: run_all.py compares what it says
// bare and with custash, line by line. The lines that begin with # are let differ.
#include "../process/pinned_answers.hpp"
#include "check.cuh"

int main() {
  gpu::need_devices(1);
  CUDA_OK(cudaFree(nullptr));
  answers::say_all();
  return 0;
}
