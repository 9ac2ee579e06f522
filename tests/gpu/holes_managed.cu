// SPDX-License-Identifier: MIT
// As `holes`, for a managed variable: a program that has one must wait at every free, so it has
// a program of its own. Right bare, and must be right under any allocator.
#include "holes_host.cuh"

namespace gpu {

__managed__ Word managed_words[1024];

static int run() {
  Report report;
  check_door(report, {"host_reach_managed_variable", [](Word** device) {
                        void* told = nullptr;
                        CUDA_OK(cudaGetSymbolAddress(&told, managed_words));
                        *device = static_cast<Word*>(told);
                        return managed_words;
                      }});
  need_devices(1);
  return report.finish();
}

}  // namespace gpu

int main() {
  return gpu::run();
}
