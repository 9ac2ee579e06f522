// SPDX-License-Identifier: MIT
// Each is right on bare CUDA (custash_host_free taken for cudaFreeHost). One idea each.
#include "tests/fault/pinned_scenarios.hpp"

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace custash::property {
namespace {

constexpr PinScenario kScenarios[] = {
    {"one small buffer", "alloc 0 100; write 0; free 0"},
    {"one large buffer", "alloc 0 1100K; write 0; free 0"},
    {"one of each kind",
     "falloc 0 4K 0; falloc 1 4K 1; falloc 2 4K 4; falloc 3 100 7; write 0; free 3; free 1; "
     "free "
     "0; free 2"},
    {"a buffer that comes back", "alloc 0 4K; write 0; free 0; alloc 1 4K; write 1; free 1"},
    {"a copy in flight",
     "stream 3; alloc 0 4K; write 0; in 0 3; free 0; alloc 1 4K; write 1; in 1 3; free 1"},
    {"copies in flight on two streams",
     "stream 3; stream 4; alloc 0 4K; alloc 1 4K; write 0; write 1; in 0 3; in 1 4; free 0; "
     "free "
     "1; alloc 2 4K; alloc 3 8K; write 2; write 3; run 9; free 2; alloc 4 4K; write 4"},
    {"the default streams",
     "alloc 0 4K; write 0; in 0 0; free 0; alloc 1 4K; write 1; in 1 2; free 1; alloc 2 4K; "
     "write "
     "2; in 2 1; free 2; csync; alloc 3 4K; write 3"},
    {"a stream that ends with a copy",
     "stream 3; alloc 0 4K; write 0; in 0 3; unstream 3; free 0; alloc 1 4K; write 1"},
    {"a copy to the host, read after a free",
     "stream 3; alloc 0 4K; alloc 1 4K; out 0 3; free 1; read 0; free 0"},
    {"a kernel on pinned memory",
     "stream 3; alloc 0 4K; write 0; rkernel 0 3; free 0; alloc 1 4K; wkernel 1 3; sync 3; "
     "read 1"},
    {"named streams",
     "stream 3; stream 4; alloc 0 4K; write 0; in 0 3; in 0 4; name 0 3; name 0 4; release 0; "
     "alloc 1 4K; write 1; sync 3; sync 4; alloc 2 4K; write 2; release 1; release 2"},
    {"a named stream, freed as by cudaFreeHost",
     "stream 3; alloc 0 4K; write 0; name 0 3; in 0 3; free 0; alloc 1 4K; write 1"},
    {"streams that take no event",
     "alloc 0 4K; write 0; in 0 0; name 0 0; release 0; alloc 1 4K; write 1; in 1 2; name 1 2; "
     "release 1; alloc 2 4K; write 2"},
    {"released without a name", "stream 3; alloc 0 4K; write 0; in 0 3; release 0; alloc 1 4K"},
    {"empty with all free", "alloc 0 4K; alloc 1 1100K; free 0; free 1; empty; alloc 2 4K"},
    {"empty with work in flight",
     "stream 3; alloc 0 4K; write 0; in 0 3; free 0; empty; alloc 1 4K; write 1; csync; empty"},
    {"what idles goes",
     "alloc 0 4K; free 0; idle 100; alloc 1 100; free 1; idle 100; alloc 2 100; free 2; idle "
     "100; "
     "alloc 3 100; free 3"},
    {"two contexts of a device",
     "newctx 2; stream 3; alloc 0 4K; write 0; in 0 3; ctx 0; stream 4; rkernel 0 4; alloc 1 "
     "4K; "
     "in 1 4; free 1; free 0; alloc 2 4K; write 2"},
    {"two devices",
     "stream 3; alloc 0 4K; write 0; in 0 3; ctx 1; stream 4; alloc 1 4K; write 1; in 1 4; "
     "free "
     "1; alloc 2 4K; write 2; ctx 0; free 0; alloc 3 4K; write 3"},
    {"a context that ends with buffers",
     "newctx 2; stream 3; alloc 0 4K; alloc 1 4K; alloc 2 100; write 0; write 1; in 0 3; in 1 "
     "3; "
     "name 1 3; free 0; release 1; endctx; alloc 3 4K; write 3"},
    {"a device reset with buffers",
     "stream 3; alloc 0 4K; alloc 1 100; write 0; in 0 3; free 0; endctx; alloc 2 4K; write 2; "
     "free 2"},
    {"beside a relaxed capture",
     "stream 3; stream 4; alloc 0 4K; write 0; begin 3; wkernel 0 3; alloc 1 4K; write 1; in 1 "
     "4; "
     "free 1; alloc 2 4K; write 2; end 3 0; launch 0 4; csync; ungraph 0; free 0"},
    {"beside a global capture",
     "stream 3; stream 4; alloc 0 4K; alloc 1 4K; write 1; gbegin 3; in 1 4; rkernel 0 3; end "
     "3 "
     "0; free 1; alloc 2 4K; write 2; launch 0 4; csync; ungraph 0"},
    {"kernels that need each other",
     "stream 3; stream 4; alloc 0 4K; write 0; in 0 3; free 0; need 3 1; alloc 1 4K; write 1; "
     "in "
     "1 4; set 4 1; csync; free 1"},
};

class Parser {
 public:
  PinProgram parse(std::string_view text) {
    std::istringstream commands{std::string(text)};
    for (std::string one; std::getline(commands, one, ';');) {
      words_ = std::istringstream(one);
      std::string name;
      if (words_ >> name) command(name);
    }
    return std::move(program_);
  }

 private:
  // h, s, o, n, f: where the numbers go, in order.
  static const std::map<std::string, std::pair<PinOp, const char*>>& forms() {
    static const std::map<std::string, std::pair<PinOp, const char*>> kForms{
        {"newctx", {PinOp::CreateContext, "c"}},
        {"endctx", {PinOp::EndContext, ""}},
        {"stream", {PinOp::CreateStream, "s1"}},
        {"bstream", {PinOp::CreateStream, "s"}},
        {"unstream", {PinOp::DestroyStream, "s"}},
        {"alloc", {PinOp::Alloc, "hn"}},
        {"falloc", {PinOp::Alloc, "hnf"}},
        {"free", {PinOp::Free, "h"}},
        {"release", {PinOp::Release, "h"}},
        {"name", {PinOp::Name, "hs"}},
        {"write", {PinOp::HostWrite, "h"}},
        {"read", {PinOp::HostRead, "h"}},
        {"in", {PinOp::CopyIn, "hs"}},
        {"out", {PinOp::CopyOut, "hs"}},
        {"kernel", {PinOp::Kernel, "s"}},
        {"rkernel", {PinOp::Kernel, "hs"}},
        {"wkernel", {PinOp::Kernel, "hs1"}},
        {"need", {PinOp::Kernel, "sd"}},
        {"set", {PinOp::Kernel, "st"}},
        {"record", {PinOp::EventRecord, "os"}},
        {"wait", {PinOp::EventWait, "os"}},
        {"sync", {PinOp::StreamSync, "s"}},
        {"csync", {PinOp::ContextSync, ""}},
        {"empty", {PinOp::Empty, ""}},
        {"begin", {PinOp::CaptureBegin, "s1"}},
        {"gbegin", {PinOp::CaptureBegin, "s"}},
        {"end", {PinOp::CaptureEnd, "so"}},
        {"launch", {PinOp::Launch, "os"}},
        {"ungraph", {PinOp::EndGraph, "o"}},
        {"idle", {PinOp::Idle, "n"}},
        {"run", {PinOp::Step, "n"}}};
    return kForms;
  }

  void command(const std::string& name) {
    if (name == "ctx") {
      context_ = static_cast<int>(number());
      return;
    }
    const auto found = forms().find(name);
    if (found == forms().end()) throw std::runtime_error("no such command: " + name);
    PinCommand c{.op = found->second.first};
    for (const char* at = found->second.second; *at != 0; ++at) {
      if (*at == '1') {
        c.flags = 1;
        continue;
      }
      const Bytes n = number();
      const int small = static_cast<int>(n);
      if (*at == 'c') context_ = small;
      if (*at == 'h') c.buffer = small;
      if (*at == 's') c.stream = small;
      if (*at == 'o') c.other = small;
      if (*at == 'n') c.bytes = n;
      if (*at == 'f') c.flags = static_cast<unsigned>(n);
      if (*at == 'd') c.needs = small;
      if (*at == 't') c.sets = small;
    }
    c.context = context_;
    if (c.op == PinOp::EndContext) context_ = 0;
    program_.commands.push_back(c);
  }

  // 100, 4K
  Bytes number() {
    std::string word;
    if (!(words_ >> word)) throw std::runtime_error("a number is missing");
    const Bytes n = std::stoull(word);
    return word.back() == 'K' ? n * 1024 : n;
  }

  PinProgram program_;
  std::istringstream words_;
  int context_ = 0;
};

}  // namespace

std::span<const PinScenario> pinned_scenarios() {
  return kScenarios;
}

PinProgram parse_pinned(std::string_view script) {
  return Parser().parse(script);
}

}  // namespace custash::property
