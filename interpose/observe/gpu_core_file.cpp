// SPDX-License-Identifier: MIT
#include "interpose/observe/gpu_core_file.hpp"

#include "interpose/process/checkers.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::gpu_core {
namespace {

// CUcoredumpSettings and CUCoredumpGenerationFlags.
constexpr int kEnable = 1;
constexpr int kFile = 5;
constexpr int kFlags = 7;
constexpr unsigned kLightweight = 1U | 2U | 4U | 8U;  // no images, no memory
constexpr unsigned kSkipAbort = 16;

const std::string* folder = nullptr;  // never destroyed

std::string path_in(const std::string& of) {
  return of + "/core";
}

CUresult set_number(Attribute* set, Attribute* get, int attribute, unsigned value) {
  std::size_t size = 0;
  unsigned char bytes[8] = {};
  if (get(attribute, nullptr, &size) != CUDA_SUCCESS || size == 0 || size > sizeof bytes)
    return CUDA_ERROR_NOT_SUPPORTED;
  std::memcpy(bytes, &value, sizeof value);
  return set(attribute, bytes, &size);
}

std::string content_of(const std::string& path) {
  std::string out;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return out;
  constexpr std::size_t kMost = std::size_t{256} << 20U;
  char part[65536];
  for (ssize_t got = 0; out.size() < kMost && (got = ::read(file, part, sizeof part)) > 0;)
    out.append(part, static_cast<std::size_t>(got));
  close(file);
  return out;
}

}  // namespace

std::string ask_for(Attribute* set, Attribute* get, const std::string& path) {
  if (set == nullptr || get == nullptr) return "the driver is older than CUDA 12.5";
  bool enabled = false;
  std::size_t size = sizeof enabled;
  if (get(kEnable, &enabled, &size) != CUDA_SUCCESS) return "the driver refuses";
  if (enabled) return "the program writes core dumps of its own";
  // The flags first: without them the driver ends the process.
  if (set_number(set, get, kFlags, kLightweight | kSkipAbort) != CUDA_SUCCESS)
    return "the driver would end the process";
  std::string name = path;
  size = name.size() + 1;
  if (set(kFile, name.data(), &size) != CUDA_SUCCESS) return "the driver refuses the file";
  enabled = true;
  size = sizeof enabled;
  return set(kEnable, &enabled, &size) == CUDA_SUCCESS ? "" : "the driver refuses";
}

std::string begin(void* (*symbol)(const char* name)) {
  if (const char* const tool = checkers::any_tool()) return std::string("seen ") + tool;
  for (const char* const place : {"/dev/shm", "/tmp"}) {
    std::string made = std::string(place) + "/custash-core.XXXXXX";
    if (mkdtemp(made.data()) == nullptr) continue;  // of mode 0700
    folder = new std::string(made);
    std::string why =
        ask_for(reinterpret_cast<Attribute*>(symbol("cuCoredumpSetAttributeGlobal")),
                reinterpret_cast<Attribute*>(symbol("cuCoredumpGetAttributeGlobal")),
                path_in(made));
    if (!why.empty()) end();
    return why;
  }
  return "no private folder can be made";
}

// The driver may still write when the first call tells the fault.
std::optional<GpuFault> fault() noexcept {
  if (folder == nullptr) return std::nullopt;
  constexpr int kTries = 40;
  try {
    std::size_t before = 0;
    for (int i = 0; i < kTries; ++i) {
      struct stat info {};

      const bool is_there = stat(path_in(*folder).c_str(), &info) == 0 && info.st_size > 0;
      const auto size = static_cast<std::size_t>(info.st_size);
      if (is_there && size == before) return read(content_of(path_in(*folder)));
      before = is_there ? size : 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  } catch (...) {  // out of host memory
  }
  return std::nullopt;
}

void end() noexcept {
  if (folder == nullptr) return;
  (void)unlink(path_in(*folder).c_str());
  (void)rmdir(folder->c_str());
  folder = nullptr;
}

}  // namespace custash::gpu_core
