// SPDX-License-Identifier: MIT
#include "tests/property/door.hpp"

#include "allocator/charged_memory.hpp"
#include "allocator/graph_memory.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/deep_trim.hpp"
#include "allocator/sleep/idle_memory.hpp"
#include "allocator/sleep/sleep.hpp"
#include "allocator/submission.hpp"
#include "interpose/check/guarded_memory.hpp"
#include "tests/property/plan.hpp"
#include "tests/sim/sim.hpp"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace custash::property {
namespace {

CUresult no_registration(int* value, CUdevice_attribute which, CUdevice device) {
  const CUresult result = cuDeviceGetAttribute(value, which, device);
  if (which == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) *value = 0;
  return result;
}

const Driver* driver_of(const CachedOptions& options) {
  auto* driver = new Driver(sim::make_driver());
  if (!options.registered) driver->device_get_attribute = no_registration;
  return driver;
}

class CachedDoor final : public Door {
 public:
  explicit CachedDoor(const CachedOptions& options)
      : fast_(options.fast),
        plan_(options.plan),
        allocator_(*new Allocator(*driver_of(options), options.config)) {
    if (options.store != nullptr) Sleep(allocator_).set_store(*options.store);
  }  // never destroyed, as in the product

  CUresult malloc(CUcontext context, Bytes bytes, Address* out) override {
    const Ours now(*this);
    if (fast_ && (*out = allocator_.try_allocate(context, bytes)) != 0) return CUDA_SUCCESS;
    return allocator_.allocate(context, bytes, out).code();
  }

  CUresult free(Address address) override {
    const Ours now(*this);
    if (fast_ && allocator_.try_free(address)) return settled(address, CUDA_SUCCESS);
    const auto status = allocator_.free(address);
    return status ? settled(address, status->code()) : cuMemFree(address);
  }

  CUresult malloc_async(CUcontext context,
                        CUstream stream,
                        Bytes bytes,
                        Address* out) override {
    const Ours now(*this);
    // Each block counts for its context's account, as one of a pool of the program's.
    Accounts::Number& account = accounts_[context];
    if (account == 0) account = memory_.accounts().open();
    const CUresult result =
        memory_.allocate_on(account, context, stream, NullStream::Legacy, bytes, out).code();
    if (result == CUDA_SUCCESS && allocator_.owns(*out)) charged_[*out] = {account, bytes};
    return result;
  }

  CUresult free_async(Address address, CUstream stream) override {
    const Ours now(*this);
    const auto status = allocator_.free_on(address, stream, NullStream::Legacy);
    return status ? settled(address, status->code()) : cuMemFreeAsync(address, stream);
  }

  CUresult record_stream(Address address, CUstream stream) override {
    const Ours now(*this);
    return allocator_.record_stream(address, stream, NullStream::Legacy).code();
  }

  CUresult submit(CUstream stream,
                  SubmissionKind view,
                  Address first,
                  Address second,
                  const Call& call) override {
    const Ours now(*this);
    return submit(stream, view, {first, second}, {}, call);
  }

  CUresult submit_named(CUstream stream,
                        const std::vector<Address>& named,
                        const Call& call) override {
    const Ours now(*this);
    const auto read = [](const void* addresses, std::vector<Address>* out) {
      *out = *static_cast<const std::vector<Address>*>(addresses);
      return Captures::Reading::Whole;
    };
    return submit(stream, SubmissionKind::Hidden, {}, {.read = read, .call = &named}, call);
  }

  CUresult begin_capture(CUstream stream, const Call& call) override {
    const Ours now(*this);
    GraphMemory(allocator_).capture_begins(stream, NullStream::Legacy);
    const CUresult result = theirs(call);
    GraphMemory(allocator_)
        .capture_begin_done(stream, NullStream::Legacy, result == CUDA_SUCCESS);
    return result;
  }

  CUresult end_capture(CUstream stream, CUgraph* graph, const Call& call) override {
    const Ours now(*this);
    const CUresult result = theirs(call);
    GraphMemory(allocator_)
        .capture_ended(stream, NullStream::Legacy, result == CUDA_SUCCESS ? *graph : nullptr);
    return result;
  }

  CUresult instantiate(CUgraphExec* exec, CUgraph graph, const Call& call) override {
    const Ours now(*this);
    const CUresult result = theirs(call);
    if (result == CUDA_SUCCESS) GraphMemory(allocator_).made(*exec, graph);
    return result;
  }

