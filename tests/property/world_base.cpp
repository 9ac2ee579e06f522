// SPDX-License-Identifier: MIT
// Start and end of a run, streams, events and contexts; captures are in world_graphs.cpp.
#include "tests/property/world_base.hpp"

#include <utility>

namespace custash::property {
namespace {

// The thread's current context, and how many resets of contexts there had been.
thread_local std::pair<CUcontext, int> current{};

}  // namespace

WorldBase::WorldBase(const Setup& setup, sim::RaceDetector& detector, sim::Options options)
    : setup_(setup), detector_(detector) {
  options.context_events = setup.context_events;
  options.log = setup.log;
  options.seed = setup.seed;
  options.advance = setup.advance;
  sim::reset(options);
  current = {};
  for (int device = 0; device < 2; ++device)
    cuDevicePrimaryCtxRetain(&contexts_[device], device);
  use_context(0);
}

WorldBase::~WorldBase() {
  current = {};
}

void WorldBase::open_door() {
  door_ = setup_.bare ? std::make_unique<Door>()
                      : cached_door({.config = setup_.config,
                                     .fast = setup_.fast,
                                     .registered = setup_.registered,
                                     .store = setup_.store,
                                     .plan = setup_.plan});
}

void WorldBase::fail(Violation kind, const std::string& text) {
  if (failed()) return;
  kind_ = kind;
  text_ = text;
}

bool WorldBase::use_context(int context) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return false;
  const std::pair wanted{found->second, resets_};
  if (current != wanted) cuCtxSetCurrent(found->second);
  current = wanted;
  return true;
}

