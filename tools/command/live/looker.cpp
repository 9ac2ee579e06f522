// SPDX-License-Identifier: MIT
#include "tools/command/live/look.hpp"

namespace custash::live {

Look Looker::look(std::chrono::milliseconds patience) {
  Look look;
  look.seen = watch_.look(patience);
  std::erase_if(look.seen,
                [](const Seen& each) { return each.page.updated == 0; });  // says nothing
  look.at = monotonic_now();
  for (const Seen& each : look.seen)
    look.programs[each.page.pid] =
        program_of(static_cast<pid_t>(each.page.pid), each.page.name);
  const std::size_t devices = nvml_ ? nvml_->devices() : 0;
  for (std::size_t i = 0; i < devices; ++i)
    if (const auto memory = nvml_->memory(i))
      look.devices.push_back({static_cast<int>(i), nvml_->address(i), *memory, nvml_->uuid(i)});
  return look;
}

}  // namespace custash::live
