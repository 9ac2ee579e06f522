// SPDX-License-Identifier: MIT
// Pickles as bytes: what is read, what is refused, and that none can do harm. What Python
// writes is read in command.py.
#include "tests/catch.hpp"
#include "tools/replay/pickle.hpp"
#include "tools/replay/trace.hpp"

#include <cstdlib>
#include <random>

namespace custash::replay {
namespace {

using namespace std::string_literals;

std::string text(const std::string& what) {
  return "\x8c"s + static_cast<char>(what.size()) + what;
}

std::string number(std::uint64_t value) {
  std::string out = "\x8a\x08"s;
  for (int i = 0; i < 8; ++i)
    out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string entry(const std::string& action, std::uint64_t address, std::uint64_t size) {
  return "}("s + text("action") + text(action) + text("addr") + number(address) + text("size") +
         number(size) + text("stream") + "K\x00"s + text("time_us") + "M\x10\x20" + "u";
}

std::string snapshot(const std::string& entries, const std::string& segments = "]") {
  return "\x80\x04}("s + text("segments") + segments + text("device_traces") + "](](" +
         entries + "eeu.";
}

std::string complaint(const std::string& bytes) {
  try {
    (void)parse_snapshot("p", bytes);
  } catch (const BadTrace& bad) {
    return bad.what();
  }
  return {};
}

const std::string kGood =
    snapshot(entry("alloc", 512, 100) + entry("segment_alloc", 0, 2 << 20) +
             entry("alloc", 1024, 200) + entry("free_requested", 512, 100) +
             entry("free_completed", 512, 100) + entry("alloc", 512, 50));

}  // namespace

TEST_CASE("a snapshot's allocations and frees are its events", "[snapshot]") {
  const Trace trace = parse_snapshot("p", kGood);
  REQUIRE(trace.events.size() == 4);
  CHECK(trace.peak == 300);
  CHECK(trace.events[2].kind == Kind::Free);
  CHECK(trace.events[0].time == Nanoseconds{0x2010} * 1000);
}

TEST_CASE("blocks older than the recording are allocated first", "[snapshot]") {
  // One is freed in it, one is in use at its end, one was freed before.
  const auto block = [](std::uint64_t size, const char* state) {
    return "}("s + text("size") + number(size) + text("state") + text(state) + "u";
  };
  const std::string segments = "](}("s + text("device") + "K\x00"s + text("address") +
                               number(4096) + text("blocks") + "](" +
                               block(1024, "active_allocated") + block(512, "inactive") +
                               block(2048, "active_allocated") + "eue";
  const Trace trace = parse_snapshot(
      "p", snapshot(entry("free_requested", 64, 7) + entry("alloc", 4096, 1000), segments));
  REQUIRE(trace.events.size() == 4);
  CHECK(trace.events[0].bytes == 7);
  CHECK(trace.events[1].bytes == 2048);
  CHECK(trace.peak == 2048 + 1000);
  CHECK(trace.events[2].kind == Kind::Free);
}

TEST_CASE("a pickle that would run code is refused by name", "[snapshot]") {
  const std::pair<std::string, std::string> cases[] = {
      {"\x80\x02"s + "cos\nsystem\n" + "(X\x02\x00\x00\x00lstR.", "GLOBAL"},
      {"\x80\x04"s + text("os") + text("system") + "\x93.", "GLOBAL"},
      {"\x80\x02NNR.", "REDUCE"},
      {"\x80\x02NNb.", "BUILD"},
      {"\x80\x02NN\x81.", "NEWOBJ"},
      {"\x80\x02(ios\nsystem\n.", "INST"},
      {"\x80\x02(o.", "OBJ"},
      {"\x80\x02NQ.", "PERSID"},
      {"\x80\x02\x82\x01.", "EXT"},
  };
  for (const auto& [bytes, opcode] : cases) {
    INFO(opcode);
    CHECK(complaint(bytes).find("would run code (" + opcode) != std::string::npos);
  }
}

TEST_CASE("a pickle that is none is refused with the byte", "[snapshot]") {
  const std::pair<std::string, std::string> cases[] = {
      {"\x80", "byte 1: the pickle ends too early"},
      {"\x80\x01N.", "protocol 1"},
      {"\x80\x04.", "too few values"},
      {"\x80\x04N0.", "too few values"},
      {"\x80\x04Na.", "nothing to add to"},
      {"\x80\x04NNa.", "does not hold any"},
      {"\x80\x04}NNNa.", "does not hold any"},
      {"\x80\x04}(Nu.", "without a value"},
      {"\x80\x04N(e.", "does not hold any"},
      {"\x80\x04(e.", "nothing to add to"},
      {"\x80\x04Ne.", "no mark"},
      {"\x80\x04h\x07.", "never stored"},
      {"\x80\x04\x8c\xffxyz.", "too early"},
      {"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "too early"},
      {"\x80\x04\x8a\x09"s + std::string(8, '\0') + "\x01.", "64 bits"},
      {"\x80\x04\xfe.", "not known"},
      {"\x80\x04N.", "no device_traces"},
      {"\x80\x04].", "no device_traces"},
      {snapshot(""), "no device_traces"},
  };
  for (const auto& [bytes, why] : cases) {
    INFO(why);
    CHECK(complaint(bytes).find(why) != std::string::npos);
  }
}

TEST_CASE("a value may hold itself", "[snapshot]") {
  const Pickle pickle("p",
                      "\x80\x04]\x94h\x00"
                      "a."s);
  REQUIRE(pickle.items(pickle.root()).size() == 1);
  CHECK(pickle.items(pickle.root()).front() == pickle.root());
}

TEST_CASE("no bytes make the reader do worse than refuse them", "[snapshot]") {
  const char* const given = std::getenv("CUSTASH_SEED");
  const auto seed = given == nullptr ? std::random_device{}() : std::strtoul(given, nullptr, 0);
  INFO("CUSTASH_SEED=" << seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  std::size_t refused = 0;
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = kGood;
    for (unsigned n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = 2 + random() % (bytes.size() - 2);
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 9);
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          bytes.insert(at, bytes.substr(2 + random() % (bytes.size() - 2), random() % 60));
      }
    }
    const std::string told = complaint(bytes);
    refused += told.empty() ? 0 : 1;
    REQUIRE((told.empty() || told.rfind("p: ", 0) == 0));
  }
  CHECK(refused > kRounds / 10);
  CHECK(refused < kRounds);
}

}  // namespace custash::replay