  CUresult destroy_graph(const void* handle, const Call& call) override {
    const Ours now(*this);
    GraphMemory memory(allocator_);
    const GraphMemory::Leaving leaving = memory.leaves(handle);
    const CUresult result = theirs(call);
    if (result == CUDA_SUCCESS)
      memory.destroyed(leaving);
    else
      memory.stays(handle, leaving);
    return result;
  }

  CUresult destroy_stream(CUstream stream, const Call& call) override {
    const Ours now(*this);
    allocator_.stream_destroyed(stream);
    return theirs(call);
  }

  CUresult destroy_context(CUcontext context, const Call& call) override {
    const Ours now(*this);
    allocator_.context_destroyed(context);
    const Accounts::Number account = accounts_[context];
    accounts_.erase(context);
    std::erase_if(charged_, [&](const auto& each) { return each.second.account == account; });
    if (account != 0) memory_.accounts().forget(account);
    if (account != 0) memory_.accounts().close(account);
    const CUresult result = theirs(call);
    allocator_.context_gone(context);
    return result;
  }

  CUresult submit_early(CUstream stream, const std::function<CUresult(bool)>& call) override {
    const Ours now(*this);
    const Position owed = Submission::order_wanted(allocator_, stream, NullStream::Legacy);
    const CUresult result =
        submit(stream, SubmissionKind::Hidden, 0, 0, [&] { return call(owed.none()); });
    if (!owed.none() && result == CUDA_SUCCESS)
      Submission::order_given(allocator_, stream, NullStream::Legacy, owed);
    return result;
  }

  void peer_enabled(CUcontext owner, CUcontext accessor) override {
    const Ours now(*this, Awake::AsIs);
    allocator_.peer_access_enabled(owner, accessor);
  }

  CUresult share(int id, Address address) override {
    const Ours now(*this);
    BlockInfo info;
    ExportedBlock block;
    if (allocator_.find(address, &info) != Ownership::Live) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult left = make_quiet(address); left != CUDA_SUCCESS) return left;
    if (!PeerProcesses(allocator_).pin(address, info.buffer_id, &block))
      return CUDA_ERROR_INVALID_VALUE;
    pinned_[id] = std::move(block);
    return CUDA_SUCCESS;
  }

  void unshare(int id) override {
    const auto found = pinned_.find(id);
    if (found == pinned_.end()) return;
    PeerProcesses(allocator_).unpin(found->second);
    pinned_.erase(found);
  }

  CUresult leave(Address address) override {
    const Ours now(*this);
    return make_quiet(address);
  }

  CUresult ours(const Call& call) override {
    const Ours now(*this);
    return call();
  }

  Allocator* core() override { return &allocator_; }

  CUresult empty_cache(CUcontext context) override {
    const Ours now(*this);
    ContextCache* const cache = allocator_.state().known(context);
    return cache == nullptr ? CUDA_SUCCESS : cache->trim().code();
  }

  void sleep(int device) override {
    const Ours now(*this, Awake::AsIs);
    constexpr Nanoseconds kPatience = 2'000'000;
    (void)Sleep(allocator_).go({.device = device, .patience = kPatience});
  }

  void deep_trim() override {
    const Ours now(*this);
    constexpr Nanoseconds kPatience = 2'000'000;
    (void)DeepTrim(allocator_).go({.patience = kPatience});
  }

  void wake() override { Sleep(allocator_).wake(); }

  void look_for_idle_memory() override {
    const Ours now(*this, Awake::AsIs);
    (void)IdleMemory(allocator_).give_back();
  }

