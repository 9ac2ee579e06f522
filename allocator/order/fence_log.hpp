// SPDX-License-Identifier: MIT
// FenceLog: the fences of one context. It records them, knows which have passed, and waits for
// them on the host.
//
// A fence `covers` the count of submissions read before it was recorded: when it has passed,
// every submission up to there is over. Once a fence has passed it leaves the log.
//
// The fences are guarded by the timeline's lock; the positions are atomic.
// Proved: tests/models/capture.pml, tests/models/ends.pml and tests/models/reuse.pml.
#pragma once

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/config.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/order/context_events.hpp"
#include "allocator/order/fence.hpp"
#include "allocator/order/patience.hpp"
#include "allocator/order/submissions.hpp"

#include <atomic>
#include <vector>

namespace custash {

class FenceLog {
 public:
  FenceLog(const Driver& driver,
           const Config& config,
           ContextEvents& events,
           Submissions& submissions,
           Mutex& mutex)
      : config_(config),
        events_(events),
        submissions_(submissions),
        patience_(driver, config),
        mutex_(mutex) {}

  // ---- Positions.
  // Everything up to here is over.
  [[nodiscard, gnu::always_inline]] Position passed() const { return passed_.load(); }

  // The position that the newest fence covers.
  [[nodiscard]] Position newest() const { return newest_.load(); }

  // The position that the newest fence covers which streams may wait for: not a late one.
  [[nodiscard, gnu::always_inline]] Position coverable() const { return coverable_.load(); }

  [[nodiscard]] bool unfinished() const { return submissions_.submitted() > passed(); }

  // As far as the host knows, without a driver call.
  [[nodiscard]] bool over(Position position) const {
    return passed() >= position || events_.ended();
  }

  // ---- Recording.
  // A position for a block freed now, and a fence that covers it: one for all frees between two
  // submissions. Fails only when the context itself is broken. `Late` where the program would
  // not have waited for this context without custash: then no stream waits for that fence.
  Status record_free(Position* position, FenceKind kind = FenceKind::AtFree);
  // Records a fence unless one covers `need`.
  Status ensure(Position need, FenceKind kind);

  // The host waits for this position (a pinned buffer): fences before it are kept apart.
  void host_waits_for(Position position) { atomic_max(host_until_, position); }

  // ---- Querying and waiting. None of the waits is for more than its line says.
  // Asks the driver which fences have passed. `need` is the highest position that somebody
  // waits for. If nothing covers it, a late fence is recorded.
  void poll(Position need);
  // For everything submitted so far.
  Status wait_all();
  // For the newest fence recorded at a free, or for the oldest one (false: there is none).
  Status wait_frees();
  bool wait_oldest_free();
  // For the newest free that has no fence; patiently, as that may be for what came later.
  void wait_unfenced_free();
  // For the first fence that covers this position of a free.
  Status wait_for(Position position);
  // For this fence; for this event on a stream.
  Status wait_host(const Fence& fence);
  Status wait_use(const EventRef& use);
  // For work that the program would not wait for without custash. False: patience has run out.
  bool wait_patiently(Position position);

  Patience& patience() { return patience_; }

  // ---- With the timeline's lock.
  // The oldest fence that covers `need` and that a stream may wait for.
  bool find(const Lock& lock, Position need, Fence* out) const;
  void abandon(const Lock& lock);
  [[nodiscard]] bool validate(const Lock& lock) const;

  [[nodiscard]] std::uint64_t recorded() const { return recorded_.load(); }

 private:
  [[nodiscard]] bool covered(Position need, FenceKind kind) const;
  Status record(Fence& fence);
  Status record_streams(Fence& fence);
  void commit(Fence fence);
  void retire(const Lock& lock, Position covers);
  // Late: one that no stream may wait for is enough, too.
  bool find_any(const Lock& lock, Position need, FenceKind kind, Fence* out) const;
  bool poll_recorded();
  Status wait_returned();

  const Config& config_;
  ContextEvents& events_;
  Submissions& submissions_;
  Patience patience_;
  std::atomic<Position> newest_{};
  std::atomic<Position> coverable_{};
  std::atomic<Position> passed_{};
  std::atomic<Position> host_until_{};
  std::atomic<Position> unfenced_{};  // of the newest free for which no fence could be recorded
  std::atomic<std::uint64_t> recorded_{0};
  std::atomic<bool> recording_{false};            // some thread records a fence
  Mutex& mutex_;                                  // the timeline's
  std::vector<Fence> fences_ GUARDED_BY(mutex_);  // by rising `covers`, none passed
};

}  // namespace custash
