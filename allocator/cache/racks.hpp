// SPDX-License-Identifier: MIT
// Racks: all racks of one cache, whose lock guards this. Rack objects are used again, never
// freed.
#pragma once

#include "allocator/cache/rack.hpp"

#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace custash {

class Racks {
 public:
  // The calling thread's for that lane.
  Rack* get(DeviceCache* cache, Lane* lane, Pool* pool);

  // Its thread ends: nothing is in it. / The stream has gone: the thread's next stream gets it.
  void retire(Rack* rack);
  void detach(const Lane* lane);

  // Those that may hold something, or that have something to count; their threads keep out of
  // them until each is given back.
  std::vector<Rack*> take_used();
  static void give_back(Rack* rack);

  // Of threads and streams that live.
  [[nodiscard]] std::size_t count() const { return by_owner_.size(); }

 private:
  std::deque<Rack> all_;
  std::map<std::pair<const void*, const Lane*>, Rack*> by_owner_;
  std::vector<Rack*> idle_;
};

}  // namespace custash
