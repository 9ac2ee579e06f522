// SPDX-License-Identifier: MIT
// MappedPages: where each handle of memory is mapped. A page that moves is mapped at its new
// place before it leaves the old one, which may stay mapped for long. It counts at its newest
// place only.
#pragma once

#include "allocator/base/units.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include <cuda.h>

namespace custash::history {

class MappedPages {
 public:
  // Each place that begins to count goes to added(address, bytes), each that ends to removed.
  template <typename Added, typename Removed>
  void map(Address address,
           Bytes bytes,
           CUmemGenericAllocationHandle handle,
           Added added,
           Removed removed) {
    (void)unmap(
        address, bytes, [](auto...) {}, [](auto...) {});  // its unmapping was not seen
    std::vector<Address>& places = places_[handle];
    if (!places.empty()) removed(places.back(), at_.at(places.back()).bytes);
    places.push_back(address);
    at_[address] = {bytes, handle};
    added(address, bytes);
  }

  // False: nothing is known to be mapped there.
  template <typename Added, typename Removed>
  bool unmap(Address begin, Bytes bytes, Added added, Removed removed) {
    auto at = at_.lower_bound(begin);
    bool known = false;
    for (; at != at_.end() && at->first - begin < bytes; at = at_.erase(at), known = true) {
      std::vector<Address>& places = places_.at(at->second.handle);
      const bool counted = places.back() == at->first;
      places.erase(std::find(places.begin(), places.end(), at->first));
      if (counted) removed(at->first, at->second.bytes);
      if (places.empty()) {
        places_.erase(at->second.handle);
      } else if (counted) {  // the move was undone
        added(places.back(), at_.at(places.back()).bytes);
      }
    }
    return known;
  }

 private:
  struct Place {
    Bytes bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
  };

  std::map<Address, Place> at_;
  std::unordered_map<CUmemGenericAllocationHandle, std::vector<Address>> places_;
};

}  // namespace custash::history
