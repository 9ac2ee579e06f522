// SPDX-License-Identifier: MIT
// The race detector on the simulator: which calls of CUDA make an edge and which do not.
#include "tests/unit/sim/judged.hpp"

namespace custash::sim {
namespace {

struct Rig : Judged {
  template <class Member, class... Arguments>
  CUresult call(Member member, Arguments... arguments) {
    return (sim.driver().*member)(arguments...);
  }

  static void record(CUevent event, CUstream stream) {
    REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  }

  static void wait(CUstream stream, CUevent event) {
    REQUIRE(cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS);
  }
};

}  // namespace

TEST_CASE("an event between two streams is an edge, if it was recorded") {
  Rig rig;
  const CUevent event = make_event();
  SECTION("recorded and waited for") {
    rig.write(rig.a);
    Rig::record(event, rig.a);
    Rig::wait(rig.b, event);
    rig.write(rig.b);
    CHECK(rig.clean());
  }
  SECTION("never recorded") {
    rig.write(rig.a);
    Rig::wait(rig.b, event);
    rig.write(rig.b);
    CHECK(rig.only(Report::Conflict));
  }
  SECTION("recorded too early") {
    Rig::record(event, rig.a);
    rig.write(rig.a);
    Rig::wait(rig.b, event);
    rig.write(rig.b);
    CHECK(rig.only(Report::Conflict));
  }
  SECTION("waited for before it was recorded again") {
    Rig::record(event, rig.a);
    Rig::wait(rig.b, event);
    rig.write(rig.a);
    Rig::record(event, rig.a);
    rig.write(rig.b);
    CHECK(rig.only(Report::Conflict));
  }
}

TEST_CASE("context events order a whole context") {
  Rig rig;
  const CUevent event = make_event();
  rig.write(rig.a);
  REQUIRE(rig.call(&Driver::ctx_record_event, rig.sim.context(), event) == CUDA_SUCCESS);
  SECTION("a context wait") {
    REQUIRE(rig.call(&Driver::ctx_wait_event, rig.sim.context(), event) == CUDA_SUCCESS);
    rig.write(rig.b);
    rig.detector.on_free(rig.p, this_thread());
    CHECK(rig.clean());
  }
  SECTION("a context wait, and a stream made afterwards") {
    REQUIRE(rig.call(&Driver::ctx_wait_event, rig.sim.context(), event) == CUDA_SUCCESS);
    rig.write(make_stream());
    CHECK(rig.clean());
  }
  SECTION("no wait") {
    rig.write(rig.b);
    CHECK(rig.only(Report::Conflict));
  }
  SECTION("a query that fails is no edge, one that succeeds is") {
    REQUIRE(rig.call(&Driver::event_query, event) == CUDA_ERROR_NOT_READY);
    run_all();
    SECTION("not asked again") {
      rig.write(rig.b);
      CHECK(rig.only(Report::Conflict));
    }
    SECTION("asked again") {
      REQUIRE(rig.call(&Driver::event_query, event) == CUDA_SUCCESS);
      rig.write(rig.b);
      CHECK(rig.clean());
    }
  }
}

TEST_CASE("the legacy stream is in order with blocking streams only") {
  Rig rig;
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  REQUIRE(blocking != nullptr);
  SECTION("blocking") {
    rig.write(blocking);
    rig.write(nullptr);
    rig.write(blocking);
    CHECK(rig.clean());
  }
  SECTION("non-blocking") {
    rig.write(rig.a);
    rig.write(nullptr);
    CHECK(rig.only(Report::Conflict));
  }
}

TEST_CASE("work of a destroyed stream is in front of legacy work and context records") {
  Rig rig;
  const CUevent event = make_event();
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  rig.write(blocking);
  REQUIRE(cuStreamDestroy(blocking) == CUDA_SUCCESS);
  run_all();
  SECTION("legacy work") {
    rig.write(nullptr);
  }
  SECTION("a context record, and the next one") {
    for (int i = 0; i < GENERATE(1, 2); ++i)
      REQUIRE(rig.call(&Driver::ctx_record_event, rig.sim.context(), event) == CUDA_SUCCESS);
    Rig::wait(rig.b, event);
    rig.write(rig.b);
  }
  CHECK(rig.clean());
}

TEST_CASE("the query of a stream tells of that stream's work alone") {
  Rig rig;
  const bool own = GENERATE(true, false);
  rig.write(rig.a);
  run_all();
  REQUIRE(cuStreamQuery(own ? rig.a : rig.b) == CUDA_SUCCESS);
  rig.detector.on_host_access(this_thread(), rig.p, Rig::kBytes, false);
  CHECK(rig.detector.count(Report::Conflict) == (own ? 0 : 1));
}

TEST_CASE("a page at two addresses is the same bytes, and an access may lie in both") {
  Rig rig;
  const CUdeviceptr range = reserve(4_MiB);
  CUmemGenericAllocationHandle page = 0;
  REQUIRE(make_page(&page, 2_MiB) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(range, 2_MiB, 0, page, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(range + 2_MiB, 2_MiB, 0, page, 0) == CUDA_SUCCESS);
  REQUIRE(allow(range, 4_MiB) == CUDA_SUCCESS);
  rig.detector.on_alloc(range, 4_MiB, this_thread());
  REQUIRE(launch(rig.a, {.accesses = {{range, 16, true}}}) == CUDA_SUCCESS);
  REQUIRE(launch(rig.b, {.accesses = {{range + 2_MiB - 8, 16, true}}}) == CUDA_SUCCESS);
  CHECK(rig.only(Report::Conflict));
}

TEST_CASE("a free on a stream comes after what other streams do") {
  Rig rig;
  rig.write(rig.a);
  SECTION("freed on the stream that worked") {
    CHECK(rig.detector.on_free(rig.p, this_thread(), rig.a));
    CHECK(rig.clean());
  }
  SECTION("freed on another") {
    CHECK(rig.detector.on_free(rig.p, this_thread(), rig.b));
    CHECK(rig.only(Report::FreeUnordered));
  }
  SECTION("freed on another that waited") {
    const CUevent event = make_event();
    Rig::record(event, rig.a);
    Rig::wait(rig.b, event);
    CHECK(rig.detector.on_free(rig.p, this_thread(), rig.b));
    CHECK(rig.clean());
  }
  SECTION("freed on another, with the first recorded") {
    rig.detector.on_record_stream(rig.p, rig.a);
    CHECK(rig.detector.on_free(rig.p, this_thread(), rig.b));
    CHECK(rig.clean());
  }
  SECTION("used after the free on its own stream") {
    CHECK(rig.detector.on_free(rig.p, this_thread(), rig.a));
    rig.read(rig.a);
    CHECK(rig.only(Report::AfterFree));
  }
}

TEST_CASE("a free on the legacy stream comes after blocking streams") {
  Rig rig;
  SECTION("a blocking one worked") {
    const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
    REQUIRE(blocking != nullptr);
    rig.write(blocking);
    CHECK(rig.detector.on_free(rig.p, this_thread(), nullptr));
    CHECK(rig.clean());
  }
  SECTION("a non-blocking one worked") {
    rig.write(rig.a);
    CHECK(rig.detector.on_free(rig.p, this_thread(), nullptr));
    CHECK(rig.only(Report::FreeUnordered));
  }
}

TEST_CASE("the host reads what a copy wrote only after it waited") {
  Rig rig;
  void* host = nullptr;
  REQUIRE(cuMemHostAlloc(&host, 4096, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoHAsync(host, rig.p, 4096, rig.a) == CUDA_SUCCESS);
  const auto address = reinterpret_cast<Address>(host);
  SECTION("at once") {
    rig.detector.on_host_access(this_thread(), address, 4096, false);
    CHECK(rig.only(Report::Conflict));
  }
  SECTION("after a free of the source, which waits on bare") {
    rig.detector.on_free(rig.p, this_thread());
    REQUIRE(rig.call(&Driver::mem_free, rig.p) == CUDA_SUCCESS);
    rig.detector.on_host_access(this_thread(), address, 4096, false);
    CHECK(rig.clean());
  }
}

TEST_CASE("an allocation on a stream is for what comes after it there") {
  Rig rig;
  rig.write(rig.a);
  rig.detector.on_free(rig.p, this_thread(), rig.a);
  rig.detector.on_alloc(rig.p, 4096, this_thread(), rig.a);
  SECTION("the same stream") {
    rig.write(rig.a);
    CHECK(rig.clean());
  }
  SECTION("another, at once") {
    rig.write(rig.b);
    CHECK(rig.detector.count(Report::BeforeAllocation) == 1);
    CHECK(rig.detector.count(Report::AllocatorFault) == 1);
  }
}

TEST_CASE("bare programs that reuse freed memory are clean") {
  Rig rig;
  for (int round = 0; round < 20; ++round) {
    const CUstream stream = round % 2 == 0 ? rig.a : rig.b;
    CUdeviceptr block = 0;
    REQUIRE(rig.call(&Driver::mem_alloc, &block, std::size_t{1} << 20) == CUDA_SUCCESS);
    rig.detector.on_alloc(block, 1 << 20, this_thread());
    Kernel kernel;
    kernel.accesses = {Access{block, 1 << 20, true}};
    REQUIRE(launch(stream, kernel) == CUDA_SUCCESS);
    rig.detector.on_free(block, this_thread());
    REQUIRE(rig.call(&Driver::mem_free, block) == CUDA_SUCCESS);
  }
  CHECK(rig.clean());
}

TEST_CASE("an allocator that hands out freed memory at once is found out") {
  Rig rig;
  rig.write(rig.a);
  rig.freed_and_had_again();
  rig.write(rig.b);
  CHECK(rig.only(Report::AllocatorFault));
}

}  // namespace custash::sim
