// SPDX-License-Identifier: MIT
// PageContents: the contents of sleeping pages, and the way there and back. Part of
// SleepingPages. They go in portions, since a process that sleeps in part may give more later.
// Each portion begins with a chunk of its own. Its list of parts is made under the cache lock;
// afterwards all of it belongs to the one thread that puts the process to sleep or wakes it
// (SleepGate). decision 21
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/memory/saved_bytes.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace custash {

// The stream of a context on which custash copies contents, made at need. Belongs to the one
// thread that copies. Called without any lock held, with the context current.
class CopyStream {
 public:
  explicit CopyStream(const Driver& driver) : driver_(driver) {}

  // Null: the driver makes none.
  CUstream get();
  // Returns when all copies on it are over.
  Status wait();

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
  CUevent copied_ = nullptr;
};

class PageContents {
 public:
  // Contents of a block, or of blocks side by side, within one page. Parts lie in a row.
  struct Part {
    std::size_t sleeper;  // whose page
    Address address;
    Bytes bytes;
    Bytes offset;  // in all that is saved
  };

  using Parts = std::vector<Part>;
  // Whether the page of that sleeper is still needed.
  using Wanted = std::function<bool(std::size_t sleeper)>;

  PageContents(const Driver& driver, CUcontext context, CopyStream& stream)
      : driver_(driver), context_(context), stream_(stream) {}

  bool reserve(HostStore& store, Bytes bytes, std::string* why);
  void give_up(HostStore& store, Bytes keep);

  [[nodiscard]] Bytes reserved() const { return saved_.size(); }

  [[nodiscard]] Parts& parts() { return parts_; }

  // Where the next portion begins, in all that is saved.
  [[nodiscard]] Bytes next() const { return saved_.next_chunk(bytes()); }

  // The parts that are added from now on are a portion.
  void begin_portion() { portion_ = next(); }

  [[nodiscard]] Bytes portion() const { return portion_; }

  // Without the parts of the portion.
  void drop_portion();

  // Of the portion's bytes, those that go to a file.
  [[nodiscard]] Bytes in_file() const;
  // The contents of the portion are in the store when it returns.
  Status save(HostStore& store, std::string* why);
  // And back, those of all portions. After an error nothing is known of the pages; call it
  // again. Sets `why` if the store cannot be read.
  Status restore(HostStore& store, const Wanted& wanted, std::string* why);
  void clear();

 private:
  [[nodiscard]] Bytes bytes() const;
  template <typename Each>
  Status each_part(const SavedChunk& chunk, Each each) const;
  template <typename Visit>
  bool each_chunk_of_portion(Visit visit) const;

  const Driver& driver_;
  const CUcontext context_;
  Parts parts_;
  SavedBytes saved_;
  Bytes portion_ = 0;  // where the last portion begins
  CopyStream& stream_;
};

}  // namespace custash
