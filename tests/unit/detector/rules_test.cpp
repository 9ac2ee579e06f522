// SPDX-License-Identifier: MIT
// The race detector's rules, one planted bug and its repair each, told by hand: operations,
// predecessors and bytes as the simulator would tell them.
#include "tests/catch.hpp"
#include "tests/sim/race_detector.hpp"

namespace custash::sim {
namespace {

constexpr Address kBase = 0x7f0000000000;
constexpr std::uint64_t kPhysical = 1ULL << 32;
constexpr ThreadId kFirst = 0;
constexpr ThreadId kSecond = 1;

// A program on a few streams, as the detector hears of it.
class Script {
 public:
  RaceDetector detector;

  // An access of 512 bytes at kBase, in the order of `stream` and of `extra`.
  OpId write(int stream, std::vector<OpId> extra = {}, ThreadId thread = kFirst) {
    return submit(stream, kBase, kPhysical, true, std::move(extra), thread);
  }

  OpId read(int stream, std::vector<OpId> extra = {}, ThreadId thread = kFirst) {
    return submit(stream, kBase, kPhysical, false, std::move(extra), thread);
  }

  OpId marker(int stream, std::vector<OpId> extra = {}) {
    return tell(stream, {}, std::move(extra), kFirst);
  }

  OpId submit(int stream,
              Address address,
              std::uint64_t physical,
              bool write,
              std::vector<OpId> extra = {},
              ThreadId thread = kFirst) {
    const Touch touch{address, 512, write, Memory::Device, physical};
    return tell(stream, {touch}, std::move(extra), thread);
  }

  void join(OpId op, ThreadId thread = kFirst) {
    const OpId ops[] = {op};
    detector.on_host_join(thread, ops);
  }

  void alloc(ThreadId thread = kFirst) { detector.on_alloc(kBase, 512, thread); }

  void free(ThreadId thread = kFirst) { detector.on_free(kBase, thread); }

  bool only(Report::Kind kind) {
    UNSCOPED_INFO(detector.text());
    return detector.count(kind) == 1 && detector.reports().size() == 1;
  }

  bool clean() {
    UNSCOPED_INFO(detector.text());
    return detector.clean();
  }

 private:
  OpId tell(int stream, std::vector<Touch> touches, std::vector<OpId> extra, ThreadId thread) {
    const OpId op = next_++;
    detector.set_step(op);
    if (last_[stream] != 0) extra.push_back(last_[stream]);
    last_[stream] = op;
    detector.on_submit(op, thread, extra, touches, "kernel");
    return op;
  }

