// SPDX-License-Identifier: MIT
// Log file: where the lines of the log go (options log and log_file). Its descriptor, in static
// storage, lives as long as the process.
#pragma once

#include "allocator/base/log.hpp"

#include <string>

namespace custash::log_file {

// Begins the log: into the file at `path`, made where it is not there (its folder is not), or
// to standard error where `path` is empty. Gives nothing, or why there is no log.
std::string open(LogLevel level, const std::string& path);

}  // namespace custash::log_file