  std::string check(int device, std::int64_t live, bool exact) override {
    if (!allocator_.validate()) return "validate() is false";
    const DeviceStats stats = allocator_.stats(device);
    std::string wrong;
    const auto expect = [&](const char* what, bool right, std::int64_t value) {
      if (!right) wrong += std::string(what) + " is " + std::to_string(value) + "; ";
    };
    const std::int64_t requested = stats.requested_bytes[0].current;
    expect("requested_bytes", exact ? requested == live : requested <= live, requested);
    expect("allocated_bytes",
           stats.allocated_bytes[0].current >= requested,
           stats.allocated_bytes[0].current);
    expect("active_bytes",
           stats.active_bytes[0].current >= stats.allocated_bytes[0].current,
           stats.active_bytes[0].current);
    expect("reserved_bytes",
           stats.reserved_bytes[0].current >= stats.active_bytes[0].current,
           stats.reserved_bytes[0].current);
    for (const StatArray* array : {&stats.allocation,
                                   &stats.active,
                                   &stats.inactive_split,
                                   &stats.inactive_split_bytes}) {
      expect("a counter", (*array)[0].current >= 0, (*array)[0].current);
      expect("a sum of pools",
             (*array)[0].current == (*array)[1].current + (*array)[2].current,
             (*array)[0].current);
    }
    for (const auto& [context, account] : accounts_) {
      if (account == 0) continue;
      const Accounts::Use use = memory_.accounts().sample(account);
      Bytes charged = 0;
      for (const auto& [address, charge] : charged_)
        if (charge.account == account) charged += (charge.bytes + 511) / 512 * 512;
      expect("an account", use.now == charged, static_cast<std::int64_t>(use.now));
      expect("an account's most", use.most >= use.now, static_cast<std::int64_t>(use.most));
    }
    return wrong.empty() ? wrong : wrong + "live bytes are " + std::to_string(live);
  }

  std::string check_empty(int device) override {
    if (!allocator_.validate()) return "validate() is false";
    const DeviceStats stats = allocator_.stats(device);
    std::string wrong;
    for (const auto& [name, array] :
         {std::pair{"allocation", &stats.allocation},
          std::pair{"segment", &stats.segment},
          std::pair{"active", &stats.active},
          std::pair{"inactive_split", &stats.inactive_split},
          std::pair{"allocated_bytes", &stats.allocated_bytes},
          std::pair{"reserved_bytes", &stats.reserved_bytes},
          std::pair{"active_bytes", &stats.active_bytes},
          std::pair{"inactive_split_bytes", &stats.inactive_split_bytes},
          std::pair{"requested_bytes", &stats.requested_bytes}}) {
      for (const Stat& stat : *array)
        if (stat.current != 0)
          wrong += std::string(name) + " is " + std::to_string(stat.current) + "; ";
    }
    return wrong;
  }

 private:
  enum class Awake { First, AsIs };

  // While it lives the driver's calls are ours. Where every call is refused waking would wait
  // for ever, as it must: so the process is woken before.
  class Ours {
   public:
    explicit Ours(CachedDoor& door, Awake awake = Awake::First) : plan_(door.plan_) {
      if (plan_ == nullptr) return;
      if (plan_->persistent && awake == Awake::First) door.wake();
      plan_->arm();
    }

    ~Ours() {
      if (plan_ != nullptr) plan_->disarm();
    }

    Ours(const Ours&) = delete;
    Ours& operator=(const Ours&) = delete;

   private:
    Plan* const plan_;
  };

  // The program's own call, in the middle of ours.
  CUresult theirs(const Call& call) {
    if (plan_ == nullptr) return call();
    plan_->disarm();
    const CUresult result = call();
    plan_->arm();
    return result;
  }

  CUresult make_quiet(Address address) {
    BlockInfo info;
    if (allocator_.find(address, &info) == Ownership::Live)
      Sleep(allocator_).keep_awake(info.base, info.buffer_id, true);
    return PeerProcesses(allocator_).quiet(address).code();
  }

  CUresult submit(CUstream stream,
                  SubmissionKind view,
                  const std::array<Address, 2>& touched,
                  const CallNames& names,
                  const Call& call) {
    Submission submission(
        allocator_, stream, NullStream::Legacy, view, touched[0], touched[1], names);
    // As interpose/hooks/guard_calls.cpp does it.
    if (view != SubmissionKind::Wait) GuardedMemory(allocator_).give_back_freed();
    const CUresult result = theirs(call);
    submission.done(result);
    return result;
  }

  struct Charge {
    Accounts::Number account;
    Bytes bytes;
  };

  // A free that reports an earlier error has freed the block.
  CUresult settled(Address address, CUresult result) {
    if (result == CUDA_SUCCESS || allocator_.find(address, nullptr) != Ownership::Live)
      charged_.erase(address);
    return result;
  }

  const bool fast_;
  Plan* const plan_;
  Allocator& allocator_;
  ChargedMemory memory_{allocator_};
  std::map<CUcontext, Accounts::Number> accounts_;
  std::map<Address, Charge> charged_;
  std::map<int, ExportedBlock> pinned_;
};

}  // namespace

std::unique_ptr<Door> cached_door(const CachedOptions& options) {
  return std::make_unique<CachedDoor>(options);
}

}  // namespace custash::property
