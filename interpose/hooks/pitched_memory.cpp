// SPDX-License-Identifier: MIT
// Pitched memory. The driver serves the first allocation of each width, and its answer is kept.
// Later ones are custash's blocks with that pitch. No driver call is made only to ask: freeing
// the answer would wait for the device, which this call does not do by itself.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/memory_limits.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/pitches.hpp"

#include <atomic>

namespace custash::handlers {
namespace {

constinit Pitches pitches;

// What the runtime asks for, once it has been seen. Order: none, it is always the same.
constinit std::atomic<unsigned> runtime_element{0};
constinit thread_local bool in_runtime = false;

// The driver has served this call. If the allocation does not match the pitch, nothing is kept,
// and the driver serves this width again.
std::optional<PitchAnswer> learn(const PitchQuestion& question,
                                 Bytes height,
                                 CUdeviceptr address,
                                 Bytes pitch) {
  auto* const range = real::function<CUresult(CUdeviceptr*, Count*, CUdeviceptr)>(
      Entry::hook_cuMemGetAddressRange_v2);
  CUdeviceptr base = 0;
  Count size = 0;
  if (range == nullptr || range(&base, &size, address) != CUDA_SUCCESS || base != address)
    return std::nullopt;
  const auto answer = PitchAnswer::from(question.width, height, pitch, size);
  if (answer) pitches.add(question, *answer);
  return answer;
}

// The driver knows nothing of limits.
bool is_limited(Allocator& core, CUdevice device) {
  return core.limits().budget(device).size() != ~0ULL;
}

// The least that the driver may make of it.
Bytes least_bytes(Bytes width, Bytes height) {
  constexpr Bytes kPitch = 512;
  constexpr Bytes kMost = ~Bytes{0} / 2;
  const Bytes row = align_up(std::min(width, kMost), kPitch);
  return height != 0 && row > kMost / height ? kMost : row * height;
}

}  // namespace

CUresult mem_alloc_pitch(Real<CUdeviceptr*, Count*, Count, Count, unsigned> real,
                         NullStream,
                         CUdeviceptr* out,
                         Count* pitch,
                         Count width,
                         Count height,
                         unsigned element) {
  if (in_runtime) runtime_element.store(element, std::memory_order_relaxed);
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  PitchQuestion question{0, element, width};
  const bool ours = core != nullptr && out != nullptr && pitch != nullptr &&
                    core->config().caching != Caching::Never &&
                    core->driver().ctx_get_current(&context) == CUDA_SUCCESS &&
                    context != nullptr &&
                    core->driver().ctx_get_device(&question.device) == CUDA_SUCCESS;
  if (const auto known = ours ? pitches.find(question) : std::nullopt) {
    if (const Bytes bytes = known->bytes(width, height); bytes != 0) {
      Address address = 0;
      const Status status = core->allocate(context, bytes, &address);
      if (status.ok()) {
        *out = address;
        *pitch = known->pitch;
        return CUDA_SUCCESS;
      }
      if (is_limited(*core, question.device)) return status.code();
    }  // else the driver refuses it, and writes what it writes then
  }
  const CUdevice device = charges::current_device();
  const Bytes least = least_bytes(width, height);
  Quota::Call charged{Quota::Call::Later{}};
  if (!charges::take(passed::Kind::Pitched, device, least, &charged))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = hooks::retry_after_trim(
      real, [&](auto* call) { return call(out, pitch, width, height, element); });
  if (core == nullptr || result != CUDA_SUCCESS) {
    charges::give(passed::Kind::Pitched, device, least);
    return result;
  }
  const auto learned = ours ? learn(question, height, *out, *pitch) : std::nullopt;
  const Bytes bytes = learned ? learned->bytes(width, height) : *pitch * height;
  charges::correct(passed::Kind::Pitched, device, least, bytes);
  passed::table().began(passed::Kind::Pitched, *out, bytes, context, device);
  return result;
}

}  // namespace custash::handlers

namespace custash::pitched_memory {

FromRuntime::FromRuntime() noexcept {
  handlers::in_runtime = true;
}

FromRuntime::~FromRuntime() {
  handlers::in_runtime = false;
}

std::optional<PitchAnswer> known_to_runtime(CUdevice device, Bytes width) noexcept {
  const unsigned element = handlers::runtime_element.load(std::memory_order_relaxed);
  return element == 0 ? std::nullopt : handlers::pitches.find({device, element, width});
}

}  // namespace custash::pitched_memory
