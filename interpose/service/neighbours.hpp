// SPDX-License-Identifier: MIT
// Neighbours: other processes of this user under custash with memory on the same device. When
// this process runs short, it asks them all at once, and they release memory that they cache.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/service/service.hpp"
#include "interpose/service/service_client.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace custash::neighbours {

// The device as 32 hexadecimal digits, since numbers of devices differ from process to process
// (CUDA_VISIBLE_DEVICES). Empty: not known.
std::string uuid_of(CUdevice device);

struct Heard {
  service::Identity who;
  service::Reply reply;
};

// Asks all other processes of the user at once.
std::vector<Heard> ask_each(
    const std::string& request,
    service::Deadline until,
    bool (*wanted)(const service::Identity& who) = [](const service::Identity&) {
      return true;
    });

// It did not answer, and is left alone for a while.
bool is_deaf(const service::Identity& who);

// How many bytes they released, each asked for `bytes`. Waits at most a second; a
// neighbour that does not answer is not asked for ten seconds. Never throws.
Bytes ask(CUdevice device, Bytes bytes) noexcept;

// Bytes of the device that neighbours could release, as their pages say (live_page.hpp). The
// pages are read once a second at most. It queries no process and waits for none. Processes
// that ask at the same time all count the same bytes.
Bytes spare(const Allocator& core, CUdevice device) noexcept;

// The verb: "give UUID BYTES", the device as 32 hexadecimal digits.
service::Run give;

}  // namespace custash::neighbours
