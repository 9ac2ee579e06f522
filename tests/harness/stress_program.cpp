// SPDX-License-Identifier: MIT
#include "tests/harness/stress_program.hpp"

#include <array>
#include <random>
#include <sstream>

namespace custash::harness::stress {
namespace {

// How often each kind comes, of 100 or so.
constexpr std::array<int, kKinds> kWeights = {14, 10, 10, 8, 4, 3, 2, 2, 4, 6,
                                              6,  6,  4,  3, 5, 9, 4, 0, 1, 1};
constexpr int kSumOfWeights = 102;

// Mostly small; some beyond what comes from slabs.
constexpr std::array<std::int64_t, 12> kSizes = {
    1, 3, 64, 100, 257, 1000, 512, 768, 2000, 4096, 1024, 300'000};

constexpr std::array<double, 6> kScalars = {0.5, -1, 2, 1, 3, -0.25};

class Generator {
 public:
  Generator(std::uint64_t seed, int devices) : random_(seed) {
    program_.threads = 1 + below(kMostThreads);
    program_.devices = 1 + below(std::min(devices, 2));
    for (int i = 1 + below(4); i > 0; --i)
      sizes_.push_back(kSizes[static_cast<std::size_t>(below(below(12) == 0 ? 12 : 11))]);
  }

  Program run() {
    const int length = 10 + below(35);
    while (static_cast<int>(program_.commands.size()) < length)
      add();
    return std::move(program_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

  Kind choose_kind() {
    int left = below(kSumOfWeights);
    for (int kind = 0; kind < kKinds; ++kind)
      if ((left -= kWeights[static_cast<std::size_t>(kind)]) < 0)
        return static_cast<Kind>(kind);
    return Kind::Create;
  }

  void add() {
    Command c;
    c.kind = choose_kind();
    c.thread = below(program_.threads);
    c.stream = below(kStreams);
    c.device = below(program_.devices);
    c.wait = below(8) == 0 ? Wait::OnHost : static_cast<Wait>(below(2));
    c.dst = below(kSlots);
    c.a = below(kSlots);
    c.b = below(kSlots);
    c.op = static_cast<Binary>(below(6));
    c.type = static_cast<DType>(below(4));
    c.n = sizes_[random_() % sizes_.size()];
    c.seed = random_();
    c.value = kScalars[static_cast<std::size_t>(below(6))];
    if (c.kind == Kind::Send && program_.threads == 1) c.kind = Kind::Clone;
    if (c.kind == Kind::Send) c.letter = ++letters_;
    program_.commands.push_back(c);
    if (c.kind != Kind::Send) return;
    c.kind = Kind::Receive;
    c.thread = (c.thread + 1 + below(program_.threads - 1)) % program_.threads;
    program_.commands.push_back(c);
  }

  std::mt19937_64 random_;
  Program program_;
  std::vector<std::int64_t> sizes_;  // few, so that memory is handed on
  int letters_ = 0;
};

constexpr std::array<const char*, kKinds> kNames = {
    "create", "zip",  "in place", "scalar",  "map",   "sum",        "matmul",
    "sort",   "cast", "narrow",   "clone",   "plain", "pinned",     "host",
    "move",   "drop", "send",     "receive", "sync",  "empty_cache"};

}  // namespace

Program generate(std::uint64_t seed, int devices) {
  return Generator(seed, devices).run();
}

std::string describe(const Program& program) {
  std::ostringstream out;
  out << program.threads << " threads, " << program.devices << " devices\n";
  for (const Command& c : program.commands) {
    out << "  thread " << c.thread << ", cuda:" << c.device << " stream " << c.stream << ": "
        << kNames[static_cast<std::size_t>(c.kind)] << " dst=" << c.dst << " a=" << c.a
        << " b=" << c.b << " op=" << static_cast<int>(c.op) << " type=" << name_of(c.type)
        << " n=" << c.n << " value=" << c.value << " wait=" << static_cast<int>(c.wait);
    if (c.letter != 0) out << " letter=" << c.letter;
    out << "\n";
  }
  return out.str();
}

}  // namespace custash::harness::stress
