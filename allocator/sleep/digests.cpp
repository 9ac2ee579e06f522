// SPDX-License-Identifier: MIT
#include "allocator/sleep/digests.hpp"

#include "allocator/base/log.hpp"
#include "allocator/sleep/digest_kernel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include <sys/random.h>

namespace custash {
namespace {

using Keys = std::array<std::uint64_t, Digests::kKeys>;

// What the kernel reads and writes: pinned memory, since a full device has no other.
struct Shared {
  Shared(const Driver& driver, std::size_t pieces) : driver_(driver) {
    const Bytes bytes = sizeof(Keys) + pieces * (sizeof(Digests::Piece) + sizeof(Digest));
    if (driver.mem_host_alloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS)
      std::memset(at, 0, bytes);
    else
      at = nullptr;
  }

  ~Shared() {
    if (at != nullptr) Status(driver_.mem_free_host(at)).ignore();
  }

  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void* at = nullptr;

 private:
  const Driver& driver_;
};

// Random, once in the process; null: the system has no random numbers.
const Keys* keys() {
  static const struct Random {
    Random() {
      for (std::size_t done = 0; done < sizeof of;) {
        const ssize_t got = getrandom(reinterpret_cast<char*>(&of) + done, sizeof of - done, 0);
        if (got <= 0) return;
        done += static_cast<std::size_t>(got);
      }
      there = true;
    }

    Keys of{};
    bool there = false;
  } random;

  return random.there ? &random.of : nullptr;
}

}  // namespace

Status Digests::load() {
  if (kernel_ != nullptr) return {};
  if (driver_.launch_kernel == nullptr || driver_.module_load_data == nullptr ||
      driver_.module_get_function == nullptr || driver_.memset_d32_async == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (module_ == nullptr) {
    const Status loaded = driver_.module_load_data(&module_, kDigestKernel);
    if (!loaded.ok()) return module_ = nullptr, loaded;
  }
  return driver_.module_get_function(&kernel_, module_, "custash_digest");
}

Status Digests::run(std::span<const Piece> pieces, CopyStream& stream, std::span<Digest> out) {
  const Keys* const random = keys();
  if (random == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUstream const on = stream.get();
  const Shared shared(driver_, pieces.size());
  if (on == nullptr || shared.at == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* key = static_cast<std::uint64_t*>(shared.at);
  auto* list = reinterpret_cast<Piece*>(key + kKeys);
  auto* digests = reinterpret_cast<Digest*>(list + pieces.size());
  std::copy(random->begin(), random->end(), key);
  std::copy(pieces.begin(), pieces.end(), list);
  auto count = static_cast<std::uint32_t>(pieces.size());
  void* parameters[] = {&list, &digests, &key, &count};
  const unsigned blocks = std::min(count, 4096U);
  Status status = load();
  if (status.ok())
    status =
        driver_.launch_kernel(kernel_, blocks, 1, 1, 256, 1, 1, 0, on, parameters, nullptr);
  if (status.ok()) status = stream.wait();
  if (status.ok()) std::copy_n(digests, pieces.size(), out.begin());
  return status;
}

bool Digests::read(std::span<const Piece> pieces, CopyStream& stream, std::span<Digest> out) {
  if (!usable_) return false;
  const Status status = run(pieces, stream, out);
  if (status.ok()) return true;
  usable_ = status.code() == CUDA_ERROR_OUT_OF_MEMORY;  // there may be some next time
  log(LogLevel::Warn,
      "event=no_digests code=" + std::to_string(status.code()) +
          " reason=\"the driver does not run the kernel that reads contents: sleep copies "
          "all\"");
  return false;
}

}  // namespace custash
