// SPDX-License-Identifier: MIT
#include "interpose/hooks/layouts.hpp"

#include "allocator/base/scope.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/real/real_driver.hpp"

#include <atomic>
#include <cstddef>
#include <set>
#include <unordered_map>

namespace custash::layouts {
namespace {

constexpr std::size_t kWord = sizeof(Address);

// The layout of one function. `epoch` is written last and says to which epoch the other members
// belong. While that is the current one, the entry does not change.
struct Entry {
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<const void*> function{nullptr};
  std::atomic<const Layout*> layout{nullptr};
};

// Open addressing. A table that became too small is kept, because a reader may still use it.
// All those together are no larger than the newest.
struct Table {
  explicit Table(std::size_t size) : room(size), entries(new Entry[size]) {}

  [[nodiscard]] Entry& at(std::size_t place) const { return entries[place & (room - 1)]; }

  [[nodiscard]] static std::size_t home(const void* function) {
    return static_cast<std::size_t>(
        (reinterpret_cast<std::uint64_t>(function) * 0x9e3779b97f4a7c15ULL) >> 32U);
  }

  const std::size_t room;  // a power of two
  Entry* const entries;
};

// Order: acquire at each load of a reader, in the order of the writer's stores. If it meets a
// newer entry it then sees the newer epoch, too.
constinit RankedMutex mutex{HookRank::Layouts};
constinit std::atomic<std::uint64_t> epoch{1};
constinit std::atomic<const Table*> table{nullptr};
constinit std::size_t used GUARDED_BY(mutex) = 0;  // entries of this epoch

using Ask = CUresult(const void*, std::size_t, std::size_t*, std::size_t*);

// A function of the driver, looked up once. (Not by a static's initialiser: its guard would be
// held across dlsym.)
struct Question {
  const char* const name;
  std::atomic<Ask*> call{nullptr};
  std::atomic<bool> looked_up{false};

  // Null: the driver has no such function (before 12.4).
  Ask* ask() {
    if (!looked_up.load()) {
      call.store(reinterpret_cast<Ask*>(real::symbol(name)));
      looked_up.store(true);
    }
    return call.load();
  }
};

constinit Question of_functions{"cuFuncGetParamInfo"};
constinit Question of_kernels{"cuKernelGetParamInfo"};

std::unordered_map<const void*, const void*>& kernels() REQUIRES(mutex) {
  static auto* const map = new std::unordered_map<const void*, const void*>;  // to libraries
  return *map;
}

const Layout* find(const void* function) {
  const std::uint64_t now = epoch.load(std::memory_order_acquire);
  const Table* const seen = table.load(std::memory_order_acquire);
  if (seen == nullptr) return nullptr;
  for (std::size_t place = Table::home(function), left = seen->room; left != 0;
       ++place, --left) {
    const Entry& entry = seen->at(place);
    const std::uint64_t written = entry.epoch.load(std::memory_order_acquire);
    if (written != now)
      return nullptr;  // free: an entry of an earlier epoch ends a row as an empty one does
    if (entry.function.load(std::memory_order_acquire) != function) continue;
    const Layout* const layout = entry.layout.load(std::memory_order_acquire);
    return epoch.load(std::memory_order_acquire) == now ? layout : nullptr;
  }
  return nullptr;
}

// False: another thread has already added it.
bool put(const Table& into, const void* function, const Layout* layout) REQUIRES(mutex) {
  const std::uint64_t now = epoch.load();
  for (std::size_t place = Table::home(function);; ++place) {
    Entry& entry = into.at(place);
    if (entry.epoch.load() == now) {
      if (entry.function.load() == function) return false;
      continue;
    }
    entry.epoch.store(0);
    entry.function.store(function);
    entry.layout.store(layout);
    entry.epoch.store(now);
    return true;
  }
}

void insert(const void* function, const Layout* layout, std::uint64_t asked_in) {
  constexpr std::size_t kFirst = 256;
  const RankedLock lock(mutex);
  if (epoch.load() != asked_in) return;
  const Table* now = table.load();
  if (now == nullptr || 2 * (used + 1) > now->room) {
    const auto* const larger = new Table(now == nullptr ? kFirst : 2 * now->room);
    for (std::size_t i = 0; now != nullptr && i < now->room; ++i) {
      const Entry& entry = now->entries[i];
      if (entry.epoch.load() == asked_in)
        (void)put(*larger, entry.function.load(), entry.layout.load());
    }
    table.store(larger);
    now = larger;
  }
  if (put(*now, function, layout)) ++used;
}

// Equal layouts are stored once, so loading a module again takes no more memory.
const Layout* kept(Layout layout) {
  static auto* const all = new std::set<Layout>;  // never destroyed
  const RankedLock lock(mutex);
  return &*all->insert(std::move(layout)).first;
}

// CUDA_SUCCESS: it is read.
CUresult read(Ask* ask, const void* function, Layout* out) {
  constexpr std::size_t kMost = 1U << 15U;  // bytes of parameters, more than any device takes
  if (ask == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  out->clear();
  for (std::size_t i = 0; i < kMost; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = ask(function, i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return CUDA_SUCCESS;  // behind the last
    if (result != CUDA_SUCCESS) return result;
    const std::size_t skip = (kWord - offset % kWord) % kWord;
    if (size < skip + kWord) continue;
    const Run run{static_cast<std::uint16_t>(i),
                  1,
                  static_cast<std::uint16_t>(skip),
                  static_cast<std::uint16_t>((size - skip) / kWord)};
    const bool goes_on = !out->empty() && out->back().first + out->back().count == run.first &&
                         out->back().skip == run.skip && out->back().words == run.words;
    if (goes_on) {
      ++out->back().count;
    } else {
      out->push_back(run);
    }
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ask_driver(const Driver& driver, const void* function, Layout* out) {
  const RelaxedCapture relaxed(driver);  // it may have to load the function
  if (is_kernel(function)) return read(of_kernels.ask(), function, out);
  const CUresult result = read(of_functions.ask(), function, out);
  // A kernel that note_kernel() did not report.
  return result == CUDA_ERROR_INVALID_HANDLE ? read(of_kernels.ask(), function, out) : result;
}

}  // namespace

bool is_kernel(const void* function) {
  const RankedLock lock(mutex);
  return kernels().contains(function);
}

void reset_lock_after_fork() noexcept {
  mutex.reset_after_fork();
}

const Layout* of(const Driver& driver, const void* function) noexcept {
  if (const Layout* const known = find(function)) return known;
  if (function == nullptr || of_functions.ask() == nullptr) return nullptr;
  try {
    const std::uint64_t now = epoch.load();
    Layout layout;
    if (ask_driver(driver, function, &layout) != CUDA_SUCCESS) return nullptr;
    const Layout* const found = kept(std::move(layout));
    insert(function, found, now);
    return found;
  } catch (...) {  // no memory
    return nullptr;
  }
}

void note_kernel(const void* kernel, const void* library) noexcept {
  try {
    const RankedLock lock(mutex);
    kernels()[kernel] = library;
  } catch (...) {
    // Then the driver refuses the handle at first, and is queried in the other way.
  }
}

void library_ends(const void* library) noexcept {
  {
    const RankedLock lock(mutex);
    std::erase_if(kernels(), [library](const auto& each) { return each.second == library; });
  }
  drop();
}

std::uint64_t epoch_now() noexcept {
  return epoch.load();
}

void drop() noexcept {
  const RankedLock lock(mutex);
  epoch.fetch_add(1);
  used = 0;
}

}  // namespace custash::layouts
