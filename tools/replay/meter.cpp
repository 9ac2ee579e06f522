// SPDX-License-Identifier: MIT
// The metered table: one function a member of Driver, made by template from the member's own
// type.
#include "tools/replay/meter.hpp"

#include "allocator/base/atomic_max.hpp"

#include <algorithm>
#include <tuple>

namespace custash::replay {
namespace {

enum CallNumber {

#define CUSTASH_NUMBER(need, member, symbol, params) k_##member,
  CUSTASH_DRIVER_CALLS(CUSTASH_NUMBER)
#undef CUSTASH_NUMBER
      kCalls
};

constexpr const char* kSymbols[] = {
#define CUSTASH_SYMBOL(need, member, symbol, params) symbol,
    CUSTASH_DRIVER_CALLS(CUSTASH_SYMBOL)
#undef CUSTASH_SYMBOL
};

std::atomic<Meter*> meter{nullptr};
Driver real;

// Small requests share slabs of the driver's own, which nothing reports; no cache makes many.
constexpr Bytes kMostSlab = 1_MiB;
constexpr Bytes kDriverGranule = 2_MiB;

template <int kCall, typename... Args>
void note_call(Meter& m, const std::tuple<Args...>& args) {
  if constexpr (kCall == k_mem_alloc) m.allocated(*std::get<0>(args), std::get<1>(args));
  if constexpr (kCall == k_mem_create) m.created(*std::get<0>(args), std::get<1>(args));
  if constexpr (kCall == k_mem_map) m.mapped(std::get<0>(args), std::get<3>(args));
}

// Before the call: after it another thread may be given the same address or handle.
template <int kCall, typename... Args>
void note_end(Meter& m, const std::tuple<Args...>& args) {
  if constexpr (kCall == k_mem_free) m.freed(std::get<0>(args));
  if constexpr (kCall == k_mem_release) m.released(std::get<0>(args));
  if constexpr (kCall == k_mem_unmap) m.unmapped(std::get<0>(args), std::get<1>(args));
}

template <auto kMember, int kCall, typename Fn>
struct Metered;

template <auto kMember, int kCall, typename... Args>
struct Metered<kMember, kCall, CUresult (*)(Args...)> {
  static CUresult CUDAAPI call(Args... args) {
    Meter* const m = meter.load(std::memory_order_relaxed);
    if (m == nullptr) return (real.*kMember)(args...);
    const Nanoseconds before = real.now();
    note_end<kCall>(*m, std::tuple(args...));
    const CUresult result = (real.*kMember)(args...);
    Meter::CallTime& call_time = m->call_time(kCall);
    call_time.calls.fetch_add(1, std::memory_order_relaxed);
    call_time.time.fetch_add(real.now() - before, std::memory_order_relaxed);
    if (result == CUDA_SUCCESS) note_call<kCall>(*m, std::tuple(args...));
    return result;
  }
};

std::atomic<Nanoseconds> time_passed{0};

Driver& table() {
  static Driver the_table;
  return the_table;
}

}  // namespace

Meter::Meter(const Driver& driver) : call_times_(kCalls) {
  real = driver;
  Driver& t = table();
  time_passed.store(0);
  t.now = [] { return real.now() + time_passed.load(); };
  t.rest = driver.rest;
#define CUSTASH_METER(need, member, symbol, params) \
  t.member = real.member == nullptr                 \
                 ? nullptr                          \
                 : Metered<&Driver::member, k_##member, decltype(Driver::member)>::call;
  CUSTASH_DRIVER_CALLS(CUSTASH_METER)
#undef CUSTASH_METER
  meter.store(this);
}

Meter::~Meter() {
  meter.store(nullptr);
}

const Driver& Meter::driver() {
  return table();
}

void Meter::pass_time(Nanoseconds time) {
  time_passed.fetch_add(time);
}

std::vector<CallRow> Meter::rows() const {
  std::vector<CallRow> rows;
  for (std::size_t i = 0; i < kCalls; ++i)
    if (call_times_[i].calls != 0)
      rows.push_back({kSymbols[i], call_times_[i].calls, call_times_[i].time});
  std::stable_sort(rows.begin(), rows.end(), [](const CallRow& a, const CallRow& b) {
    return a.time > b.time;
  });
  return rows;
}

void Meter::hold(Bytes bytes) {
  atomic_max(peak_, held_ += bytes);
}

void Meter::allocated(Address address, Bytes bytes) {
  const Bytes charged = bytes <= kMostSlab ? bytes : align_up(bytes, kDriverGranule);
  const std::lock_guard guard(mutex_);
  blocks_[address] = charged;
  hold(charged);
}

void Meter::freed(Address address) {
  const std::lock_guard guard(mutex_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) return;
  held_ -= it->second;
  blocks_.erase(it);
}

void Meter::created(CUmemGenericAllocationHandle handle, Bytes bytes) {
  const std::lock_guard guard(mutex_);
  numbers_[handle] = next_;
  handles_[next_++] = {bytes};
  hold(bytes);
}

void Meter::drop_unused(Handles::iterator it) {
  if (it->second.referenced || it->second.mappings > 0) return;
  held_ -= it->second.bytes;
  handles_.erase(it);
}

void Meter::released(CUmemGenericAllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto number = numbers_.find(handle);
  if (number == numbers_.end()) return;
  const auto it = handles_.find(number->second);
  numbers_.erase(number);
  it->second.referenced = false;
  drop_unused(it);
}

void Meter::mapped(Address address, CUmemGenericAllocationHandle handle) {
  const std::lock_guard guard(mutex_);
  const auto number = numbers_.find(handle);
  if (number == numbers_.end()) return;
  Handle& h = handles_.at(number->second);
  if (h.was_mapped) {
    ++moves_;
    moved_bytes_ += h.bytes;
  }
  h.was_mapped = true;
  if (++h.mappings > 1) ++aliases_;
  mappings_[address] = number->second;
}

void Meter::unmapped(Address address, Bytes bytes) {
  const std::lock_guard guard(mutex_);
  const auto begin = mappings_.lower_bound(address);
  const auto end = mappings_.lower_bound(address + bytes);
  for (auto it = begin; it != end; ++it) {
    const auto handle = handles_.find(it->second);
    if (--handle->second.mappings > 0) --aliases_;
    drop_unused(handle);
  }
  mappings_.erase(begin, end);
}

}  // namespace custash::replay
