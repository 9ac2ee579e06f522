// SPDX-License-Identifier: MIT
// The table of real addresses, and the map from them to our wrappers. The map is open
// addressing; all threads fill it in the same order, so racing threads write the same slots.
#include "interpose/real/real_driver.hpp"

#include "interpose/real/dlsym.hpp"
#include "interpose/real/loaded.hpp"

#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>

#include <dlfcn.h>

namespace custash::real {

constinit std::array<std::atomic<void*>, kEntryCount> addresses{};

namespace {

enum class Open { IfProgramHas, Now };

constexpr std::size_t kSlots = 1024;
static_assert(kEntryCount * 2 <= kSlots, "the map from addresses to wrappers is too small");

// The driver's own, whatever replace() puts before them.
constinit std::array<std::atomic<void*>, kEntryCount> given{};

// An entry's number plus one; 0 is an empty slot. The key is the entry's address.
constinit std::array<std::atomic<unsigned short>, kSlots> slots{};
constinit std::atomic<void*> library{nullptr};
constinit std::atomic<bool> filled{false};

// What the service's thread calls and no wrapper stands before. Found with the entries: while
// the end of a context waits for this thread, another thread may hold the loader's lock.
constexpr const char* kServiceNames[] = {"cuDeviceGetDefaultMemPool",
                                         "cuDeviceGetGraphMemAttribute",
                                         "cuDeviceGetPCIBusId",
                                         "cuDeviceGetUuid",
                                         "cuDeviceGetUuid_v2"};
constinit std::array<std::atomic<void*>, std::size(kServiceNames)> of_service{};

// In the table, or null: whether the driver has such a function is to be asked.
std::optional<void*> found_at_start(const char* name) {
  if (!filled.load(std::memory_order_acquire)) return std::nullopt;
  for (std::size_t i = 0; i < kEntryCount; ++i)
    if (std::strcmp(kEntryNames[i], name) == 0) return given[i].load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < of_service.size(); ++i)
    if (std::strcmp(kServiceNames[i], name) == 0)
      return of_service[i].load(std::memory_order_relaxed);
  return std::nullopt;
}

void* wrapper(std::size_t entry) {
  static void* const wrappers[] = {
#define ADDRESS_OF(hook, null, ...) reinterpret_cast<void*>(&hook),
#define ENTRY(symbol, forms, role, params) ALL_FORMS_##forms(ADDRESS_OF, hook_##symbol, )
#include "interpose/real/entry_points.def"
#undef ADDRESS_OF
  };
  return wrappers[entry];
}

std::size_t first_slot(const void* address) {
  const auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
  return static_cast<std::size_t>((bits * 0x9E3779B97F4A7C15ULL) >> 54);  // the top 10 bits
}

void* address_in(unsigned short slot) {
  return given[slot - 1].load(std::memory_order_relaxed);
}

// Two names may share one address: the first in the list stands for both.
void insert(void* address, std::size_t entry) {
  for (std::size_t at = first_slot(address);; at = (at + 1) % kSlots) {
    unsigned short present = 0;
    if (slots[at].compare_exchange_strong(present, static_cast<unsigned short>(entry + 1)))
      return;
    if (address_in(present) == address) return;
  }
}

// What auditwheel makes of the driver's name.
constexpr const char* kRenamed = "libcuda-";

bool has_driver(void* handle) {
  return real_dlsym()(handle, "cuInit") != nullptr;
}

// The toolkit's stub has the driver's functions, and each fails.
bool is_driver(void* handle) {
  int version = 0;
  void* const get = real_dlsym()(handle, "cuDriverGetVersion");
  return has_driver(handle) && get != nullptr &&
         reinterpret_cast<CUresult (*)(int*)>(get)(&version) == CUDA_SUCCESS;
}

// The stub stays loaded by the library that calls it.
void* in_stub(const char* name) {
  void* const stub = open_loaded(kRenamed, has_driver);
  if (stub == nullptr) return nullptr;
  void* const address = real_dlsym()(stub, name);
  dlclose(stub);
  return address;
}

void* open_library(Open how) {
  void* handle = library.load(std::memory_order_acquire);
  if (handle != nullptr) return handle;
  // By name, and only if it is loaded: by now the program has chosen its libcuda.so.1.
  handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) handle = open_loaded(kRenamed, is_driver);
  // Nothing is opened beside a stub, which fails as it does without custash. It is not kept:
  // the driver may come later.
  if (handle == nullptr && in_stub("cuInit") != nullptr) return nullptr;
  if (handle == nullptr && how == Open::Now) handle = dlopen("libcuda.so.1", RTLD_LAZY);
  if (handle != nullptr) library.store(handle, std::memory_order_release);
  return handle;
}

bool fill(Open how) {
  if (filled.load(std::memory_order_acquire)) return true;
  void* const handle = open_library(how);
  if (handle == nullptr) {
    // The message about a missing libcuda is hidden: the program did not ask for it.
    if (how == Open::Now) dlerror();
    return false;
  }
  for (std::size_t i = 0; i < kEntryCount; ++i) {
    void* const address = real_dlsym()(handle, kEntryNames[i]);
    if (address == nullptr) continue;
    given[i].store(address, std::memory_order_release);
    void* none = nullptr;  // another thread may have filled it, and replaced it since
    addresses[i].compare_exchange_strong(none, address);
  }
  for (std::size_t i = 0; i < kEntryCount; ++i) {
    void* const address = given[i].load(std::memory_order_relaxed);
    if (address != nullptr) insert(address, i);
  }
  for (std::size_t i = 0; i < of_service.size(); ++i)
    of_service[i].store(real_dlsym()(handle, kServiceNames[i]));
  dlerror();  // a driver older than an entry of ours leaves a message that is not the program's
  filled.store(true, std::memory_order_release);
  return true;
}

}  // namespace

void* look_up(Entry entry) noexcept {
  const auto index = static_cast<std::size_t>(entry);
  if (fill(Open::Now)) return addresses[index].load(std::memory_order_relaxed);
  return in_stub(kEntryNames[index]);
}

void replace(Entry entry, void* by) noexcept {
  addresses[static_cast<std::size_t>(entry)].store(by, std::memory_order_release);
}

void* symbol(const char* name) noexcept {
  if (const auto found = found_at_start(name)) return *found;
  void* const handle = open_library(Open::Now);
  if (handle == nullptr) return nullptr;
  void* const address = real_dlsym()(handle, name);
  if (address == nullptr) dlerror();
  return address;
}

void* wrapper_of(void* address) noexcept {
  if (!fill(Open::IfProgramHas)) return nullptr;
  for (std::size_t at = first_slot(address);; at = (at + 1) % kSlots) {
    const unsigned short present = slots[at].load(std::memory_order_acquire);
    if (present == 0) return nullptr;
    if (address_in(present) == address) return wrapper(present - 1U);
  }
}

namespace {

using AskPool = CUresult(CUmemoryPool*, CUdevice);

CUresult ask(AskPool* get, CUdevice device, CUmemoryPool* out) noexcept {
  return get == nullptr ? CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND : get(out, device);
}

}  // namespace

CUresult default_pool(CUdevice device, CUmemoryPool* out) noexcept {
  static auto* const get = reinterpret_cast<AskPool*>(symbol("cuDeviceGetDefaultMemPool"));
  return ask(get, device, out);
}

CUresult current_pool(CUdevice device, CUmemoryPool* out) noexcept {
  static auto* const get = reinterpret_cast<AskPool*>(symbol("cuDeviceGetMemPool"));
  return ask(get, device, out);
}

}  // namespace custash::real
