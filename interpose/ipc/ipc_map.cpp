// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "allocator/base/scope.hpp"
#include "interpose/ipc/ipc_map.hpp"
#include "interpose/process/descriptors.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace custash::ipc {
namespace {

// Long enough for an exporter that is stopped for a while, or is just releasing gigabytes.
constexpr int kPatience = 10'000;

template <typename... Params>
using Call = CUresult (*)(Params...);

// The driver's functions that importing needs beside the core's own table.
struct Calls {
  Call<CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType> import_handle;
  Call<CUmemAllocationProp*, CUmemGenericAllocationHandle> properties;
  Call<CUdeviceptr*, CUipcMemHandle, unsigned> open;
  Call<CUdeviceptr> close;

  template <typename Fn>
  static void find(Fn* out, const char* name) {
    *out = reinterpret_cast<Fn>(real::symbol(name));
  }

  Calls() {
    find(&import_handle, "cuMemImportFromShareableHandle");
    find(&properties, "cuMemGetAllocationPropertiesFromHandle");
    find(&open, "cuIpcOpenMemHandle_v2");
    if (open == nullptr) find(&open, "cuIpcOpenMemHandle");
    find(&close, "cuIpcCloseMemHandle");
  }
};

const Calls& calls() {
  static const Calls all;
  return all;
}

std::string request(std::string verb, std::initializer_list<std::uint64_t> words) {
  for (const std::uint64_t word : words) {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), " %llx", static_cast<unsigned long long>(word));
    verb += text.data();
  }
  return verb;
}

void unshare(const Handle& handle, Peer& peer) {
  (void)peer.ask(request("unshare", {handle.id, handle.base}));
}

// The pages of a block, mapped one after the other. The destructor unmaps them unless keep()
// was called.
class Pages {
 public:
  Pages(const Driver& driver, Bytes bytes) : driver_(driver), bytes_(bytes) {}

  ~Pages() {
    if (kept_ || start_ == 0) return;
    if (mapped_ != 0) Status(driver_.mem_unmap(start_, mapped_)).ignore();
    Status(driver_.mem_address_free(start_, bytes_)).ignore();
  }

  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  Status reserve() { return driver_.mem_address_reserve(&start_, bytes_, 2_MiB, 0, 0); }

