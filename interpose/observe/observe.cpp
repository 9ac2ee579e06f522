// SPDX-License-Identifier: MIT
#include "interpose/observe/observe.hpp"

#include "allocator/base/thread.hpp"
#include "interpose/process/captures.hpp"

#include <bit>
#include <optional>

namespace custash::observe {

constinit std::atomic<unsigned> watchers{0};

namespace {

// Order: release and acquire; an observer is complete before its watcher begins.
constinit std::array<std::atomic<const Observer*>, kWatchers> observers{};

constexpr unsigned bit_of(Watcher watcher) {
  return 1U << static_cast<unsigned>(watcher);
}

bool makes_node(const Stream& stream) {
  return stream.named && captures::under_way();
}

// Null: it does not see the call.
const Observer* observer_of(int number, bool node) {
  const Observer* const found =
      observers[static_cast<std::size_t>(number)].load(std::memory_order_acquire);
  return found != nullptr && (!node || found->sees_nodes) ? found : nullptr;
}

// The counters alone call nothing that waits, unless memory runs out.
class Waits {
 public:
  Waits(unsigned on, CUresult result) noexcept {
    if (on != bit_of(Watcher::Counters) || result == CUDA_ERROR_OUT_OF_MEMORY) off_.emplace();
  }

 private:
  std::optional<CancellationOff> off_;
};

}  // namespace

void begin(Watcher watcher, const Observer* observer) noexcept {
  observers[static_cast<std::size_t>(watcher)].store(observer, std::memory_order_release);
  watchers.fetch_or(bit_of(watcher));
}

void end(Watcher watcher) noexcept {
  watchers.fetch_and(~bit_of(watcher));
}

void before(const Call& call, Tokens* tokens) noexcept {
  *tokens = {};
  unsigned left = watchers.load(std::memory_order_relaxed);
  const Waits waits(left, CUDA_SUCCESS);
  const bool node = makes_node(call.stream);
  while (left != 0) {
    const int number = static_cast<int>(std::bit_width(left)) - 1;
    left &= ~(1U << number);
    const Observer* const observer = observer_of(number, node);
    if (observer != nullptr && observer->before != nullptr)
      (*tokens)[static_cast<std::size_t>(number)] = observer->before(call);
  }
}

void after(const Call& call, CUresult result, const Tokens& tokens) noexcept {
  unsigned left = watchers.load(std::memory_order_relaxed);
  const Waits waits(left, result);
  const bool node = result == CUDA_SUCCESS && makes_node(call.stream);
  for (; left != 0; left &= left - 1) {
    const int number = std::countr_zero(left);
    const Observer* const observer = observer_of(number, node);
    if (observer != nullptr && observer->after != nullptr)
      observer->after(call, result, tokens[static_cast<std::size_t>(number)]);
  }
}

}  // namespace custash::observe
