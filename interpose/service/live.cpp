// SPDX-License-Identifier: MIT
#include "interpose/service/live.hpp"

#include "allocator/base/scope.hpp"
#include "allocator/sleep/idle_memory.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/process/device_scope.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/process.hpp"
#include "interpose/real/real_driver.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/room.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace custash::live {
namespace {

constinit Page current{};  // what the verb answers; the service's thread alone
constinit std::atomic<Page*> shared{nullptr};
constinit char path[128] = {};          // empty: no file
constinit std::atomic<pid_t> owner{0};  // whose the file is; 0: there is none, or no more
constinit std::atomic<bool> ended{false};

void name_program(char* out, std::size_t room) {
  const int fd = ::open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? 0 : read(fd, out, room - 1);
  if (fd >= 0) ::close(fd);
  out[std::max<ssize_t>(size, 0)] = '\0';
  out[std::strcspn(out, "\n")] = '\0';
}

void* map_file(const char* at) {
  const int fd = output::create(at);
  if (fd < 0) return MAP_FAILED;
  void* memory = MAP_FAILED;
  // ftruncate alone is not enough: where a full tmpfs has no page, a write raises SIGBUS.
  if (posix_fallocate(fd, 0, sizeof(Page)) == 0)
    memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) (void)unlink(at);
  return memory;
}

// A device's identity, the same in all processes.
void read_bus(DevicePart* part) {
  using Ask = CUresult(char*, int, CUdevice);
  static auto* const ask = reinterpret_cast<Ask*>(real::symbol("cuDeviceGetPCIBusId"));
  if (ask == nullptr ||
      ask(part->bus, sizeof part->bus, static_cast<CUdevice>(part->device)) != CUDA_SUCCESS)
    part->bus[0] = '\0';
}

void read_device(Allocator& core, int device, DevicePart* part) {
  constexpr auto kAll = static_cast<std::size_t>(StatPool::All);
  const DeviceStats stats = core.stats(device);
  part->device = device;
  std::size_t total = 0;
  if (core.driver().device_total_mem(&total, device) == CUDA_SUCCESS)
    part->total_bytes = static_cast<std::int64_t>(total);
  if (part->bus[0] == '\0') read_bus(part);
  if (part->uuid[0] == '\0')
    neighbours::uuid_of(device).copy(part->uuid, sizeof part->uuid - 1);
  part->allocated_bytes = stats.allocated_bytes[kAll].current;
  part->allocated_peak = stats.allocated_bytes[kAll].peak;
  part->reserved_bytes = stats.reserved_bytes[kAll].current;
  part->limbo_bytes = stats.limbo_bytes;
  part->allocations = stats.allocation[kAll].allocated;
  part->requested_bytes = stats.requested_bytes[kAll].allocated;
  part->frees = stats.allocation[kAll].freed;
  part->driver_calls = stats.num_device_alloc + stats.num_device_free;
  part->pages_moved = stats.num_pages_moved;
  part->gpu_waits = stats.num_debt_waits;
  part->free_waits = stats.num_free_waits;
  part->stalls_avoided = std::max<std::int64_t>(0, part->frees - stats.num_free_waits);
  part->ooms = stats.num_ooms;
  const passed::OnDevice by_driver = passed::table().live_on(device);
  part->by_driver_bytes = static_cast<std::int64_t>(by_driver.bytes);
  part->imported_bytes = static_cast<std::int64_t>(by_driver.imported);
  part->asleep_bytes = stats.asleep_bytes;
  // A process with neighbours:off gives nothing.
  const bool gives = core.config().neighbours && stats.reserved_bytes[kAll].current != 0;
  part->spare_bytes = static_cast<std::int64_t>(gives ? IdleMemory(core).spare(device) : 0);
}

// The number is odd while the rest is written. A reader that sees the same even number twice
// has a complete page. Order: the fence keeps the rest behind the odd number, and the release
// store keeps it before the even one.
void publish() {
  Page* const page = shared.load();
  if (page == nullptr) return;
  std::atomic_ref<std::uint64_t> sequence(page->sequence);
  const std::uint64_t next = current.sequence + 2;
  sequence.store(next - 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  constexpr std::size_t kFrom = offsetof(Page, updated);
  std::memcpy(reinterpret_cast<char*>(page) + kFrom,
              reinterpret_cast<const char*>(&current) + kFrom,
              sizeof(Page) - kFrom);
  sequence.store(next, std::memory_order_release);
  current.sequence = next;
}

int devices_of(Allocator& core) {
  int count = 0;
  return core.driver().device_get_count(&count) == CUDA_SUCCESS ? count : 0;
}

bool is_used(Allocator& core, int device) {
  constexpr auto kAll = static_cast<std::size_t>(StatPool::All);
  const DeviceStats stats = core.stats(device);
  return stats.reserved_bytes[kAll].peak > 0 || stats.allocation[kAll].allocated > 0 ||
         passed::table().live_on(device).bytes > 0;
}

// What the driver holds for graphs, and in the default pool, which it never destroys.
void measure(Allocator& core) {
  const RelaxedCapture relaxed(core.driver());
  constexpr int kReserved = 2;  // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
  using AskGraphs = CUresult(CUdevice, int, void*);
  using AskPool = CUresult(CUmemoryPool, CUmemPool_attribute, void*);
  static auto* const graphs =
      reinterpret_cast<AskGraphs*>(real::symbol("cuDeviceGetGraphMemAttribute"));
  static auto* const ask = reinterpret_cast<AskPool*>(real::symbol("cuMemPoolGetAttribute"));
  for (int device = 0; device < devices_of(core); ++device) {
    if (!is_primary_active(core, device)) continue;
    cuuint64_t bytes = 0;
    if (graphs != nullptr && graphs(device, kReserved, &bytes) == CUDA_SUCCESS)
      passed::table().measured(passed::Kind::Graphs, device, bytes);
    CUmemoryPool pool = nullptr;
    if (ask != nullptr && real::default_pool(device, &pool) == CUDA_SUCCESS &&
        ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS)
      passed::table().measured(passed::Kind::Pools, device, bytes);
  }
}

}  // namespace

