// SPDX-License-Identifier: MIT
#include "allocator/heap/pool.hpp"

namespace custash {

Pool& PoolList::add() {
  const std::size_t number = all_.size();
  small_.expect(number);
  large_.expect(number);
  all_.push_back(std::make_unique<Pool>(stats_,
                                        refaults_,
                                        slabs_after_,
                                        PoolMember{&small_, number},
                                        PoolMember{&large_, number}));
  return *all_.back();
}

}  // namespace custash
