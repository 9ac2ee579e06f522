// SPDX-License-Identifier: MIT
// The end of a context, put between any two instructions of a thread that asks whether a
// buffer's use is over: by a signal. Its own copy of the timeline, not optimised, so that there
// are many of them.
#include "allocator/order/timeline.hpp"
#include "tests/catch.hpp"

#include <csignal>
#include <thread>

#include <pthread.h>

using namespace custash;

namespace {

Timeline* ending = nullptr;
volatile std::sig_atomic_t begun = 0;

void end_it(int) {
  ending->abandon();
  begun = 1;
}

}  // namespace

TEST_CASE("a buffer's use is not over while its context is ending") {
  const Driver driver{};
  const Config config{};
  CaptureGate gate;
  SleepGate sleep_gate;

  struct sigaction action {};

  action.sa_handler = end_it;
  REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
  const pthread_t asking = pthread_self();
  const EventRef use;
  int wrong = 0;
  for (int round = 0; round < 1000; ++round) {
    Timeline timeline(driver, config, nullptr, gate, sleep_gate);
    timeline.events().users().close();  // as its end begins
    ending = &timeline;
    begun = 0;
    std::atomic<bool> go{false};
    std::thread other([&] {
      while (!go.load())
        std::this_thread::yield();
      for (int i = 0; i < round % 97; ++i)
        asm volatile("");
      pthread_kill(asking, SIGUSR1);
    });
    go.store(true);
    bool over = false;
    while (begun == 0)
      over = timeline.events().use_over(use) || over;
    over = timeline.events().use_over(use) || over;
    if (over) ++wrong;
    other.join();
    timeline.events().end();
    REQUIRE(timeline.events().use_over(use));
  }
  CHECK(wrong == 0);
}
