// SPDX-License-Identifier: MIT
#include "interpose/api/control.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/process/device_scope.hpp"
#include "interpose/real/real_driver.hpp"

#include <cstring>

namespace custash::control {

custash_status_t translate(Status status) {
  switch (status.code()) {
    case CUDA_SUCCESS:
      return CUSTASH_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
      return CUSTASH_ERROR_INVALID_VALUE;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return CUSTASH_ERROR_OUT_OF_MEMORY;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
      return CUSTASH_ERROR_NOT_RUNNING;
    default:
      return CUSTASH_ERROR_DRIVER;
  }
}

Allocator* core_or_start() {
  Allocator* const core = process::core();
  if (core != nullptr || process::state() != process::State::NotStarted) return core;
  const void* const caller = callers::current;
  const bool started = hook_cuInit(0) == CUDA_SUCCESS;
  callers::current = caller;
  return started ? process::core() : nullptr;
}

custash_status_t find_device(Allocator& core, int* device) {
  int count = 0;
  if (const Status status = core.driver().device_get_count(&count); !status.ok())
    return translate(status);
  *device = DeviceScope::resolve(core.driver(), *device);
  return *device < count ? CUSTASH_SUCCESS : CUSTASH_ERROR_INVALID_VALUE;
}

std::vector<std::string> names_of(const Counters& counters) {
  std::vector<std::string> names;
  for (const auto& [name, value] : counters)
    names.push_back(name);
  return names;
}

custash_status_t write_stats(const Counters& counters,
                             const std::vector<std::string>& names,
                             custash_stat_t* stats,
                             std::size_t* count) {
  const std::size_t room = stats == nullptr ? 0 : *count;
  for (std::size_t i = 0; i < std::min(room, counters.size()); ++i)
    stats[i] = {names[i].c_str(), counters[i].second};
  *count = counters.size();
  const bool fits = stats == nullptr || room >= counters.size();
  return fits ? CUSTASH_SUCCESS : CUSTASH_ERROR_BUFFER_TOO_SMALL;
}

custash_status_t write_text(const std::string& all, char* text, std::size_t* size) {
  const std::size_t room = text == nullptr ? 0 : *size;
  *size = all.size() + 1;
  if (text == nullptr) return CUSTASH_SUCCESS;
  if (room < *size) return CUSTASH_ERROR_BUFFER_TOO_SMALL;
  std::memcpy(text, all.c_str(), *size);
  return CUSTASH_SUCCESS;
}

}  // namespace custash::control
