// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/named.hpp"

#include "interpose/history/symbols.hpp"
#include "tools/command/names/namer.hpp"
#include "tools/command/snapshot/found.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace custash::snapshot {
namespace {

using Ids = std::vector<std::size_t>;

// A function without its parameters and what it returns.
std::string_view plain_name(std::string_view function) {
  function = function.substr(0, function.find_first_of("(<"));
  function = function.substr(function.rfind(' ') + 1);  // npos + 1 is 0
  for (const std::string_view ending : {"_ptsz", "_ptds"})
    if (function.ends_with(ending)) function.remove_suffix(ending.size());
  return function;
}

// One that allocates, frees, copies or sets, of a runtime that is linked in, or its template in
// cuda_runtime.h.
bool is_runtime_call(std::string_view function) {
  constexpr std::string_view kCalls[] = {"cudaMalloc",
                                         "cudaMallocAsync",
                                         "cudaMallocFromPoolAsync",
                                         "cudaMallocPitch",
                                         "cudaMalloc3D",
                                         "cudaMallocHost",
                                         "cudaMallocManaged",
                                         "cudaHostAlloc",
                                         "cudaFree",
                                         "cudaFreeAsync",
                                         "cudaFreeHost"};
  function = plain_name(function);
  if (function.starts_with("cudaMemcpy") || function.starts_with("cudaMemset")) return true;
  return std::find(std::begin(kCalls), std::end(kCalls), function) != std::end(kCalls);
}

// The launcher blocks these signals: one that waits asks for a report without more names.
bool asked_to_stop() {
  sigset_t pending;
  if (sigpending(&pending) != 0) return false;
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP})
    if (sigismember(&pending, signal) == 1) return true;
  return false;
}

class Naming {
 public:
  Naming(const Json& snapshot, names::Servers servers)
      : old_(snapshot.at("frames")),
        namer_(servers, snapshot.at("time_us").get<std::int64_t>() / 1'000'000),
        known_(old_.size()) {}

  // `call`: the runtime's function that is cut off, if there is one.
  Json stack(const Json& ids, std::string* call) {
    Ids out;
    for (const Json& id : ids) {
      const Ids& frames = frames_of(id.get<std::size_t>());
      out.insert(out.end(), frames.begin(), frames.end());
    }
    // The frames further in belong to the runtime, too.
    constexpr std::size_t kDeepest = 12;
    for (std::size_t i = std::min(out.size(), kDeepest); i-- > 0;) {
      if (!is_runtime_call(name_of(out[i]))) continue;
      *call = plain_name(name_of(out[i]));
      out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      break;
    }
    cut_own(&out);
    // libc's frames that call main() say nothing of the program.
    constexpr std::ptrdiff_t kOfLibc = 3;
    const auto main = std::find_if(
        out.begin(), out.end(), [&](std::size_t id) { return name_of(id) == "main"; });
    if (out.end() - main <= kOfLibc + 1 && main != out.end()) out.erase(main + 1, out.end());
    const auto start = std::find_if(out.begin(), out.end(), [&](std::size_t id) {
      return is_start_of_program(name_of(id));
    });
    out.erase(start, std::find_if(start, out.end(), [&](std::size_t id) {
                return frames_[id].at("module").get<std::string>().empty();  // of Python
              }));
    return out;
  }

  Json take_frames() { return std::move(frames_); }

  [[nodiscard]] bool complete() const { return complete_; }

 private:
  [[nodiscard]] std::string name_of(std::size_t id) const {
    return frames_[id].at("name").get<std::string>();
  }

  // If custash is linked into the program: its own frames, and what they call of C++'s.
  void cut_own(Ids* stack) const {
    auto end = stack->begin();
    for (auto it = stack->begin(); it != stack->end(); ++it) {
      const std::string name = name_of(*it);
      if (is_own_function(name))
        end = it + 1;
      else if (plain_name(name).substr(0, 5) != "std::")
        break;
    }
    stack->erase(stack->begin(), end);
  }

  const Ids& frames_of(std::size_t id) {
    Ids& out = known_[id];
    if (!out.empty()) return out;
    const Json& frame = old_[id];
    std::vector<names::Line> lines;
    if (!asked_to_stop() && frame.at("file").get<std::string>().empty() &&
        frame.contains("build_id")) {
      complete_ &= names::Namer::works();
      lines = namer_.lines_at(frame.at("module").get<std::string>(),
                              frame.at("build_id").get<std::string>(),
                              frame.at("offset").get<std::uint64_t>(),
                              !frame.at("name").get<std::string>().empty());
    }
    if (lines.empty()) add(frame, &out);
    for (const names::Line& line : lines) {
      Json named = frame;
      named["name"] = line.function;
      named["file"] = line.file;
      named["line"] = line.line;
      add(named, &out);
    }
    return out;
  }

  void add(const Json& frame, Ids* to) {
    to->push_back(frames_.size());
    frames_.push_back(frame);
  }

  const Json& old_;
  names::Namer namer_;
  std::vector<Ids> known_;
  Json frames_ = Json::array();
  bool complete_ = true;
};

}  // namespace

bool name_frames(Json* snapshot, names::Servers servers) {
  Naming naming(*snapshot, servers);
  Json stacks = Json::array();
  std::string call;
  for (const Json& stack : snapshot->at("stacks"))
    stacks.push_back(naming.stack(stack, &call));
  (*snapshot)["stacks"] = std::move(stacks);
  (*snapshot)["frames"] = naming.take_frames();
  return naming.complete();
}

bool name_findings(Json* report, names::Servers servers) {
  // One list of frames for all, so that each place is looked up once.
  Json all{{"frames", Json::array()}, {"time_us", report->at("time_us")}};
  std::map<Json, std::size_t> known;
  for_each_stack(report, [&](Json* finding, Json* stack) {
    for (Json& id : *stack) {
      const Json& frame = frame_at(*finding, id);
      const auto [it, fresh] = known.try_emplace(frame, known.size());
      if (fresh) all["frames"].push_back(frame);
      id = it->second;
    }
  });
  Naming naming(all, servers);
  for_each_stack(report, [&](Json* finding, Json* stack) {
    std::string call;
    *stack = naming.stack(*stack, &call);
    if (stack != &finding->at("found_in") || finding->at("source") != "call" || call.empty())
      return;
    const auto before = finding->at("call").get<std::string>();
    auto text = finding->at("text").get<std::string>();
    if (text.starts_with(before)) (*finding)["text"] = text.replace(0, before.size(), call);
    (*finding)["call"] = call;
  });
  const Json frames = naming.take_frames();
  std::map<const Json*, std::map<std::size_t, std::size_t>> places;
  for (Json& finding : report->at("findings"))
    finding["frames"] = Json::array();
  for_each_stack(report, [&](Json* finding, Json* stack) {
    for (Json& id : *stack) {
      auto& of = places[finding];
      const auto [it, fresh] = of.try_emplace(id.get<std::size_t>(), of.size());
      if (fresh) (*finding)["frames"].push_back(frames[it->first]);
      id = it->second;
    }
  });
  return naming.complete();
}

void tell_of_libdw(bool complete) {
  static bool told = false;
  if (complete || std::exchange(told, true)) return;
  std::fputs(
      "custash: libdw.so.1 not found: call sites have no lines (Debian: apt-get install "
      "libdw1)\n",
      stderr);
}

}  // namespace custash::snapshot
