// SPDX-License-Identifier: MIT
#include "tests/fault/script.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace custash::property {
namespace {

Bytes size_of(const std::string& text) {
  std::size_t end = 0;
  const Bytes number = std::stoull(text, &end);
  if (end == text.size()) return number;
  return text[end] == 'K'   ? number << 10U
         : text[end] == 'M' ? number << 20U
                            : throw std::runtime_error("size " + text);
}

class Parser {
 public:
  Program parse(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line, ';');) {
      words_ = std::istringstream(line);
      std::string name;
      if (words_ >> name) command(name);
    }
    return std::move(program_);
  }

 private:
  int number() {
    int n = 0;
    if (!(words_ >> n)) throw std::runtime_error("a number is missing");
    return n;
  }

  Command& put(Op op) {
    Command c;
    c.op = op;
    c.context = context_;
    program_.commands.push_back(c);
    return program_.commands.back();
  }

  void uses(Command& c) {
    for (std::string word; words_ >> word;) {
      const int block = std::stoi(word.substr(1));
      c.uses.push_back({block, 0, sizes_[block], word[0] == 'w'});
    }
  }

  void allocate(Op op) {
    Command& c = put(op);
    c.block = number();
    std::string size;
    words_ >> size;
    c.bytes = sizes_[c.block] = size_of(size);
    if (op == Op::MallocAsync) c.stream = number();
    if (op == Op::HostAlloc) program_.pinned = true;
  }

  // Those whose numbers are (stream), (block, stream), …
  bool plain(const std::string& name) {
    struct Form {
      Op op;
      const char* numbers;  // s stream, b block, o other, f flags 1, n bytes
    };

    static const std::map<std::string, Form> kForms{{"stream", {Op::CreateStream, "sf"}},
                                                    {"bstream", {Op::CreateStream, "s"}},
                                                    {"unstream", {Op::DestroyStream, "s"}},
                                                    {"afree", {Op::FreeAsync, "bs"}},
                                                    {"share", {Op::RecordStream, "bs"}},
                                                    {"tohost", {Op::CopyToHost, "sbo"}},
                                                    {"fromhost", {Op::CopyFromHost, "sbo"}},
                                                    {"memset", {Op::Memset, "sb"}},
                                                    {"hostfn", {Op::HostFunction, "s"}},
                                                    {"hostread", {Op::HostRead, "o"}},
                                                    {"record", {Op::EventRecord, "os"}},
                                                    {"wait", {Op::EventWait, "os"}},
                                                    {"esync", {Op::EventSync, "o"}},
                                                    {"sync", {Op::StreamSync, "s"}},
                                                    {"csync", {Op::ContextSync, ""}},
                                                    {"trim", {Op::EmptyCache, ""}},
                                                    {"sleep", {Op::Sleep, ""}},
                                                    {"nod", {Op::Sleep, "n"}},
                                                    {"deep", {Op::DeepTrim, ""}},
                                                    {"run", {Op::Step, "n"}},
                                                    {"begin", {Op::CaptureBegin, "sf"}},
                                                    {"gbegin", {Op::CaptureBegin, "s"}},
                                                    {"launch", {Op::Launch, "os"}},
                                                    {"release", {Op::HostRelease, "b"}},
                                                    {"name", {Op::HostName, "bs"}},
                                                    {"write", {Op::BufferWrite, "b"}},
                                                    {"read", {Op::BufferRead, "b"}},
                                                    {"in", {Op::CopyIn, "bs"}},
                                                    {"out", {Op::CopyOut, "bs"}},
                                                    {"idle", {Op::Idle, "n"}}};
    const auto found = kForms.find(name);
    if (found == kForms.end()) return false;
    Command& c = put(found->second.op);
    for (const char* at = found->second.numbers; *at != 0; ++at) {
      if (*at == 'f') {
        c.flags = 1;
        continue;
      }
      const int n = number();
      (*at == 's' ? c.stream : *at == 'b' ? c.block : c.other) = n;
      if (*at == 'n') c.bytes = static_cast<Bytes>(n);
    }
    return true;
  }

  void command(const std::string& name) {
    if (plain(name)) return;
    if (name == "malloc") return allocate(Op::Malloc);
    if (name == "amalloc") return allocate(Op::MallocAsync);
    if (name == "alloc" || name == "falloc") {
      allocate(Op::HostAlloc);
      if (name == "falloc") program_.commands.back().flags = number();
      return;
    }
    if (name == "free") {
      put(program_.pinned ? Op::HostFree : Op::Free).block = number();
      return;
    }
    if (name == "ctx") {
      context_ = number();
      return;
    }
    if (name == "newctx" || name == "endctx") {
      context_ = number();
      put(name == "newctx" ? Op::CreateContext : Op::DestroyContext);
      if (name == "endctx") context_ = 0;
      return;
    }
    if (name == "kernel" || name == "need" || name == "set") {
      Command& c = put(Op::Kernel);
      c.stream = number();
      if (name == "need") c.needs = number();
      if (name == "set") c.sets = number();
      return uses(c);
    }
    if (name == "copy") {
      Command& c = put(Op::CopyBlock);
      c.stream = number();
      c.block = number();
      c.other = number();
      c.bytes = std::min(sizes_[c.block], sizes_[c.other]);
      return;
    }
    if (name == "end") {
      Command& c = put(Op::CaptureEnd);
      c.stream = number();
      const int graph = c.other = number();
      put(Op::Instantiate).other = graph;
      return;
    }
    if (name == "ungraph") {
      const int graph = number();
      put(Op::DestroyExec).other = graph;
      put(Op::DestroyGraph).other = graph;
      return;
    }
    throw std::runtime_error("no such command: " + name);
  }

  Program program_;
  std::istringstream words_;
  std::map<int, Bytes> sizes_;
  int context_ = 0;
};

}  // namespace

Program parse(std::string_view text) {
  return Parser().parse(text);
}

}  // namespace custash::property
