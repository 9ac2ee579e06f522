// SPDX-License-Identifier: MIT
// The exporter's side. Only the service's thread knows which blocks importers hold.
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/sleep.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/process/process.hpp"
#include "interpose/real/real_driver.hpp"

#include <charconv>
#include <cstring>
#include <map>
#include <unordered_map>

namespace custash::ipc {
namespace {

using service::Answer;
using service::ReplyStatus;
using service::Session;

// Blocks that one importer has open.
struct Held {
  ExportedBlock block;
  unsigned times = 0;
};

using Holdings = std::map<std::uint64_t, Held>;  // by the block's id

// Never destroyed: the thread outlives static destructors.
std::unordered_map<std::uint64_t, Holdings>& sessions() {
  static auto* const all = new std::unordered_map<std::uint64_t, Holdings>;
  return *all;
}

// "HEX HEX"
bool read_two(std::string_view text, std::uint64_t* first, std::uint64_t* second) {
  const char* const end = text.data() + text.size();
  const auto one = std::from_chars(text.data(), end, *first, 16);
  if (one.ec != std::errc() || one.ptr == end || *one.ptr != ' ') return false;
  const auto two = std::from_chars(one.ptr + 1, end, *second, 16);
  return two.ec == std::errc() && two.ptr == end;
}

Held* find(const Session& session, std::uint64_t id) {
  const auto holdings = sessions().find(session.id);
  if (holdings == sessions().end()) return nullptr;
  const auto held = holdings->second.find(id);
  return held == holdings->second.end() ? nullptr : &held->second;
}

CUresult driver_handle(Allocator& core, const ExportedBlock& block, CUipcMemHandle* out) {
  auto* const call =
      real::function<CUresult(CUipcMemHandle*, CUdeviceptr)>(Entry::hook_cuIpcGetMemHandle);
  const CurrentContext current(core.driver(), block.context);
  if (call == nullptr || !current.status().ok()) return CUDA_ERROR_NOT_SUPPORTED;
  return call(out, block.segment);
}

int descriptor_of(const Page& page) {
  using Export = CUresult(
      void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long);
  static auto* const call =
      reinterpret_cast<Export*>(real::symbol("cuMemExportToShareableHandle"));
  int fd = -1;
  if (call == nullptr ||
      call(&fd, page.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
    return -1;
  return fd;
}

bool pages_have_descriptors(Allocator& core, CUdevice device) {
  int value = 0;
  return core.driver().device_get_attribute(
             &value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) ==
             CUDA_SUCCESS &&
         value != 0;
}

bool describe(Allocator& core, const ExportedBlock& block, Share* out) {
  out->size = block.requested;
  if (block.segment != 0) {
    out->offset = block.base - block.segment;
    return driver_handle(core, block, &out->plain) == CUDA_SUCCESS;
  }
  out->offset = block.base - block.pages.front().address;
  out->page_count = block.pages.size();
  for (const Page& page : block.pages)
    out->mapped += page.size;
  return true;
}

}  // namespace

CUresult make_handle(Allocator& core, const BlockInfo& block, CUipcMemHandle* out) {
  ExportedBlock pinned;
  if (!PeerProcesses(core).pin(block.base, block.buffer_id, &pinned))
    return CUDA_ERROR_INVALID_VALUE;
  PeerProcesses(core).unpin(pinned);
  const bool possible = pinned.segment != 0 || pages_have_descriptors(core, pinned.device);
  if (!possible || !service::start()) return CUDA_ERROR_NOT_SUPPORTED;
  if (holds(Rule::exported_handles_are_of_quiet_memory)) {
    const Status quiet = PeerProcesses(core).quiet(block.base);
    if (!quiet.ok()) return quiet.code();
  }
  const service::Identity self = service::identity();
  const Handle handle{
      kMagic, self.pid, 0, self.nonce, block.buffer_id, block.base, block.requested, {}};
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

// "share ID BASE": the importer has the block open from now on; the answer is a Share.
void share(Allocator& core, Session& session, std::string_view arguments, Answer* answer) {
  std::uint64_t id = 0;
  Address base = 0;
  answer->status = ReplyStatus::BadArguments;
  if (!read_two(arguments, &id, &base)) return;
  Share told;
  answer->text.resize(sizeof told);  // whatever may throw comes before the pin
  Holdings& holdings = sessions()[session.id];
  Held& held = holdings[id];
  session.holds = true;
  ExportedBlock block;
  const KeepAwake awake(&core);  // the block stays awake from the pin on
  const bool pinned = id != 0 && PeerProcesses(core).pin(base, id, &block);
  if (pinned && describe(core, block, &told)) {
    held.block = std::move(block);
    ++held.times;
    std::memcpy(answer->text.data(), &told, sizeof told);
    answer->status = ReplyStatus::Done;
    return;
  }
  if (pinned) PeerProcesses(core).unpin(block);
  if (held.times == 0) holdings.erase(id);
  answer->text.clear();
  answer->status = ReplyStatus::Refused;
}

// "pages ID FIRST": descriptors of the pages from that number on, as many as one packet
// takes; the text is their sizes, eight bytes each.
void pages(Allocator& core, Session& session, std::string_view arguments, Answer* answer) {
  std::uint64_t id = 0;
  std::uint64_t first = 0;
  answer->status = ReplyStatus::BadArguments;
  if (!read_two(arguments, &id, &first)) return;
  answer->status = ReplyStatus::Refused;
  const Held* const held = find(session, id);
  if (held == nullptr || held->times == 0 || first >= held->block.pages.size() ||
      !PeerProcesses::is_pinned(held->block))
    return;
  const CurrentContext current(core.driver(), held->block.context);
  const auto& all = held->block.pages;
  for (std::size_t i = first; i < all.size() && answer->files.size() < service::kMaxFiles;
       ++i) {
    const int fd = descriptor_of(all[i]);
    if (fd < 0) return;  // what is there so far is closed by the service
    answer->files.push_back(fd);
    const std::uint64_t size = all[i].size;
    answer->text.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  answer->status = ReplyStatus::Done;
}

// "unshare ID BASE"
void unshare(Allocator& core, Session& session, std::string_view arguments, Answer* answer) {
  std::uint64_t id = 0;
  Address base = 0;
  answer->status = ReplyStatus::BadArguments;
  if (!read_two(arguments, &id, &base)) return;
  Held* const held = find(session, id);
  answer->status =
      held == nullptr || held->times == 0 ? ReplyStatus::Refused : ReplyStatus::Done;
  if (answer->status != ReplyStatus::Done) return;
  PeerProcesses(core).unpin(held->block);
  if (--held->times == 0) sessions()[session.id].erase(id);
}

// "bye": the importer has closed all, and the end of its connection is not the end of a
// process.
void leave(Allocator&, Session& session, std::string_view, Answer*) {
  session.leaving = true;
}

void session_ended(const Session& session) {
  const auto holdings = sessions().find(session.id);
  if (holdings == sessions().end()) return;
  if (Allocator* const core = process::core()) {
    for (const auto& [id, held] : holdings->second)
      for (unsigned i = 0; i < held.times; ++i)
        PeerProcesses(*core).unpin(held.block);
  }
  sessions().erase(holdings);
}

}  // namespace custash::ipc