  Status add(int file, Bytes size) {
    CUmemGenericAllocationHandle page = 0;
    Status status =
        calls().import_handle(&page,
                              reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (!status.ok()) return status;
    CUmemAllocationProp properties{};
    if (calls().properties != nullptr && calls().properties(&properties, page) == CUDA_SUCCESS)
      owner_ = properties.location.id;
    status = size > bytes_ - mapped_
                 ? Status(CUDA_ERROR_INVALID_VALUE)
                 : Status(driver_.mem_map(start_ + mapped_, size, 0, page, 0));
    if (status.ok()) mapped_ += size;
    // The mapping keeps it.
    const Status released = driver_.mem_release(page);
    return status.ok() ? released : status;
  }

  // Access for the device that opens it, and for the device of the memory. That is -2 where
  // this process does not see it.
  Status give_access(CUdevice device) const {
    std::array<CUmemAccessDesc, 2> access{};
    std::size_t count = 0;
    for (const CUdevice each : {device, owner_}) {
      if (each < 0 || (count == 1 && each == device)) continue;
      access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access[count].location.id = each;
      access[count++].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return driver_.mem_set_access(start_, bytes_, access.data(), count);
  }

  [[nodiscard]] bool complete() const { return mapped_ == bytes_; }

  CUdeviceptr keep() {
    kept_ = true;
    return start_;
  }

 private:
  const Driver& driver_;
  const Bytes bytes_;
  CUdeviceptr start_ = 0;
  Bytes mapped_ = 0;
  CUdevice owner_ = -1;
  bool kept_ = false;
};

// The sizes that came with the files; empty where they do not fit together.
std::vector<std::uint64_t> sizes_in(const service::Reply& reply) {
  std::vector<std::uint64_t> sizes(reply.files.size());
  if (reply.text.size() != sizes.size() * sizeof(std::uint64_t)) return {};
  std::memcpy(sizes.data(), reply.text.data(), reply.text.size());
  return sizes;
}

// Asks for the next pages and hands them on; how many there were.
template <typename Each>
Status next_pages(
    const Handle& handle, Peer& peer, std::uint64_t first, std::uint64_t* count, Each each) {
  const service::Reply reply = peer.ask(request("pages", {handle.id, first}));
  const std::vector<std::uint64_t> sizes = sizes_in(reply);
  Status status = reply.done() && !sizes.empty() ? Status() : CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; status.ok() && i < sizes.size(); ++i)
    status = each(reply.files[i], sizes[i]);
  for (const int file : reply.files)
    ::close(file);
  *count = sizes.size();
  return status;
}

Status map_pages(
    Allocator& core, const Handle& handle, const Share& share, Peer& peer, Mapping* out) {
  const Driver& driver = core.driver();
  if (!driver.has_vmm() || calls().import_handle == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUdevice device = 0;
  Status status = driver.ctx_get_device(&device);
  if (!status.ok()) return status;
  const Bytes bytes = share.mapped;
  Pages pages(driver, bytes);
  status = pages.reserve();
  std::uint64_t count = 0;
  for (std::uint64_t first = 0; status.ok() && first < share.page_count; first += count) {
    status = next_pages(handle, peer, first, &count, [&](int file, Bytes size) {
      return pages.add(file, size);
    });
  }
  if (status.ok() && !pages.complete()) status = CUDA_ERROR_INVALID_VALUE;
  if (status.ok()) status = pages.give_access(device);
  if (!status.ok()) return status;
  out->start = pages.keep();
  out->size = bytes;
  return status;
}

}  // namespace

Peer::~Peer() {
  if (!has_link()) return;
  (void)link_.send("bye");
  descriptors().drop(link_.fd());
}

void Peer::connect(service::Deadline until) {
  link_ = service::Connection(who_, until);
  if (link_.open()) link_.renumber(descriptors().keep(link_.fd()));
}

// Either program may have closed its end, and this one's number may mean another file now. The
// exporter then keeps what was opened until this process ends.
bool Peer::has_link() {
  if (!link_.open()) return false;
  const bool ours = descriptors().is_own(link_.fd());
  if (ours && !link_.ended()) return true;
  descriptors().drop(link_.fd());
  if (!ours) link_.renumber(-1);
  link_ = service::Connection();
  late_.clear();
  return false;
}

// A slow exporter (in a debugger, swapped out) keeps the connection, because its end would mean
// that nothing is open here. Answers come in order, so late ones are read first.
service::Reply Peer::ask(std::string_view request) {
  const RankedLock lock(mutex_);
  const service::Deadline until = service::in_milliseconds(kPatience);
  if (!has_link()) connect(until);
  if (!hear_late_ones(until)) return {};
  late_.emplace_back(request);
  service::Reply reply;
  const bool sent = link_.send(request);
  if (sent) reply = link_.receive(until);
  if (!sent || reply.heard) late_.pop_back();
  return reply;
}

bool Peer::hear_late_ones(service::Deadline until) {
  while (!late_.empty()) {
    const service::Reply reply = link_.receive(until);
    if (!reply.heard) return false;
    for (const int file : reply.files)
      ::close(file);
    constexpr std::string_view kShare = "share ";
    const std::string late = std::move(late_.front());
    late_.pop_front();
    // No thread here waits for that block any more.
    if (reply.done() && late.starts_with(kShare)) {
      late_.push_back("un" + late);
      if (!link_.send(late_.back())) late_.pop_back();
    }
  }
  return true;
}

CUresult map(Allocator& core,
             const Handle& handle,
             unsigned flags,
             const std::shared_ptr<Peer>& peer,
             Mapping* out) {
  const service::Reply reply =
      peer->ask(request("share", {handle.id, handle.base, handle.secret[0], handle.secret[1]}));
  Share share;
  if (!reply.done() || reply.text.size() != sizeof share) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(&share, reply.text.data(), sizeof share);
  out->peer = peer;
  Status status;
  {
    const RelaxedCapture relaxed(core.driver());
    if (share.page_count != 0) {
      status = map_pages(core, handle, share, *peer, out);
    } else {
      status = calls().open == nullptr ? Status(CUDA_ERROR_NOT_SUPPORTED)
                                       : Status(calls().open(&out->start, share.plain, flags));
    }
  }
  out->block = out->start + share.offset;
  out->requested = share.size;
  if (!status.ok()) unshare(handle, *peer);
  return status.code();
}

CUresult unmap(Allocator& core,
               const Handle& handle,
               CUcontext context,
               const Mapping& mapping) {
  const Driver& driver = core.driver();
  Status status;
  {
    const CurrentContext current(driver, context);
    const RelaxedCapture relaxed(driver);
    if (mapping.size == 0) {
      status = calls().close(mapping.start);
    } else {
      if (current.status().ok()) status = driver.ctx_synchronize();
      if (status.code() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return status.code();
      const Status unmapped = driver.mem_unmap(mapping.start, mapping.size);
      const Status freed =
          unmapped.ok() ? driver.mem_address_free(mapping.start, mapping.size) : unmapped;
      if (status.ok()) status = freed;
    }
  }
  unshare(handle, *mapping.peer);
  return status.code();
}

}  // namespace custash::ipc
