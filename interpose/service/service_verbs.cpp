// SPDX-License-Identifier: MIT
// What the service answers. A verb is one row of the table; its function may be anywhere.
#include "allocator/peer_processes.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/service/live.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/service.hpp"
#include "interpose/service/snapshot_verbs.hpp"

#include <algorithm>
#include <charconv>

namespace custash::service {
namespace {

// "PID VERSION"
void ping(Allocator&, Session&, std::string_view, Answer* answer) {
  answer->text = std::to_string(identity().pid) + " " + std::to_string(kVersion);
}

bool read_bytes(std::string_view text, Bytes* out) {
  if (text == "all") {
    *out = ~Bytes{0};
    return true;
  }
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *out);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

// "trim BYTES" or "trim all": gives cached memory of each device back, BYTES in all; the answer
// is how many were given.
void trim(Allocator& core, Session&, std::string_view arguments, Answer* answer) {
  Bytes wanted = 0;
  int devices = 0;
  if (!read_bytes(arguments, &wanted)) {
    answer->status = ReplyStatus::BadArguments;
    return;
  }
  if (core.driver().device_get_count(&devices) != CUDA_SUCCESS) devices = 0;
  Bytes given = 0;
  for (int device = 0; device < devices && given < wanted; ++device)
    given += PeerProcesses(core).give_back(device, wanted - given);
  answer->text = std::to_string(given);
}

constexpr Verb kVerbs[] = {
    {"bye", ipc::leave},  // importers' four
    {"give", neighbours::give},
    {"history", snapshot::answer_history},
    {"leaks", snapshot::answer_leaks},
    {"live", live::answer},
    {"pages", ipc::pages},
    {"ping", ping},
    {"share", ipc::share},
    {"snapshot", snapshot::answer},
    {"stat", live::answer_statistics},
    {"trim", trim},
    {"unshare", ipc::unshare},
};

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}

void session_ended(const Session& session) {
  ipc::session_ended(session);
}

}  // namespace custash::service
