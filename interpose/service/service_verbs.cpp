// SPDX-License-Identifier: MIT
#include "allocator/peer_processes.hpp"
#include "interpose/service/service_loop.hpp"
#include "interpose/service/verbs.hpp"

#include <algorithm>
#include <charconv>

namespace custash::service {
namespace {

constinit std::span<const Verb> answered;
using LetGo = void(const Session& session);
constinit LetGo* let_go = nullptr;
using Tick = int(Allocator& core);
constinit Tick* due = nullptr;

bool read_bytes(std::string_view text, Bytes* out) {
  if (text == "all") {
    *out = ~Bytes{0};
    return true;
  }
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *out);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

}  // namespace

void answer_with(std::span<const Verb> verbs, void (*session_ended)(const Session& session)) {
  answered = verbs;
  let_go = session_ended;
}

std::span<const Verb> verbs() {
  return answered;
}

void session_ended(const Session& session) {
  let_go(session);
}

void tick_with(int (*what)(Allocator& core)) {
  due = what;
}

bool ticks() {
  return due != nullptr;
}

int tick(Allocator& core) {
  return due(core);
}

void ping(Allocator&, Session&, std::string_view, Answer* answer) {
  answer->text = std::to_string(identity().pid) + " " + std::to_string(kVersion);
}

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

}  // namespace custash::service
