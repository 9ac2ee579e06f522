// SPDX-License-Identifier: MIT
// Shares blocks with other processes: the work behind cuIpc*Mem*. A handle names the exporter's
// service (service.hpp). The service gives an importer descriptors of the memory, or one of the
// driver's own handles. Thread safe.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/service/service.hpp"

#include <array>
#include <cstdint>

#include <cuda.h>

namespace custash::ipc {

// CUipcMemHandle as custash fills it. A block has the same handle each time, and no other block
// ever gets it. The service shares only blocks of which the other process has a handle.
struct Handle {
  std::array<char, 8> magic;
  std::int32_t pid;
  std::uint32_t zero;
  std::uint64_t nonce;  // of the exporter's service
  std::uint64_t id;     // of the block
  std::uint64_t base;
  std::uint64_t size;
  service::Secret secret;  // of the exporter's service

  [[nodiscard]] service::Identity exporter() const { return {pid, nonce}; }
};

static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));

inline constexpr std::array<char, 8> kMagic = {'c', 'u', 's', 't', 'a', 's', 'h', '1'};

// The exporter's answer about a block ("share"). The importer then asks for the descriptors of
// the pages.
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
service::Run share;
service::Run pages;
service::Run unshare;
service::Run leave;
void session_ended(const service::Session& session);

// ---- Importing (ipc_import.cpp).

// Whether custash made the handle.
bool is_ours(const CUipcMemHandle& handle);
// Opens into the current context: at the same address each time, until it is closed as often.
CUresult open(Allocator& core, const CUipcMemHandle& handle, unsigned flags, CUdeviceptr* out);
// False: no memory opened here begins there.
bool close(Allocator& core, CUdeviceptr address, CUresult* result);
// The opened block that holds the address; info may be null.
bool find(Address address, BlockInfo* info);
// To be called before the driver ends the context: closes all that is open in it.
void context_ends(Allocator& core, CUcontext context);
void after_fork_in_child() noexcept;

}  // namespace custash::ipc
