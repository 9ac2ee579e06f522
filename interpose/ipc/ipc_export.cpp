// SPDX-License-Identifier: MIT
// The exporter's side. Only the service's thread knows which blocks importers hold.
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/process/process.hpp"
#include "interpose/real/real_driver.hpp"

#include <array>
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

// "HEX HEX", as many as are asked for.
template <std::size_t kCount>
bool read_words(std::string_view text, std::array<std::uint64_t, kCount>* out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint64_t& word : *out) {
    if (&word != out->data() && (at == end || *at++ != ' ')) return false;
    const auto read = std::from_chars(at, end, word, 16);
    if (read.ec != std::errc()) return false;
    at = read.ptr;
  }
  return at == end;
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
  ExportedBlock offered;
  if (!PeerProcesses(core).offer(block.base, block.buffer_id, &offered))
    return CUDA_ERROR_INVALID_VALUE;
  const bool possible = offered.segment != 0 || pages_have_descriptors(core, offered.device);
  if (!possible || !service::start()) return CUDA_ERROR_NOT_SUPPORTED;
  if (holds(Rule::exported_handles_are_of_quiet_memory)) {
    const Status quiet = PeerProcesses(core).quiet(block.base);
    if (!quiet.ok()) return quiet.code();
  }
  const service::Identity self = service::identity();
  const Handle handle{kMagic,
                      self.pid,
                      0,
                      self.nonce,
                      block.buffer_id,
                      block.base,
                      block.requested,
                      service::secret()};
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

// "share ID BASE SECRET SECRET": the importer has the block open from now on; the answer is a
// Share. The block must have a handle, and the importer must know what is in it: processes of
// this user may ask for nothing else.
void share(Allocator& core, Session& session, std::string_view arguments, Answer* answer) {
  std::array<std::uint64_t, 4> words{};
  answer->status = ReplyStatus::BadArguments;
  if (!read_words(arguments, &words)) return;
  const auto [id, base, first, second] = words;
  const service::Secret secret = service::secret();
  answer->status = ReplyStatus::Refused;
  if (((first ^ secret[0]) | (second ^ secret[1])) != 0) return;
  Share told;
  answer->text.resize(sizeof told);  // whatever may throw comes before the pin
  Holdings& holdings = sessions()[session.id];
  Held& held = holdings[id];
  session.holds = true;
  ExportedBlock block;
  const KeepAwake awake(&core);  // the block stays awake from the pin on
  const bool pinned = id != 0 && PeerProcesses(core).pin(base, id, &block);
  bool described = false;
  if (pinned && block.offered) {
    const PeerProcesses::HandingOver handing(block);
    described = handing.begun() && describe(core, block, &told);
  }
  if (described) {
    held.block = std::move(block);
    ++held.times;
    std::memcpy(answer->text.data(), &told, sizeof told);
    answer->status = ReplyStatus::Done;
    return;
  }
  if (pinned) PeerProcesses(core).unpin(block);
  if (held.times == 0) holdings.erase(id);
  answer->text.clear();
}

// "pages ID FIRST": descriptors of the pages from that number on, as many as one packet
// takes; the text is their sizes, eight bytes each.
void pages(Allocator& core, Session& session, std::string_view arguments, Answer* answer) {
  std::array<std::uint64_t, 2> words{};
  answer->status = ReplyStatus::BadArguments;
  if (!read_words(arguments, &words)) return;
  const auto [id, first] = words;
  answer->status = ReplyStatus::Refused;
  const Held* const held = find(session, id);
  if (held == nullptr || held->times == 0 || first >= held->block.pages.size()) return;
  const PeerProcesses::HandingOver handing(held->block);
  if (!handing.begun()) return;
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
  std::array<std::uint64_t, 2> words{};
  answer->status = ReplyStatus::BadArguments;
  if (!read_words(arguments, &words)) return;
  Held* const held = find(session, words[0]);
  answer->status =
      held == nullptr || held->times == 0 ? ReplyStatus::Refused : ReplyStatus::Done;
  if (answer->status != ReplyStatus::Done) return;
  PeerProcesses(core).unpin(held->block);
  if (--held->times == 0) sessions()[session.id].erase(words[0]);
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
