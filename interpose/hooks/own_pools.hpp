// SPDX-License-Identifier: MIT
// Own pools: the memory pools that the program made and custash serves (option pools:auto), and
// default pools from the first question about their use on.
// The driver knows each pool, too, and answers what is not about its memory. What custash
// cannot keep for a pool makes it the driver's from then on. State: a table by the number of
// the pool's account. Own lock for queries of the pools' use.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/accounts.hpp"

#include <optional>

namespace custash::own_pools {

// The driver has made the pool. Kept only where custash can serve it.
void made(Allocator& core, CUmemoryPool pool, const CUmemPoolProps& properties);

// A default pool: what it allocates from now on is counted. `context`: where it has served.
void adopt(Allocator& core, CUmemoryPool pool, CUdevice device, CUcontext context);

// An allocation from that pool. nullopt: the driver's to serve.
std::optional<Status> allocate(Allocator& core,
                               CUmemoryPool pool,
                               CUstream stream,
                               NullStream null,
                               Bytes bytes,
                               Address* out);
// The same from the device's current pool, where that is one of these.
std::optional<Status> allocate_current(
    Allocator& core, CUstream stream, NullStream null, Bytes bytes, Address* out);

// Whether the pool is one of these, served by custash or not.
bool is_own(CUmemoryPool pool);
// The handle of the pool that the account is of, also once the pool is destroyed.
CUmemoryPool pool_of(Accounts::Number account);

// The driver has taken these calls for the pool. `older`: what is still in use of a default
// pool from before it was counted.
void attribute_set(Allocator& core,
                   CUmemoryPool pool,
                   CUmemPool_attribute attribute,
                   const void* value,
                   Bytes older);
void access_set(Allocator& core,
                CUmemoryPool pool,
                const CUmemAccessDesc* list,
                std::size_t count);
void trimmed(Allocator& core, CUmemoryPool pool, Bytes keep, Bytes older);
// What custash adds to the driver's answer to this question about use.
Bytes use(Allocator& core, CUmemoryPool pool, CUmemPool_attribute attribute, Bytes older);

// Before the driver's call no allocation is served any more; after it, `destroyed` says whether
// it succeeded.
Accounts::Number destroying(CUmemoryPool pool);
void destroyed(Allocator& core, Accounts::Number account, CUmemoryPool pool, bool destroyed);

void context_ended(Allocator& core, CUcontext context);

}  // namespace custash::own_pools
