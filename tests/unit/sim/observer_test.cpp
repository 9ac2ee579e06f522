// SPDX-License-Identifier: MIT
// What an observer is told: enough to know what happens before what.
#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <algorithm>
#include <map>
#include <set>

using namespace custash;
using namespace custash::sim;

namespace {

class Recorder : public Observer {
 public:
  Recorder() { set_observer(this); }

  ~Recorder() override { set_observer(nullptr); }

  void on_submit(OpId op,
                 ThreadId thread,
                 std::span<const OpId> predecessors,
                 std::span<const Touch> touches,
                 const char* name) override {
    after[op] = {predecessors.begin(), predecessors.end()};
    last = op;
    last_touches = {touches.begin(), touches.end()};
  }

  void on_execute(OpId op, std::span<const Touch> touches) override { executed.insert(op); }

  void on_host_join(ThreadId thread, std::span<const OpId> completed) override {
    for (const OpId op : completed)
      join(op);
  }

  void on_alloc(
      ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) override {
    live.insert(address);
  }

  void on_free(ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) override {
    live.erase(address);
  }

  // Whether b comes after a.
  bool ordered(OpId a, OpId b) const {
    if (a == b) return true;
    const auto& before = after.at(b);
    return std::any_of(before.begin(), before.end(), [&](OpId p) { return ordered(a, p); });
  }

  std::map<OpId, std::set<OpId>> after;
  std::set<OpId> executed;
  std::set<OpId> known;  // to the host
  std::set<Address> live;
  std::vector<Touch> last_touches;
  OpId last = 0;

 private:
  void join(OpId op) {
    if (!known.insert(op).second) return;
    for (const OpId p : after.at(op))
      join(p);
  }
};

OpId work(Recorder& r, CUstream s) {
  CHECK(launch(s, {}) == CUDA_SUCCESS);
  return r.last;
}

}  // namespace

TEST_CASE("edges of streams, events, the legacy stream and contexts are told",
          "[sim-observer]") {
  Recorder r;
  const Sim sim;
  const CUstream a = make_stream();
  const CUstream b = make_stream();
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUevent e = make_event();
  const OpId a1 = work(r, a);
  const OpId b1 = work(r, b);
  CHECK_FALSE(r.ordered(a1, b1));
  CHECK(cuEventRecord(e, a) == CUDA_SUCCESS);
  const OpId a2 = work(r, a);
  CHECK(cuStreamWaitEvent(b, e, 0) == CUDA_SUCCESS);
  const OpId b2 = work(r, b);
  CHECK(r.ordered(a1, b2));
  CHECK_FALSE(r.ordered(a2, b2));

  const OpId k1 = work(r, blocking);
  const OpId l1 = work(r, nullptr);
  const OpId k2 = work(r, blocking);
  CHECK(r.ordered(k1, l1));
  CHECK(r.ordered(l1, k2));
  CHECK_FALSE(r.ordered(a2, l1));

  CHECK(sim_test_record(sim.context(), e) == CUDA_SUCCESS);
  for (const OpId op : {a2, b2, k2})
    CHECK(r.ordered(op, r.last));
  const OpId a3 = work(r, a);
  CHECK_FALSE(r.ordered(b2, a3));
  CHECK(sim_test_wait(sim.context(), e) == CUDA_SUCCESS);
  const OpId later = work(r, make_stream());
  for (const OpId op : {a2, b2, k2})
    CHECK(r.ordered(op, later));
  CHECK_FALSE(r.ordered(a3, later));
}

TEST_CASE("work of destroyed streams stays in front of context records and legacy work",
          "[sim-observer]") {
  Recorder r;
  const Sim sim;
  const CUevent e = make_event();
  const CUstream s = make_stream(CU_STREAM_DEFAULT);
  const OpId op = work(r, s);
  CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
  run_all();
  CHECK(r.ordered(op, work(r, nullptr)));
  for (int i = 0; i < 2; ++i) {
    CHECK(sim_test_record(sim.context(), e) == CUDA_SUCCESS);
    CHECK(r.ordered(op, r.last));
  }
}

TEST_CASE("the host's knowledge is told: queries, waits and the wait of a free",
          "[sim-observer]") {
  Recorder r;
  const Sim sim;
  const CUdeviceptr p = make_block(100);
  CHECK(r.live.count(p) == 1);
  const auto [a, b] = make_streams<2>();
  const OpId a1 = work(r, a);
  const OpId b1 = work(r, b);
  run_all();
  CHECK(r.executed.count(a1) == 1);
  CHECK(r.known.empty());  // complete, but nobody asked
  CHECK(cuStreamQuery(a) == CUDA_SUCCESS);
  CHECK(r.known.count(a1) == 1);
  CHECK(r.known.count(b1) == 0);
  CHECK(cuMemFree(p) == CUDA_SUCCESS);
  CHECK(r.known.count(b1) == 1);
  CHECK(r.live.count(p) == 0);
}

TEST_CASE("accesses are told piece by piece, with the physical bytes", "[sim-observer]") {
  Recorder r;
  const Sim sim;
  const CUdeviceptr range = reserve(4_MiB);
  CUmemGenericAllocationHandle page = 0;
  CHECK(make_page(&page, 2_MiB) == CUDA_SUCCESS);
  CHECK(cuMemMap(range, 2_MiB, 0, page, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap(range + 2_MiB, 2_MiB, 0, page, 0) == CUDA_SUCCESS);
  CHECK(allow(range, 4_MiB) == CUDA_SUCCESS);
  CHECK(launch(nullptr, {.accesses = {{range + 2_MiB - 8, 16, true}}}) == CUDA_SUCCESS);
  REQUIRE(r.last_touches.size() == 2);
  CHECK(r.last_touches[0].bytes == 8);
  CHECK(r.last_touches[1].physical == translate(range, 1)[0].physical);
  CHECK(r.last_touches[0].physical == r.last_touches[1].physical + 2_MiB - 8);
}
