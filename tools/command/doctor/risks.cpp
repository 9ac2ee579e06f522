// SPDX-License-Identifier: MIT
#include "tools/command/doctor/examine.hpp"
#include "tools/command/elf.hpp"

#include <algorithm>
#include <initializer_list>

namespace custash::doctor {
namespace {

using Names = std::initializer_list<std::string_view>;

// The runtime's functions for per-thread default streams, and the driver's, have endings.
bool calls_any(std::string_view file, Names functions) {
  return std::any_of(functions.begin(), functions.end(), [&](std::string_view function) {
    for (const char* const ending : {"", "_ptsz", "_ptds", "_v2", "_v2_ptds", "_v2_ptsz"})
      if (calls(file, std::string(function) + ending)) return true;
    return false;
  });
}

// It leaves work behind and frees memory, and nothing in between waits.
bool counts_on_frees(std::string_view file) {
  return calls_any(file, {"cudaFree", "cuMemFree"}) &&
         calls_any(file,
                   {"cudaMemcpyAsync",
                    "cudaMemcpy2DAsync",
                    "cudaMemcpy3DAsync",
                    "cuMemcpyAsync",
                    "cuMemcpyHtoDAsync",
                    "cuMemcpyDtoHAsync",
                    "cudaLaunchKernel",
                    "cudaLaunchKernelExC",
                    "cuLaunchKernel",
                    "cuLaunchKernelEx"}) &&
         !calls_any(file,
                    {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
                     "cudaStreamQuery",       "cudaEventQuery",        "cudaMemcpy",
                     "cudaMemcpy2D",          "cudaMemcpy3D",          "cudaMemcpyFromSymbol",
                     "cudaLaunchHostFunc",    "cudaStreamAddCallback", "cuCtxSynchronize",
                     "cuStreamSynchronize",   "cuEventSynchronize",    "cuStreamQuery",
                     "cuEventQuery",          "cuMemcpyDtoH",          "cuMemcpy",
                     "cuLaunchHostFunc",      "cuStreamAddCallback"});
}

bool pins_by_itself(std::string_view file) {
  const auto needed = needed_of(file);
  return std::any_of(needed.begin(), needed.end(), [](const std::string& each) {
    return each.rfind("libgdrapi.so", 0) == 0 || each.rfind("libnvshmem", 0) == 0;
  });
}

}  // namespace

void examine_risks(const std::string& path, std::string_view file, Findings* findings) {
  if (counts_on_frees(file))
    findings->push_back(
        {Level::Note,
         path,
         "starts work and frees memory without a call that waits: it may rely on "
         "cudaFree to wait, which custash's seldom does",
         "Compare its results with custash run --conf free:strict (docs/semantics.md, "
         "Known differences)."});
  if (pins_by_itself(file))
    findings->push_back(
        {Level::Note,
         path,
         "lets others than CUDA's streams reach device memory (GDRCopy, NVSHMEM)",
         "Set SYNC_MEMOPS on such memory, or use --conf free:strict (docs/semantics.md, "
         "Known differences)."});
}

}  // namespace custash::doctor
