// SPDX-License-Identifier: MIT
// Graphs with nodes of several contexts. Bare, a plain free waits for all that runs on the
// block's device, whichever stream launched it. A launch counts on the timeline of its stream
// alone; the other contexts of such graphs wait for it at their frees.
// Proved: tests/models/peers.pml.
#include "allocator/registry.hpp"
#include "allocator/rule.hpp"

#include <algorithm>

namespace custash {

void Allocator::State::share_graphs(DeviceCache& one, DeviceCache& other) {
  graph_sharers.insert({&one, &other});
  graphs_shared.store(true);
}

bool Allocator::State::foreign_graphs_run(DeviceCache& cache) {
  Lock lock(mutex);
  return graph_sharers.count(&cache) != 0 &&
         std::any_of(graph_launches.begin(),
                     graph_launches.end(),
                     [&](const GraphLaunch& launch) { return launch.by != &cache.timeline(); });
}

// Work of `place` goes into a capture. 0: the driver does not tell which.
void Allocator::State::note_captured(const StreamPlace& place) {
  const std::uint64_t id = capture_id(place.lane->stream);
  Lock lock(mutex);
  for (const OpenCapture& open : open_captures) {
    if (open.cache != place.cache && (open.id == 0 || id == 0 || open.id == id))
      share_graphs(*open.cache, *place.cache);
  }
}

std::uint64_t Allocator::State::capture_id(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  return driver.stream_get_capture_info != nullptr &&
                 driver.stream_get_capture_info(
                     stream, &status, &id, nullptr, nullptr, nullptr) == CUDA_SUCCESS
             ? id
             : 0;
}

void Allocator::State::graph_launched(DeviceCache& cache, Lane& lane) {
  GraphLaunch launch{.by = &cache.timeline(), .lane = &lane};
  // Where no event can be had, all that its context does now stands for it.
  if (!launch.by->record_use(lane, &launch.end))
    launch.by->stamp_free(&launch.position, FenceKind::Late).ignore();
  Lock lock(mutex);
  const auto same = [&](const GraphLaunch& old) { return old.lane == &lane; };
  const auto at = std::find_if(graph_launches.begin(), graph_launches.end(), same);
  launch.number = ++graph_launch_number;
  if (at == graph_launches.end()) {
    graph_launches.push_back(std::move(launch));
  } else {
    std::swap(*at, launch);  // it comes after the stream's last
  }
  graphs_running.store(true);
}

Status Allocator::State::wait_for_graphs(DeviceCache& cache) {
  if (!graphs_at_work(cache)) return {};
  std::vector<GraphLaunch> open;
  {
    Lock lock(mutex);
    open = graph_launches;
  }
  Status result;
  for (GraphLaunch& launch : open) {
    if (launch.by == &cache.timeline()) continue;
    const ContextUse use(launch.by->users());
    // Who destroys a context waits for its work.
    const Status waited = !use         ? Status()
                          : launch.end ? launch.by->wait_use(launch.end)
                                       : launch.by->wait_for(launch.position);
    const bool over = launch.by->over(~std::uint64_t{0});  // with its context
    if (!waited.ok() && !over) result = waited;
    if (over || (use && waited.ok())) drop_launch(launch.number);
  }
  return result;
}

void Allocator::State::drop_launch(std::uint64_t number) {
  GraphLaunch dropped;  // let go outside the lock
  Lock lock(mutex);
  const auto at = std::find_if(
      graph_launches.begin(), graph_launches.end(), [&](const GraphLaunch& launch) {
        return launch.number == number;
      });
  if (at == graph_launches.end()) return;
  dropped = std::move(*at);
  graph_launches.erase(at);
  graphs_running.store(!graph_launches.empty());
}

void Allocator::graph_has_nodes_of(CUcontext one, CUcontext other) {
  DeviceCache* first = state_->cache(one);
  DeviceCache* second = state_->cache(other);
  if (first == nullptr || second == nullptr || first == second) return;
  Lock lock(state_->mutex);
  state_->share_graphs(*first, *second);
}

}  // namespace custash
