// SPDX-License-Identifier: MIT
// Memory that leaves the process: handles for other processes, DMA-BUF descriptors.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/observe/report_library.hpp"

#include <cstdio>
#include <cstring>

namespace custash::handlers {
namespace {

void tell_refusal(const char* call, CUdeviceptr address, const char* reason) {
  char line[160];
  std::snprintf(line,
                sizeof line,
                "event=export_refused call=%s address=0x%llx reason=\"%s\"",
                call,
                static_cast<unsigned long long>(address),
                reason);
  log(LogLevel::Error, line);
}

Bytes size_of(const CUipcMemHandle& handle) {
  ipc::Handle ours;
  std::memcpy(&ours, &handle, sizeof ours);
  return ours.size;
}

// Until the first close of the address.
void count_imported(Allocator& core, CUdeviceptr address, Bytes bytes) {
  using Ask = CUresult(CUdeviceptr*, std::size_t*, CUdeviceptr);
  static auto* const ask = reinterpret_cast<Ask*>(real::symbol("cuMemGetAddressRange_v2"));
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (bytes == 0 && ask != nullptr) (void)ask(nullptr, &bytes, address);
  if (bytes == 0 || core.driver().ctx_get_current(&context) != CUDA_SUCCESS ||
      core.driver().ctx_get_device(&device) != CUDA_SUCCESS)
    return;
  passed::table().began(passed::Kind::Imported, address, bytes, context, device);
  reports::made(passed::Kind::Imported, address, bytes);
}

template <typename Real>
CUresult open_handle(Real real, CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  Allocator* const core = process::core();
  const bool ours = core != nullptr && ipc::is_ours(handle);
  const CUresult result =
      ours
          ? ipc::open(*core, handle, flags, out)
          : hooks::retry_after_trim(real, [&](auto* call) { return call(out, handle, flags); });
  if (result == CUDA_SUCCESS && core != nullptr)
    count_imported(*core, *out, ours ? size_of(handle) : 0);
  return result;
}

}  // namespace

// The driver would make a handle of the whole segment, and the importer would get a wrong
// address. As with the driver, an address inside a block means the block.
CUresult ipc_get_mem_handle(Real<CUipcMemHandle*, CUdeviceptr> real,
                            NullStream,
                            CUipcMemHandle* out,
                            CUdeviceptr address) {
  BlockInfo block;
  switch (find_block(address, &block)) {
    case Ownership::Foreign:
      return real(out, address);
    case Ownership::Cached:
      return real(out, kNowhere);
    case Ownership::Live:
      break;
  }
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = ipc::make_handle(*process::core(), block, out);
  if (result == CUDA_ERROR_NOT_SUPPORTED)
    tell_refusal("cuIpcGetMemHandle", address, "no descriptors for pages, or no service");
  return result;
}

CUresult ipc_open_mem_handle(Real<CUdeviceptr*, CUipcMemHandle, unsigned> real,
                             NullStream,
                             CUdeviceptr* out,
                             CUipcMemHandle handle,
                             unsigned flags) {
  return open_handle(real, out, handle, flags);
}

CUresult ipc_close_mem_handle(Real<CUdeviceptr> real, NullStream, CUdeviceptr address) {
  Allocator* const core = process::core();
  CUresult result = CUDA_SUCCESS;
  if (core == nullptr || !ipc::close(*core, address, &result)) result = real(address);
  if (result == CUDA_SUCCESS && passed::table().ended(passed::Kind::Imported, address))
    reports::ended(passed::Kind::Imported, address);
  return result;
}

// The receiver may keep the descriptor after this process has closed its own, and cannot be
// queried. So the block counts as open until its free. Then its pages leave this process, and
// the descriptor keeps the memory.
CUresult handle_for_address_range(Real<void*, CUdeviceptr, Count, int, unsigned long long> real,
                                  NullStream,
                                  void* out,
                                  CUdeviceptr address,
                                  Count bytes,
                                  int type,
                                  unsigned long long flags) {
  BlockInfo block;
  const Ownership owner = find_block(address, &block);
  const bool foreign = owner == Ownership::Foreign && process::core() != nullptr;
  const KeepAwake awake(owner == Ownership::Live || (foreign && handle_table().any_mapped())
                            ? process::core()
                            : nullptr);
  if (foreign) handle_table().stays_at(address, bytes);
  const CUresult result =
      real(out, owner == Ownership::Cached ? kNowhere : address, bytes, type, flags);
  if (owner != Ownership::Live || result != CUDA_SUCCESS) return result;
  ExportedBlock pinned;
  PeerProcesses outside(*process::core());
  (void)outside.pin(block.base, block.buffer_id, &pinned);
  if (holds(Rule::dma_bufs_are_of_quiet_memory))
    outside.quiet(block.base).ignore();  // the next call that synchronises reports it
  return result;
}

CUresult pool_export_pointer(Real<void*, CUdeviceptr> real,
                             NullStream,
                             void* out,
                             CUdeviceptr address) {
  if (find_block(address, nullptr) == Ownership::Foreign) return real(out, address);
  tell_refusal("cuMemPoolExportPointer", address, "it is of no pool of the driver's");
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace custash::handlers
