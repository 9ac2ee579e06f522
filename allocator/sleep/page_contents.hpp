// SPDX-License-Identifier: MIT
// PageContents: the contents of sleeping pages, and the way there and back. Part of
// SleepingPages. They go in portions, since a process that sleeps in part may give more later.
// Each portion begins with a chunk of its own. Its list of parts is made under the cache lock;
// afterwards all of it belongs to the one thread that puts the process to sleep or wakes it
// (SleepGate). A part that holds one value is not copied, nor one whose copy of the last sleep
// is still there and right. decision 21
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/memory/saved_bytes.hpp"
#include "allocator/memory/sleep_sums.hpp"
#include "allocator/sleep/digests.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace custash {

class PageContents {
 public:
  // Contents of a block, or of blocks side by side, within one page. place() cuts them at each
  // multiple of Digests::kPiece, and says where they go.
  struct Part {
    std::size_t sleeper;  // whose page
    Address address;
    Bytes bytes;
    Bytes offset = 0;     // in all that is saved
    Digest digest{};      // kind None: not known
    bool copied = false;  // the copy of the last sleep is right
  };

  using Parts = std::vector<Part>;
  // Whether the page of that sleeper is still needed.
  using Wanted = std::function<bool(std::size_t sleeper)>;

  PageContents(const Driver& driver, CUcontext context, CopyStream& stream)
      : driver_(driver), context_(context), digests_(driver), stream_(stream) {}

  bool reserve(HostStore& store, Bytes bytes, std::string* why);

  void give_up(HostStore& store, Bytes keep) {
    const Bytes intact = saved_.shrink(store, context_, keep);
    std::erase_if(copies_, [&](const Part& each) { return each.offset + each.bytes > intact; });
  }

  [[nodiscard]] Bytes reserved() const { return saved_.size(); }

  [[nodiscard]] Parts& parts() { return parts_; }

  // Where the reserve must end for a portion of this many bytes. Some may be of one value: so
  // it ends where the last one did, and `again`, if place() found that too little, where it
  // must.
  [[nodiscard]] Bytes reserve_for(Bytes bytes, bool again) const;

  // There is no room for that: the next time may need less.
  void not_reserved() { end_ = 0; }

  // The parts that are added from now on are a portion.
  void begin_portion();
  // Nothing runs any more, and the context is current: decides where the parts of the portion
  // go. False: the reserve is too small, and reserve_for() tells what it takes.
  bool place(SleepSums* sums);
  // Without the parts of the portion.
  void drop_portion();

  // Of the portion's bytes, those that go to a file.
  [[nodiscard]] Bytes in_file() const;
  // The contents of the portion are in the store when it returns.
  Status save(HostStore& store, std::string* why);
  // And back, those of all portions that are wanted. They are there when wait() returns. After
  // an error nothing is known of the pages; call it again. Sets `why` if the store cannot be
  // read.
  Status restore(HostStore& store, const Wanted& wanted, std::string* why);

  Status wait() { return stream_.wait(); }

  // All of it is awake. Copies stay for the next sleep, as far as the store keeps them.
  void woken();

  void clear() {
    parts_.clear();
    of_one_value_.clear();
    portion_ = first_part_ = first_of_one_value_ = 0;
  }

 private:
  [[nodiscard]] Bytes bytes() const;

  [[nodiscard]] Bytes next() const { return saved_.next_chunk(bytes()); }

  [[nodiscard]] Parts cut_portion() const;
  bool read_digests(Parts& parts);
  void find_copies(Parts& parts) const;
  void lay_out(Parts& parts);
  template <typename Taken, typename Each>
  Status each_run(const SavedChunk& chunk, Taken taken, Each each) const;
  template <typename Taken>
  [[nodiscard]] bool any(const SavedChunk& chunk, Taken taken) const;
  template <typename Visit>
  bool each_chunk_of_portion(Visit visit) const;

  const Driver& driver_;
  const CUcontext context_;
  Parts parts_;         // by offset; those of the portion as they come, until place()
  Parts of_one_value_;  // these are not saved
  Parts copies_;        // of the last sleep, by address
  SavedBytes saved_;
  Bytes portion_ = 0;           // where the last portion begins
  std::size_t first_part_ = 0;  // and its parts
  std::size_t first_of_one_value_ = 0;
  Bytes end_ = 0;  // where the portion ended that was placed last
  Digests digests_;
  CopyStream& stream_;
};

}  // namespace custash