void open(const service::Identity& who) noexcept {
  current = Page{};
  current.magic = kMagic;
  current.size = sizeof(Page);
  current.pid = who.pid;
  current.nonce = who.nonce;
  current.pid_namespace = pid_namespace();
  name_program(current.name, sizeof current.name);
  try {
    current.started = start_of(who.pid);
    (void)read_all(geteuid());  // removes what crashed processes have left
    const std::string at = path_of(geteuid(), who);
    if (at.size() >= sizeof path) return;
    // Named before it is there: the process may end meanwhile, and close() removes it.
    std::memcpy(path, at.c_str(), at.size() + 1);
    owner.store(who.pid);
    void* const memory = map_file(at.c_str());
    if (ended.load()) return close();
    if (memory == MAP_FAILED) return owner.store(0);
    (void)madvise(memory, sizeof(Page), MADV_DONTFORK);
    std::memcpy(memory, &current, sizeof current);
    shared.store(static_cast<Page*>(memory));
  } catch (...) {  // no memory: no file
  }
}

std::int64_t refresh(Allocator& core) {
  measure(core);
  const passed::PassedCounts passed = passed::table().read();
  static_assert(kPassedKinds == passed::kKinds);
  for (std::size_t i = 0; i < kPassedKinds; ++i)
    current.by_driver[i] = {static_cast<std::int64_t>(passed[i].calls),
                            static_cast<std::int64_t>(passed[i].bytes),
                            static_cast<std::int64_t>(passed[i].live),
                            static_cast<std::int64_t>(passed[i].live_bytes)};
  current.device_count = std::min<std::int64_t>(devices_of(core), kDevices);
  for (int i = 0; i < current.device_count; ++i)
    read_device(core, i, &current.devices[i]);
  current.pinned_bytes = process::pinned().reclaim().held();
  current.sleep = static_cast<std::int64_t>(Sleep(core).state());
  current.idle_since = room::idle_since();
  current.updated = monotonic_now();
  publish();
  std::int64_t spare = 0;
  for (const DevicePart& part : current.devices)
    spare += part.spare_bytes;
  return spare;
}

void answer(Allocator& core, service::Session&, std::string_view, service::Answer* answer) {
  refresh(core);
  answer->text.assign(reinterpret_cast<const char*>(&current), sizeof current);
}

void answer_statistics(Allocator& core,
                       service::Session&,
                       std::string_view arguments,
                       service::Answer* answer) {
  const std::size_t blank = std::min(arguments.find(' '), arguments.size());
  const bool known = arguments.substr(0, blank) == "json";
  const std::string_view rest = arguments.substr(std::min(blank + 1, arguments.size()));
  measure(core);
  const int devices = devices_of(core);
  int wanted = -1;
  if (!rest.empty()) {
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), wanted);
    if (read.ec != std::errc() || read.ptr != rest.data() + rest.size() || wanted < 0 ||
        wanted >= devices)
      wanted = devices;  // there is no such device
  }
  if (!known || wanted >= devices) {
    answer->status = service::ReplyStatus::BadArguments;
    answer->text = known ? "no such device" : "unknown form";
    return;
  }
  std::vector<std::function<std::string()>> texts;
  for (int device = 0; device < devices; ++device)
    if (wanted < 0 ? is_used(core, device) : device == wanted)
      texts.push_back(device_stats::as_json(core, device));
  answer->text_later = [texts] {
    std::string text;
    for (const auto& each : texts)
      text += each() + "\n";
    return text;
  };
}

void close() noexcept {
  ended.store(true);
  if (owner.load() == getpid() && path[0] != '\0') (void)unlink(path);
}

void after_fork_in_child() noexcept {
  shared.store(nullptr);
  owner.store(0);
}

}  // namespace custash::live
