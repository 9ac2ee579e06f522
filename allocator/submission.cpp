// SPDX-License-Identifier: MIT
// Submissions, captures, and the ends of streams, contexts and graphs.
// Proved: tests/models/capture.pml, tests/models/ends.pml and tests/models/peers.pml.
#include "allocator/submission.hpp"

#include "allocator/allocator.hpp"
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/registry.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace custash {
namespace {

bool is_capturing(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream answers 906 beside a capture: it is not capturing itself.
  return driver.stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool captures(const Driver& driver, const StreamPlace& place) {
  return place.cache->timeline().events().capturing() &&
         is_capturing(driver, place.stream_state->stream);
}

bool is_graph(SubmissionKind view) {
  return view == SubmissionKind::Graph || view == SubmissionKind::VisibleGraph ||
         view == SubmissionKind::ReachesHostGraph;
}

template <typename Owners>
void reach(CUdevice device, const Owners& owners) {
  for (ContextCache* owner : owners) {
    if (owner != nullptr && holds(Rule::copies_reach_other_devices))
      owner->peer_grants().let_copies_reach(device);
  }
}

template <typename Owners>
void pay_for(const Owners& owners, CUstream stream, const ContextCache* but = nullptr) {
  for (ContextCache* owner : owners) {
    if (owner != nullptr && owner != but) owner->timeline().debt().pay_on(stream);
  }
}

// What a submission with this view may do to the host, as things stand.
struct Effect {
  bool visible = false;
  bool reaches = false;
};

Effect effect_of(SubmissionKind view, const Allocator::State& state) {
  const bool named =
      view == SubmissionKind::ReachesHost || view == SubmissionKind::ReachesHostGraph;
  const bool apart = view == SubmissionKind::Apart &&
                     state.config.free_mode == FreeMode::Parameters &&
                     !state.any_kernel_visible.load();
  const bool any = view != SubmissionKind::Wait && !apart && state.kernels_visible.load() &&
                   holds(Rule::kernels_that_reach_the_host_are_waited_for);
  Effect effect;
  effect.reaches = named || (is_graph(view) && state.graphs_reach_host.load()) ||
                   (any && view != SubmissionKind::Visible);
  effect.visible = any || effect.reaches || view == SubmissionKind::Visible ||
                   view == SubmissionKind::VisibleGraph ||
                   (view == SubmissionKind::Graph && state.graphs_visible.load() &&
                    holds(Rule::graphs_that_reach_the_host_are_waited_for));
  return effect;
}

// Before the driver's call, so that no free comes in between.
void note_captured(Allocator& core,
                   Captures& captures,
                   CUstream stream,
                   SubmissionKind view,
                   const CallNames& names) {
  std::vector<Address> addresses;
  std::vector<std::uint64_t> ids;
  Captures::Call call{.driver_id = 0, .thread = thread_number()};
  if (view == SubmissionKind::Wait)
    call.reading = Captures::Reading::Whole;
  else if (names.read != nullptr)
    call.reading = names.read(names.call, &addresses);
  for (const Address each : addresses) {
    BlockInfo info;
    if (core.find(each, &info) == Ownership::Live) ids.push_back(info.buffer_id & ~kOrderedId);
  }
  call.named = ids;
  if (captures.several_go_on()) call.driver_id = capture_of(core.driver(), stream);
  captures.takes_in(call);
}

}  // namespace

Submission::Submission(Allocator& allocator,
                       CUstream stream,
                       NullStream null,
                       SubmissionKind view,
                       Address first_touched,
                       Address second_touched,
                       const CallNames& names) {
  Allocator::State& state = allocator.state();
  const StreamPlace place = state.place(stream, null);
  if (!place) return;
  auto& others = others_;
  touched_ = {first_touched, second_touched};
  const bool several = state.contexts.load() > 1;
  if (several) {
    others = state.others(*place.cache, first_touched, second_touched);
    reach(place.cache->device(), others);
  }
  if (captures(state.driver, place)) {
    if (view == SubmissionKind::Visible || view == SubmissionKind::VisibleGraph)
      state.graphs_visible.store(true);
    if (view == SubmissionKind::ReachesHost || view == SubmissionKind::ReachesHostGraph)
      state.graphs_reach_host.store(true);
    note_captured(allocator, state.captures, place.stream_state->stream, view, names);
    return;  // nothing runs now
  }
  if (view == SubmissionKind::Wait && !holds(Rule::waits_of_streams_count) &&
      !place.cache->timeline().events().capturing())
    return;
  cache_ = place.cache;
  stream_state_ = place.stream_state;
  const Effect effect = effect_of(view, state);
  host_visible_ = effect.visible;
  reaches_host_ = effect.reaches;
  Timeline& timeline = cache_->timeline();
  if (reaches_host_) timeline.host_work().reaching_begins(reaching_);
  if (holds(Rule::copies_pay_the_other_context)) pay_for(others, stream_state_->stream);
  if (several && holds(Rule::graphs_pay_every_context) && is_graph(view))
    pay_for(state.all(), stream_state_->stream, cache_);  // its nodes may be of any device
  else if (several)
    cache_->owners().pay(*stream_state_);
  timeline.enter(*stream_state_);
  step_ = view == SubmissionKind::Wait && timeline.events().capturing();
  if (step_) timeline.wait_begins(*stream_state_);
}

void Submission::done(CUresult result) {
  if (stream_state_ == nullptr) return;
  (void)result;  // a call that failed may have submitted a part
  Timeline& timeline = cache_->timeline();
  step_ ? timeline.wait_done(*stream_state_)
        : timeline.leave(*stream_state_,
                         host_visible_ ? Results::HostVisible : Results::OnDevice);
  if (reaches_host_) timeline.host_work().reaching_done(reaching_);
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (others_[i] != nullptr)
      others_[i]->copies_abroad().note(touched_[i], timeline, *stream_state_);
  }
  stream_state_ = nullptr;
}

Submission::~Submission() {
  done(CUDA_SUCCESS);
}

bool Submission::kernels_host_visible(const Allocator& core) {
  return core.state().kernels_visible.load();
}

Position Submission::order_wanted(Allocator& core, CUstream stream, NullStream null) {
  const StreamPlace place = core.state().place(stream, null);
  if (!place || captures(core.driver(), place)) return {};  // a graph begins in full order
  Timeline& timeline = place.cache->timeline();
  const Position owed = timeline.debt().owed();
  return holds(Rule::early_launches_wait_while_memory_is_owed) &&
                 owed > timeline.fences().passed() &&
                 owed > place.stream_state->in_full_order.load()
             ? owed
             : Position{};
}

void Submission::order_given(Allocator& core, CUstream stream, NullStream null, Position owed) {
  if (const StreamPlace place = core.state().place(stream, null))
    atomic_max(place.stream_state->in_full_order, owed);
}

void Submission::kernels_become_host_visible(Allocator& core,
                                             std::string_view call,
                                             Reach reach) {
  Allocator::State& state = core.state();
  if (reach == Reach::Unnamed) state.any_kernel_visible.store(true);
  if (state.kernels_visible.exchange(true)) return;
  log(LogLevel::Info,
      "event=kernels_host_visible call=" + std::string(call) +
          " effect=\"frees wait for kernels from now on; free:parameters lets more of them go\"");
}

std::uint32_t Allocator::captures_open() const {
  return state_->captures_open.load();
}

void Allocator::stream_destroyed(CUstream stream) {
  if (is_default_stream(stream)) return;
  const StreamPlace place = state_->place(stream, NullStream::Legacy);
  if (place) place.cache->stream_ends().stream_destroyed(stream);
  // A capture dies with its stream.
  state_->close_capture(StreamName(stream, NullStream::Legacy), nullptr);
  if (holds(Rule::threads_forget_destroyed_streams)) state_->new_epoch();
}

ContextUsers* Allocator::users_of(CUcontext context) {
  ContextCache* cache = state_->known(context);
  return cache == nullptr ? nullptr : &cache->timeline().events().users();
}

void Allocator::context_destroyed(CUcontext context) {
  ContextCache* const ending = state_->known(context);
  // Other contexts' copies may still use its memory. Without custash, their frees since have
  // waited for that. Its own work may use theirs, and nobody sees it from now on.
  if (state_->contexts.load() > 1 && holds(Rule::a_context_ends_after_frees_elsewhere)) {
    visit_living(state_->all(), [&](ContextCache& each) {
      FenceLog& fences = each.timeline().fences();
      if (each.context() == context) return fences.wait_all().ignore();  // not of a green one
      fences.wait_unfenced_free();
      fences.wait_frees().ignore();
    });
  }
  const DeviceStats all = ending == nullptr ? DeviceStats{} : stats(ending->device());
  ContextCache* cache = state_->remove(context);
  state_->new_epoch();
  if (cache == nullptr) return state_->green_destroyed(context);
  state_->count_ended(*cache, all);
  cache->timeline().events().users().close();
  // It can no longer be put to sleep or woken.
  if (AwayPages* const away = cache->still_pages().away.get()) {
    const CurrentContext current(driver_, context);
    away->give_up(state_->sleeping.store(), 0);
  }
  cache->abandon();
  for (const Captures::Number number : state_->doom(context, *cache)) {
    state_->gate.capture_ended();
    state_->release(state_->captures.ended(number, nullptr));
  }
}

void Allocator::State::green_destroyed(CUcontext context) {
  {
    Lock lock(mutex);
    greens_.erase(context);
  }
  for (ContextCache* cache : all())
    cache->stream_ends().green_destroyed(context);
}

void Allocator::context_gone(CUcontext context) {
  ContextCache* const cache = state_->take_doomed(context);
  if (cache == nullptr) return;
  cache->timeline().events().end();
  cache->return_surviving_pages();
}

void Submission::will_touch(Allocator& core,
                            CUstream stream,
                            NullStream null,
                            std::span<const CUdeviceptr> addresses) {
  Allocator::State& state = core.state();
  if (state.contexts.load() < 2) return;
  const StreamPlace place = state.place(stream, null);
  if (!place) return;
  std::vector<ContextCache*> owners;
  for (const Address address : addresses) {
    ContextCache* owner = state.owner(address);
    if (owner == nullptr || owner == place.cache) continue;
    if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(owner);
  }
  reach(place.cache->device(), owners);
  if (!captures(state.driver, place) && holds(Rule::batches_pay_the_other_context))
    pay_for(owners, place.stream_state->stream);
}

void Submission::let_copies_reach(Allocator& core,
                                  CUcontext context,
                                  Address first,
                                  Address second) {
  Allocator::State& state = core.state();
  ContextCache* cache = context == nullptr ? nullptr : state.cache(context);
  if (cache != nullptr && state.contexts.load() > 1)
    reach(cache->device(), state.others(*cache, first, second));
}

void Allocator::peer_access_enabled(CUcontext owner, CUcontext accessor) {
  ContextCache* memory = state_->cache(owner);
  ContextCache* reader = state_->cache(accessor);
  if (memory != nullptr && reader != nullptr)
    memory->peer_grants().add_accessor(reader->peer_grants());
}

}  // namespace custash
