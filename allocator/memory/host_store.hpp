// SPDX-License-Identifier: MIT
// HostStore: where the contents of sleeping device memory are kept: pieces of host memory, or
// of a file. The product's is pinned/sleep_store.hpp; without one, pieces come from the driver.
// Called without a lock.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/units.hpp"

#include <cstddef>
#include <string>

namespace custash {

struct PinnedPiece;

struct HostPiece {
  std::byte* at = nullptr;  // null: in the store's file
  Bytes size = 0;
  Bytes in_file = 0;              // where it begins there
  PinnedPiece* pinned = nullptr;  // the store's own
};

class HostStore {
 public:
  virtual ~HostStore() = default;

  // Whether there is room for this many more bytes. No: `why` names the figures.
  virtual bool has_room(Bytes bytes, std::string* why) = 0;
  // `context` is current. False: `why` tells, where the store knows.
  virtual bool take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) = 0;
  virtual void give(CUcontext context, const HostPiece& piece) = 0;
  // How many bytes of host memory are worth keeping for the next time.
  virtual Bytes keeps() = 0;

  // It holds memory, and the host is short of it.
  virtual bool is_short() { return false; }

  // ---- Host memory may be mapped only, until it is made. For the one thread that puts the
  // process to sleep.
  // make() is to make the piece.
  virtual void want(const HostPiece&) {}

  // Makes the wanted pieces, in their order; the last of them only begins to. False: the system
  // lacks memory, and `why` tells.
  virtual bool make(std::string*) { return true; }

  // Returns once the piece may be copied into. False: it cannot be made, and `why` tells.
  virtual bool wait(const HostPiece&, std::string*) { return true; }

  // Makes no more pieces.
  virtual void stop() {}

  // ---- Of pieces in a file: up to a chunk of SavedBytes at a time, through one buffer. It is
  // there as long as there is such a piece.
  virtual std::byte* buffer() { return nullptr; }

  virtual bool write(const HostPiece&, Bytes, Bytes, std::string*) { return false; }

  virtual bool read(const HostPiece&, Bytes, Bytes, std::string*) { return false; }

  // Whether all that was written has arrived.
  virtual bool flush(std::string*) { return true; }
};

// Pinned memory of the driver's.
class DriverHostStore final : public HostStore {
 public:
  explicit DriverHostStore(const Driver& driver) : driver_(driver) {}

  bool has_room(Bytes, std::string*) override { return true; }

  bool take(CUcontext, Bytes bytes, HostPiece* out, std::string*) override {
    void* at = nullptr;
    if (driver_.mem_host_alloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
      return false;
    *out = {.at = static_cast<std::byte*>(at), .size = bytes};
    return true;
  }

  void give(CUcontext, const HostPiece& piece) override {
    Status(driver_.mem_free_host(piece.at)).ignore();  // its context has ended
  }

  // The driver waits for the device when it takes pinned memory back.
  Bytes keeps() override { return ~Bytes{0}; }

 private:
  const Driver& driver_;
};

}  // namespace custash
