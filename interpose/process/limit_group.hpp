// SPDX-License-Identifier: MIT
// The shares of a limit_group, one file for each group and device in /dev/shm, which only its
// user may open. It stays when its last member ends, a page without shares.
#pragma once

#include "allocator/base/quota.hpp"

#include <string>

namespace custash::limit_group {

// A group of this process alone, with a line in the log, where there is no room in the file or
// no file. `device` is its identity in all processes.
Quota::Group join(const std::string& group, const std::string& device);

}  // namespace custash::limit_group
