// SPDX-License-Identifier: MIT
// Log file: where the lines of the log go (options log and log_file). Its descriptor, in static
// storage, lives as long as the process.
#pragma once

#include "allocator/base/log.hpp"

#include <string>

namespace custash::log_file {

// Begins the log in the file at `path`, or on standard error where `path` is empty. A missing
// file is made, a missing folder is not. Returns the reason where there is no log.
std::string open(LogLevel level, const std::string& path);

}  // namespace custash::log_file