  OpId next_ = 1;
  std::map<int, OpId> last_;
};

}  // namespace

TEST_CASE("two writes on two streams conflict") {
  Script script;
  script.alloc();
  script.write(1);
  SECTION("unordered") {
    script.write(2);
    CHECK(script.only(Report::Conflict));
  }
  SECTION("ordered by an event") {
    const OpId record = script.marker(1);
    const OpId wait = script.marker(2, {record});
    CHECK(wait > record);
    script.write(2);
    CHECK(script.clean());
  }
  SECTION("ordered by the host") {
    script.join(script.marker(1));
    script.write(2);
    CHECK(script.clean());
  }
}

TEST_CASE("a read conflicts with a write, not with a read") {
  Script script;
  script.alloc();
  script.join(script.write(1));
  script.read(1);
  script.read(2);
  REQUIRE(script.clean());
  SECTION("a write after one of two reads") {
    script.write(2);
    CHECK(script.only(Report::Conflict));
  }
  SECTION("a write after both") {
    script.write(2, {script.marker(1)});
    CHECK(script.clean());
  }
}

TEST_CASE("a wait for work that comes before an access is no edge from it") {
  Script script;
  script.alloc();
  const OpId early = script.marker(1);
  script.write(1);
  script.write(2, {early});
  CHECK(script.only(Report::Conflict));
}

TEST_CASE("bytes without an allocation may not be touched") {
  Script script;
  SECTION("never allocated") {
    script.write(1);
    CHECK(script.only(Report::NotAllocated));
  }
  SECTION("half outside") {
    script.detector.on_alloc(kBase, 256, kFirst);
    script.write(1);
    CHECK(script.only(Report::NotAllocated));
    CHECK(script.detector.reports()[0].address == kBase + 256);
  }
  SECTION("two neighbours, one access") {
    script.detector.on_alloc(kBase, 256, kFirst);
    script.detector.on_alloc(kBase + 256, 256, kFirst);
    script.write(1);
    CHECK(script.clean());
  }
}

TEST_CASE("an access comes after its allocation and before its free") {
  Script script;
  SECTION("another thread's allocation, not synchronised") {
    script.alloc(kFirst);
    script.write(1, {}, kSecond);
    CHECK(script.only(Report::BeforeAllocation));
  }
  SECTION("another thread's allocation, synchronised") {
    script.alloc(kFirst);
    script.detector.thread_sync(kFirst, kSecond);
    script.write(1, {}, kSecond);
    CHECK(script.clean());
  }
  SECTION("after a plain free") {
    script.alloc();
    script.write(1);
    script.free();
    script.write(1);
    CHECK(script.only(Report::AfterFree));
  }
  SECTION("a plain free while work is pending is right") {
    script.alloc();
    script.write(1);
    script.free();
    CHECK(script.clean());
  }
  SECTION("another thread, not synchronised with the free") {
    script.alloc(kFirst);
    script.detector.thread_sync(kFirst, kSecond);
    script.free(kFirst);
    script.write(1, {}, kSecond);
    CHECK(script.only(Report::FreeUnordered));
  }
}

TEST_CASE("the next owner of the same bytes comes after the last") {
  Script script;
  script.alloc();
  const OpId last = script.write(1);
  script.free();
  SECTION("handed out on another stream without an edge") {
    script.alloc();
    script.write(2);
    REQUIRE(script.only(Report::AllocatorFault));
    const std::string text = script.detector.text();
    CHECK(text.find("allocation 1") != std::string::npos);
    CHECK(text.find("allocation 2") != std::string::npos);
    CHECK(text.find("freed plainly") != std::string::npos);
  }
  SECTION("even to be read only") {
    script.alloc();
    script.read(2);
    CHECK(script.only(Report::AllocatorFault));
  }
  SECTION("the same stream is in order") {
    script.alloc();
    script.write(1);
    CHECK(script.clean());
  }
  SECTION("a wait on the device") {
    script.alloc();
    script.write(2, {last});
    CHECK(script.clean());
  }
  SECTION("a fence that the allocator saw pass, on another thread") {
    script.join(last, kSecond);
    script.alloc();
    script.write(2);
    CHECK(script.clean());
  }
  SECTION("memory that went through the driver has no past") {
    script.alloc();
    script.submit(2, kBase, kPhysical + 4096, true);
    CHECK(script.clean());
  }
}

TEST_CASE("a read of the last owner counts, whatever the next one's first access") {
  Script script;
  script.alloc();
  const OpId written = script.write(1);
  script.read(3, {written});
  script.free();
  script.alloc();
  SECTION("ordered after the write only") {
    script.write(2, {written});
    CHECK(script.only(Report::AllocatorFault));
  }
  SECTION("two readers of the next owner, the second in no order") {
    script.read(3);
    script.read(4);
    CHECK(script.detector.count(Report::AllocatorFault) >= 1);
  }
}

TEST_CASE("one page at two addresses is the same bytes") {
  Script script;
  constexpr Address kMoved = kBase + 0x10000000;
  script.alloc();
  const OpId last = script.write(1);
  script.free();
  script.detector.on_alloc(kMoved, 512, kFirst);
  SECTION("moved without an order") {
    script.submit(2, kMoved, kPhysical, true);
    CHECK(script.only(Report::AllocatorFault));
  }
  SECTION("moved in order") {
    script.submit(2, kMoved, kPhysical, true, {last});
    CHECK(script.clean());
  }
}

TEST_CASE("live allocations do not overlap") {
  Script script;
  script.alloc();
  script.detector.on_alloc(kBase + 256, 512, kFirst);
  CHECK(script.only(Report::AllocatorFault));
}

TEST_CASE("overlapping ranges are compared byte by byte") {
  Script script;
  script.detector.on_alloc(kBase, 4096, kFirst);
  script.submit(1, kBase, kPhysical, true);
  script.submit(1, kBase + 1024, kPhysical + 1024, true);
  SECTION("between them") {
    script.submit(2, kBase + 512, kPhysical + 512, true);
    CHECK(script.clean());
  }
  SECTION("across a border") {
    script.submit(2, kBase + 768, kPhysical + 768, true);
    REQUIRE(script.only(Report::Conflict));
  }
}

TEST_CASE("a wait that a free makes may be told not to order the program") {
  Script script;
  script.alloc();
  const OpId op = script.write(1);
  script.detector.ignore_joins(kFirst, true);
  script.join(op);
  script.detector.ignore_joins(kFirst, false);
  script.write(2);
  CHECK(script.only(Report::Conflict));
}

TEST_CASE("long programs use few chains and little time") {
  Script script;
  for (int round = 0; round < 2000; ++round) {
    script.alloc();
    const OpId op = script.write(round % 4);
    script.join(op);
    script.free();
  }
  CHECK(script.clean());
}

}  // namespace custash::sim
