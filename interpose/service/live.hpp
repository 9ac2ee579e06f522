// SPDX-License-Identifier: MIT
// The writer of this process's LivePage. The service's thread calls open() and the verb; the
// exit and a fork call the rest. A call of the program writes nothing here.
#pragma once

#include "interpose/service/service.hpp"

namespace custash::live {

// Makes the file. If it cannot be made, the verb still answers.
void open(const service::Identity& who) noexcept;

// The verb "live": brings the page up to date and answers its bytes.
service::Run answer;

// Brings the page up to date. Returns the bytes that neighbours could get, of all devices.
std::int64_t refresh(Allocator& core);

// The verb "stat json [DEVICE]": a line of JSON of that device, or of every
// one that is used.
service::Run answer_statistics;

// At exit: removes the file.
void close() noexcept;

// The file is the parent's.
void after_fork_in_child() noexcept;

}  // namespace custash::live