const CUstream* WorldBase::stream(const Command& command) const {
  static const CUstream kDefaults[] = {nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  if (command.stream < kFirstStream) return &kDefaults[command.stream];
  const auto found = streams_.find(command.stream);
  return found == streams_.end() || found->second.context != command.context
             ? nullptr
             : &found->second.handle;
}

int WorldBase::origin_of(const Command& command) const {
  const auto found = streams_.find(command.stream);
  return found == streams_.end() ? -1 : found->second.origin;
}

WorldBase::BlockObject* WorldBase::block(int id) {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? nullptr : &found->second;
}

void WorldBase::check_overlap(const BlockObject& fresh) {
  for (const auto* of : {&blocks_, &held_}) {
    for (const auto& [id, other] : *of) {
      if (fresh.address < other.address + other.bytes &&
          other.address < fresh.address + fresh.bytes)
        fail(Violation::Overlap, "a new block overlaps block " + std::to_string(id));
    }
  }
}

void WorldBase::note_visible(int context, CUstream stream) {
  visible_.push_back({context, sim::last_op(stream)});
}

std::vector<sim::OpId> WorldBase::visible_of(int context) const {
  std::vector<sim::OpId> ops;
  for (const Visible& visible : visible_) {
    if (visible.context == context) ops.push_back(visible.op);
  }
  return ops;
}

CUresult WorldBase::run(const Command& command, std::size_t step) {
  detector_.set_step(step);
  contexts_used_.insert(command.context);
  if (command.op != Op::CreateContext && !use_context(command.context)) return CUDA_SUCCESS;
  before(step);
  const CUresult result = dispatch(command);
  if (sim::hung())
    fail(Violation::Hang, "step " + std::to_string(step) + ": nothing can move any more");
  return result;
}

CUresult WorldBase::dispatch(const Command& c) {
  switch (c.op) {
    case Op::CreateStream:
      return make_stream(c);
    case Op::DestroyStream:
      return destroy_stream(c);
    case Op::CreateContext:
      return create_context(c.context);
    case Op::DestroyContext:
      return end_context(c.context);
    case Op::EventRecord:
    case Op::EventWait:
    case Op::EventSync:
      return events(c);
    case Op::StreamSync: {
      const CUstream* s = stream(c);
      return s == nullptr ? CUDA_SUCCESS : cuStreamSynchronize(*s);
    }
    case Op::ContextSync:
      return cuCtxSynchronize();
    case Op::Step:
      sim::run(c.bytes);
      return CUDA_SUCCESS;
    case Op::EndThread:
      return CUDA_SUCCESS;  // Baton does it
    case Op::CaptureBegin:
    case Op::CaptureEnd:
    case Op::StreamWait:
    case Op::Instantiate:
    case Op::Launch:
    case Op::DestroyGraph:
    case Op::DestroyExec:
      return graphs(c);
    default:
      return CUDA_SUCCESS;  // not of programs with this kind of memory
  }
}

CUresult WorldBase::make_stream(const Command& c) {
  StreamObject made{.handle = nullptr, .context = c.context};
  if (c.flags == 2) {
    made.green = sim::make_green(device_of(c.context));
    if (made.green) made.handle = sim::green_stream(made.green);
    if (made.handle == nullptr) return CUDA_ERROR_UNKNOWN;
  } else {
    const CUresult result =
        cuStreamCreate(&made.handle, c.flags == 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    if (result != CUDA_SUCCESS) return result;
  }
  streams_[c.stream] = made;
  return CUDA_SUCCESS;
}

CUresult WorldBase::destroy_stream(const Command& c) {
  if (stream(c) == nullptr || c.stream < kFirstStream || streams_[c.stream].capturing())
    return CUDA_SUCCESS;
  const StreamObject object = streams_[c.stream];
  streams_.erase(c.stream);
  const CUresult result =
      door_->destroy_stream(object.handle, [&] { return cuStreamDestroy(object.handle); });
  if (!object.green || result != CUDA_SUCCESS) return result;
  return door_->destroy_context(object.green.context,
                                [&] { return sim::destroy_green(object.green); });
}

CUresult WorldBase::events(const Command& c) {
  if (c.op == Op::EventRecord) {
    const CUstream* s = stream(c);
    if (s == nullptr) return CUDA_SUCCESS;
    EventObject& event = events_[c.other];
    event.context = c.context;
    if (event.handle == nullptr) {
      const CUresult made = cuEventCreate(&event.handle, CU_EVENT_DISABLE_TIMING);
      if (made != CUDA_SUCCESS) return made;
    }
    return cuEventRecord(event.handle, *s);
  }
  const auto found = events_.find(c.other);
  if (found == events_.end()) return CUDA_SUCCESS;
  const CUevent event = found->second.handle;
  if (c.op == Op::EventSync) return cuEventSynchronize(event);
  const CUstream* s = stream(c);
  if (s == nullptr) return CUDA_SUCCESS;
  const CUstream waiting = *s;
  return door_->submit(waiting, SubmissionKind::Wait, 0, 0, [&] {
    return cuStreamWaitEvent(waiting, event, 0);
  });
}

CUresult WorldBase::create_context(int context) {
  using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
  const auto create = reinterpret_cast<Create>(sim::resolve("cuCtxCreate_v2"));
  CUcontext made = nullptr;
  const CUresult result = create(&made, 0, device_of(context));
  if (result == CUDA_SUCCESS) contexts_[context] = made;
  current = {made, resets_};
  return result;
}

// Everything of it ends with it.
CUresult WorldBase::end_context(int context) {
  for (auto& [id, s] : streams_) {
    if (s.context == context && s.origin == id) end_capture(id, -1);
  }
  destroy_graphs(context);
  for (const auto* of : {&blocks_, &held_}) {
    for (const auto& [id, object] : *of) {
      if (object.context == context) detector_.on_free(object.address, sim::this_thread());
    }
  }
  forget(context);
  const auto in_it = [&](const auto& entry) { return entry.second.context == context; };
  std::erase_if(streams_, in_it);
  std::erase_if(blocks_, in_it);
  std::erase_if(held_, in_it);
  std::erase_if(events_, in_it);
  std::erase_if(visible_, [&](const Visible& visible) { return visible.context == context; });
  const CUcontext handle = contexts_[context];
  contexts_.erase(context);
  current = {};
  const CUresult result = destroy_context(context, handle);
  if (context < kFirstContext) {
    ++resets_;
    cuDevicePrimaryCtxRetain(&contexts_[context], device_of(context));
  }
  return result;
}

CUresult WorldBase::destroy_context(int context, CUcontext handle) {
  return door_->destroy_context(handle, [&] {
    return context < kFirstContext ? cuDevicePrimaryCtxReset(device_of(context))
                                   : cuCtxDestroy(handle);
  });
}

void WorldBase::finish() {
  if (failed()) return;
  check(true);
  release_all();
  if (sim::hung()) fail(Violation::Hang, "nothing can move any more at the end");
  if (!setup_.bare) check_returned();
}

void WorldBase::end_graphs() {
  for (auto& [id, s] : streams_) {
    use_context(s.context);
    if (s.origin == id) end_capture(id, -1);
  }
  for (const auto& [id, context] : contexts_) {
    if (use_context(id)) destroy_graphs(id);
  }
}

void WorldBase::wait_for_contexts(const char* failure) {
  for (const auto& [id, context] : contexts_) {
    use_context(id);
    if (cuCtxSynchronize() != CUDA_SUCCESS) fail(Violation::Code, failure);
  }
}

}  // namespace custash::property
