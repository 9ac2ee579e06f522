// SPDX-License-Identifier: MIT
// Blocks of this process for others, and others' for this one: what stands behind cuIpc*Mem*. A
// handle names the exporter's service (service.hpp), which tells an importer by which
// descriptors or by which of the driver's own handles it comes to the memory. Thread safe.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/service/service.hpp"

#include <array>
#include <cstdint>

#include <cuda.h>

namespace custash::ipc {

// CUipcMemHandle as we fill it. The same block has the same handle each time, and no other ever
// has it.
struct Handle {
  std::array<char, 8> magic;
  std::int32_t pid;
  std::uint32_t zero;
  std::uint64_t nonce;  // of the exporter's service
  std::uint64_t id;     // of the block
  std::uint64_t base;
  std::uint64_t size;
  std::array<std::uint64_t, 2> rest;  // zeros

  [[nodiscard]] service::Identity exporter() const { return {pid, nonce}; }
};

static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));

inline constexpr std::array<char, 8> kMagic = {'c', 'u', 's', 't', 'a', 's', 'h', '1'};

// What the exporter says of a block ("share"); the pages' descriptors are asked for after it.
struct Share {
  std::uint64_t page_count = 0;  // 0: plain memory, see `plain`
  std::uint64_t mapped = 0;      // the pages' bytes
  std::uint64_t offset = 0;  // of the block in its first page, or in the driver's allocation
  std::uint64_t size = 0;    // as its owner asked for it
  CUipcMemHandle plain = {};
};

// ---- Exporting (ipc_export.cpp).

// `block`: a live one of ours. Starts the service.
CUresult make_handle(Allocator& core, const BlockInfo& block, CUipcMemHandle* out);

// Verbs of the service.
void share(Allocator& core,
           service::Session& session,
           std::string_view arguments,
           service::Answer* answer);
void pages(Allocator& core,
           service::Session& session,
           std::string_view arguments,
           service::Answer* answer);
void unshare(Allocator& core,
             service::Session& session,
             std::string_view arguments,
             service::Answer* answer);
void leave(Allocator& core,
           service::Session& session,
           std::string_view arguments,
           service::Answer* answer);
void session_ended(const service::Session& session);

// ---- Importing (ipc_import.cpp).

// Whether it is a handle of custash's at all.
bool is_ours(const CUipcMemHandle& handle);
// Into the current context; the same address each time, until it is closed as often.
CUresult open(Allocator& core, const CUipcMemHandle& handle, unsigned flags, CUdeviceptr* out);
// False: no memory that was opened here begins there.
bool close(Allocator& core, CUdeviceptr address, CUresult* result);
// The opened block that holds the address; info may be null.
bool find(Address address, BlockInfo* info);
// Before the driver ends it: what it has open is closed.
void context_ends(Allocator& core, CUcontext context);
void after_fork_in_child() noexcept;

}  // namespace custash::ipc
