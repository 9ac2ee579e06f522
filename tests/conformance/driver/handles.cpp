// SPDX-License-Identifier: MIT
// Handles of memory that the program makes, maps and lets go of: the driver serves them, and
// custash counts them. Arguments: which part, and for random programs how many from which seed.
#include "tests/conformance/driver/driver.hpp"
#include "tests/conformance/properties.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <unistd.h>

namespace {

using namespace semantics;

using Handle = CUmemGenericAllocationHandle;
constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kBytes = 2 * kMiB;
constexpr std::size_t kPlaces = 12;  // addresses, each with room for the largest handle
constexpr std::size_t kRoom = 4 * kMiB;

CUdeviceptr range = 0;

CUdeviceptr place(std::size_t number) {
  return range + number * kRoom;
}

void begin() {
  start();
  SAY(call(
      "cuMemAddressReserve", &range, kPlaces * kRoom, std::size_t{0}, CUdeviceptr{0}, 0ULL));
}

CUresult create(Handle* out, std::size_t bytes = kBytes, bool exportable = false) {
  const CUmemAllocationProp wanted = properties::of_pages(exportable);
  return call("cuMemCreate", out, bytes, &wanted, 0ULL);
}

CUresult map(std::size_t number, Handle handle, std::size_t bytes = kBytes) {
  const CUmemAccessDesc access = properties::access_of();
  const CUresult mapped = call("cuMemMap", place(number), bytes, std::size_t{0}, handle, 0ULL);
  if (mapped != CUDA_SUCCESS) return mapped;
  return call("cuMemSetAccess", place(number), bytes, &access, std::size_t{1});
}

CUresult unmap(std::size_t number, std::size_t bytes = kBytes) {
  return call("cuMemUnmap", place(number), bytes);
}

CUresult release(Handle handle) {
  return call("cuMemRelease", handle);
}

CUresult export_to(int* file, Handle handle) {
  return call("cuMemExportToShareableHandle",
              static_cast<void*>(file),
              handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
              0ULL);
}

CUresult import_from(Handle* out, int file) {
  return call("cuMemImportFromShareableHandle",
              out,
              reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

// Waits for it: memory in use must not be unmapped.
CUresult fill(std::size_t number, unsigned char byte, std::size_t bytes = kBytes) {
  const CUresult filled = call("cuMemsetD8_v2", place(number), byte, bytes);
  return filled != CUDA_SUCCESS ? filled : call("cuStreamSynchronize", CUstream{nullptr});
}

int first_byte(std::size_t number) {
  unsigned char byte = 0;
  return call("cuMemcpyDtoH_v2", static_cast<void*>(&byte), place(number), std::size_t{1}) ==
                 CUDA_SUCCESS
             ? byte
             : -1;
}

// A handle that is mapped at the first place and filled.
Handle filled(bool exportable = false) {
  Handle handle = 0;
  SAY(create(&handle, kBytes, exportable));
  SAY(map(0, handle));
  SAY(fill(0, 0x11));
  return handle;
}

// One handle that was filled and let go of.
void let_go() {
  const Handle handle = filled();
  SAY(unmap(0));
  SAY(release(handle));
}

// Makes one at `number`. It is new memory, which the simulator clears.
Handle make(std::size_t number, bool exportable = false) {
  Handle handle = 0;
  SAY(create(&handle, kBytes, exportable));
  SAY(map(number, handle));
  SAY(first_byte(number));
  SAY(fill(number, 0x22));
  return handle;
}

void say_free() {
  std::size_t free = 0;
  std::size_t total = 0;
  SAY(call("cuMemGetInfo_v2", &free, &total));
  std::printf("free %zu\n", free);
}

void released() {
  begin();
  say_free();
  let_go();
  say_free();
  const Handle first = make(1);
  say_free();
  make(2, true);
  SAY(unmap(1));
  SAY(release(first));
  SAY(release(first));  // no handle of the program's any more
  SAY(map(3, first));
  int file = -1;
  SAY(export_to(&file, first));
  make(3);
  make(4);
  say_free();
}

// What is mapped still is not the next one's.
void mapped() {
  begin();
  const Handle handle = filled();
  SAY(release(handle));
  make(1);
  SAY(first_byte(0));
  SAY(unmap(0));
}

void referenced() {
  begin();
  Handle handle = 0;
  Handle again = 0;
  SAY(create(&handle));
  SAY(map(0, handle));
  SAY(fill(0, 0x11));
  SAY(call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(place(0))));
  SAY(unmap(0));
  SAY(release(handle));
  make(1);
  SAY(map(2, again));
  SAY(first_byte(2));
  SAY(unmap(2));
  SAY(release(again));
  make(3);
}

void elsewhere() {
  begin();
  Handle handle = 0;
  Handle imported = 0;
  int file = -1;
  SAY(create(&handle, kBytes, true));
  SAY(map(0, handle));
  SAY(fill(0, 0x11));
  SAY(export_to(&file, handle));
  SAY(import_from(&imported, file));
  SAY(unmap(0));
  SAY(release(handle));
  make(1, true);
  SAY(map(2, imported));
  SAY(first_byte(2));
}

// By an address: what a network card or another process may know of.
void by_address() {
  begin();
  for (const char* const way : {"dma_buf", "attribute"}) {
    const Handle handle = filled();
    if (std::strcmp(way, "dma_buf") == 0) {
      int file = -1;
      SAY(call("cuMemGetHandleForAddressRange",
               static_cast<void*>(&file),
               place(0) + 65536,
               std::size_t{65536},
               1,
               0ULL));
      close(file);
    } else {
      unsigned on = 1;
      (void)call("cuPointerSetAttribute",
                 static_cast<const void*>(&on),
                 CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                 place(0) + kMiB);
    }
    SAY(unmap(0));
    SAY(release(handle));
    make(1);
    SAY(unmap(1));
  }
}

using Multicast = Handle;

Multicast make_multicast(std::size_t bytes = 2 * kBytes) {
  CUmulticastObjectProp what{};
  what.numDevices = 1;
  what.size = bytes;
  Multicast made = 0;
  SAY(call("cuMulticastCreate", &made, static_cast<const CUmulticastObjectProp*>(&what)));
  SAY(call("cuMulticastAddDevice", made, CUdevice{0}));
  return made;
}

CUresult bind(Multicast multicast, std::size_t at, Handle handle) {
  return call(
      "cuMulticastBindMem", multicast, at, handle, std::size_t{0}, std::size_t{kBytes}, 0ULL);
}

CUresult unbind(Multicast multicast, std::size_t at) {
  return call("cuMulticastUnbind", multicast, CUdevice{0}, at, std::size_t{kBytes});
}

// A multicast object may reach the memory.
void multicast() {
  begin();
  const Multicast object = make_multicast();
  for (const char* const way : {"bound", "unbound", "by_address", "refused"}) {
    const Handle handle = filled();
    if (std::strcmp(way, "by_address") == 0)
      SAY(call("cuMulticastBindAddr", object, std::size_t{kBytes}, place(0), kBytes, 0ULL));
    else if (std::strcmp(way, "refused") == 0)
      SAY(bind(object, kBytes / 2, handle));
    else
      SAY(bind(object, 0, handle));
    if (std::strcmp(way, "unbound") == 0) SAY(unbind(object, 0));
    SAY(unmap(0));
    SAY(release(handle));
    const Handle next = make(1);
    SAY(unmap(1));
    SAY(release(next));
    if (std::strcmp(way, "bound") == 0) SAY(unbind(object, 0));
    say_free();
  }
  SAY(release(object));
  SAY(release(object));
  say_free();
}

CUarrayMapInfo mapping(CUarray array, Handle handle) {
  CUarrayMapInfo what{};
  what.resourceType = CU_RESOURCE_TYPE_ARRAY;
  what.resource.array = array;
  what.memOperationType = handle != 0 ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
  what.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  what.memHandle.memHandle = handle;
  what.deviceBitMask = 1;
  return what;
}

CUresult map_array(CUarray array, Handle handle) {
  CUarrayMapInfo what = mapping(array, handle);
  return call("cuMemMapArrayAsync", &what, 1U, CUstream{nullptr});
}

CUarray make_sparse() {
  CUDA_ARRAY3D_DESCRIPTOR what{};
  what.Width = what.Height = 64;
  what.Format = CU_AD_FORMAT_FLOAT;
  what.NumChannels = 1;
  what.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUarray made = nullptr;
  SAY(call("cuArray3DCreate_v2", &made, static_cast<const CUDA_ARRAY3D_DESCRIPTOR*>(&what)));
  return made;
}

// An array's textures may still read what was mapped into it once.
void sparse() {
  begin();
  CUarray array = make_sparse();
  for (const char* const way : {"in_an_array", "once_in_an_array", "second_in_a_list"}) {
    const Handle handle = filled();
    SAY(unmap(0));
    if (std::strcmp(way, "second_in_a_list") == 0) {
      CUarrayMapInfo list[] = {mapping(array, 0), mapping(array, handle)};
      SAY(call("cuMemMapArrayAsync", &list[0], 2U, CUstream{nullptr}));
    } else {
      SAY(map_array(array, handle));
    }
    if (std::strcmp(way, "once_in_an_array") == 0) SAY(map_array(array, 0));
    SAY(release(handle));
    make(1);
    SAY(unmap(1));
    if (std::strcmp(way, "in_an_array") == 0) SAY(map_array(array, 0));
    say_free();
  }
  SAY(call("cuArrayDestroy", array));
  say_free();
}

// A released handle is none to the program, whichever call names it.
void named() {
  begin();
  const Multicast object = make_multicast();
  CUarray array = make_sparse();
  Handle handle = 0;
  SAY(create(&handle));
  SAY(release(handle));
  int file = -1;
  CUmemAllocationProp told{};
  SAY(call("cuMemGetAllocationPropertiesFromHandle", &told, handle));
  SAY(map(0, handle));
  SAY(export_to(&file, handle));
  SAY(bind(object, 0, handle));
  SAY(map_array(array, handle));
  SAY(release(handle));
  CUdeviceptr block = 0;  // memory of cuMemAlloc cannot be bound by its address
  SAY(call("cuMemAlloc_v2", &block, 2 * kBytes));
  SAY(call("cuMulticastBindAddr",
           object,
           std::size_t{0},
           (block + kBytes - 1) / kBytes * kBytes,
           std::size_t{kBytes},
           0ULL));
  SAY(call("cuMemFree_v2", block));
}

// Kernels take what CUSTASH_SIM's kernel_ns says.
void pending() {
  begin();
  CUfunction const late = function("late");
  CUstream const stream = new_stream();
  Handle handles[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    SAY(create(&handles[i]));
    SAY(map(i, handles[i]));
    SAY(fill(i, 0x11));
  }
  SAY(launch(late, stream));
  for (std::size_t i = 0; i < 2; ++i) {
    SAY(unmap(i));
    SAY(release(handles[i]));
  }
  make(2);
  SAY(call("cuStreamQuery", stream));
  SAY(call("cuCtxSynchronize"));
  make(3);
}

// Any call that needs memory can have what was released. On a device of 256 MiB.
void needed() {
  begin();
  constexpr std::size_t kMost = 160 * kMiB;
  const auto most = [&] {
    Handle handle = 0;
    SAY(create(&handle, kMost));
    SAY(release(handle));
  };
  CUdeviceptr block = 0;
  Handle other = 0;
  most();
  SAY(call("cuMemAlloc_v2", &block, kMost - kMiB));
  SAY(call("cuMemFree_v2", block));
  most();
  SAY(create(&other, kMost - 2 * kMiB));
  SAY(release(other));
  most();
  SAY(call("cuMemAllocManaged", &block, kMost - kMiB, unsigned{CU_MEM_ATTACH_GLOBAL}));
  SAY(call("cuMemFree_v2", block));
  most();
  std::size_t pitch = 0;
  SAY(call("cuMemAllocPitch_v2", &block, &pitch, kMiB, std::size_t{159}, 4U));
  SAY(call("cuMemFree_v2", block));
  say_free();
}

// Handles belong to no context.
void reset() {
  begin();
  let_go();
  CUcontext context = nullptr;
  SAY(call("cuDevicePrimaryCtxReset_v2", CUdevice{0}));
  SAY(call("cuDevicePrimaryCtxRetain", &context, CUdevice{0}));
  SAY(call("cuCtxSetCurrent", context));
  make(5);
}

// Random programs, with a model of what each address holds. Fresh memory is filled at once.
class Program {
 public:
  Program(unsigned seed, Multicast multicast) : random_(seed), multicast_(multicast) {}

  void run() {
    for (int step = 0; step < 400; ++step)
      one();
    std::printf("sum %zu wrong %d\n", sum_, wrong_);
    finish();
  }

 private:
  struct Memory {
    Handle handle = 0;
    std::size_t bytes = 0;
    int references = 1;
    int mappings = 0;
    bool exportable = false;
    int file = -1;
    bool fresh = true;
    unsigned char byte = 0;
  };

  static constexpr std::size_t kNone = ~std::size_t{0};

  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

  std::size_t any(bool (*fits)(const Memory&)) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < memories_.size(); ++i)
      if (fits(memories_[i])) all.push_back(i);
    return all.empty() ? kNone : all[below(static_cast<unsigned>(all.size()))];
  }

  std::size_t free_place() {
    for (std::size_t i = 0; i < kPlaces; ++i)
      if (places_[i] == kNone) return i;
    return kNone;
  }

  void note(CUresult result) {
    sum_ = sum_ * 31 + static_cast<std::size_t>(result);
    if (result != CUDA_SUCCESS) ++wrong_;
  }

  void one() {
    switch (below(8)) {
      case 0:
      case 1:
        return make_one();
      case 2:
      case 3:
        return map_one();
      case 4:
        return unmap_one();
      case 5:
        return release_one();
      case 6:
        return share_one();
      default:
        return check_all();
    }
  }

  void make_one() {
    if (memories_.size() - gone_ >= 8) return;
    Memory memory;
    memory.bytes = below(2) == 0 ? kBytes : 2 * kBytes;
    memory.exportable = below(2) == 0;
    note(create(&memory.handle, memory.bytes, memory.exportable));
    memories_.push_back(memory);
  }

  void map_one() {
    const std::size_t number = any([](const Memory& m) { return m.references > 0; });
    const std::size_t at = free_place();
    if (number == kNone || at == kNone) return;
    Memory& memory = memories_[number];
    note(map(at, memory.handle, memory.bytes));
    places_[at] = number;
    ++memory.mappings;
    if (memory.fresh || below(2) == 0) {
      memory.fresh = false;
      memory.byte = static_cast<unsigned char>(1 + below(250));
      note(fill(at, memory.byte, memory.bytes));
    }
    check(at);
  }

  void unmap_one() {
    const std::size_t at = below(kPlaces);
    if (places_[at] == kNone) return;
    Memory& memory = memories_[places_[at]];
    note(unmap(at, memory.bytes));
    places_[at] = kNone;
    --memory.mappings;
    if (memory.references == 0 && memory.mappings == 0) ++gone_;
  }

  void release_one() {
    const std::size_t number = any([](const Memory& m) { return m.references > 0; });
    if (number == kNone) return;
    Memory& memory = memories_[number];
    note(release(memory.handle));
    if (--memory.references == 0 && memory.mappings == 0) ++gone_;
  }

  void share_one() {
    const std::size_t number = any([](const Memory& m) { return m.references > 0; });
    if (number == kNone) return;
    Memory& memory = memories_[number];
    Handle again = 0;
    const std::size_t at = below(kPlaces);
    if (places_[at] != kNone && memories_[places_[at]].references > 0) {
      note(call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(place(at))));
      ++memories_[places_[at]].references;
    } else if (memory.bytes == kBytes && below(4) == 0) {
      const std::size_t at_offset = below(2) * kBytes;
      note(bind(multicast_, at_offset, memory.handle));
      note(unbind(multicast_, at_offset));
    } else if (memory.exportable && below(3) == 0) {
      int file = -1;
      note(export_to(&file, memory.handle));
      note(import_from(&again, file));
      ++memory.references;
      close(file);
    }
  }

  void check(std::size_t at) {
    const int byte = first_byte(at);
    sum_ = sum_ * 31 + static_cast<std::size_t>(byte);
    if (byte != memories_[places_[at]].byte) ++wrong_;
  }

  void check_all() {
    for (std::size_t at = 0; at < kPlaces; ++at)
      if (places_[at] != kNone) check(at);
  }

  void finish() {
    for (std::size_t at = 0; at < kPlaces; ++at)
      if (places_[at] != kNone) (void)unmap(at, memories_[places_[at]].bytes);
    for (const Memory& memory : memories_)
      for (int i = 0; i < memory.references; ++i)
        (void)release(memory.handle);
  }

  std::minstd_rand random_;
  Multicast multicast_;
  std::vector<Memory> memories_;
  std::size_t gone_ = 0;
  std::array<std::size_t, kPlaces> places_ = [] {
    std::array<std::size_t, kPlaces> none{};
    none.fill(kNone);
    return none;
  }();
  std::size_t sum_ = 0;
  int wrong_ = 0;
};

void random_programs(unsigned count, unsigned seed) {
  begin();
  const Multicast object = make_multicast();
  for (unsigned i = 0; i < count; ++i)
    Program(seed + i, object).run();
  let_go();
  say_free();
  make(1);
}

struct Part {
  const char* name;
  void (*run)();
};

constexpr Part kParts[] = {
    {"released", released},
    {"mapped", mapped},
    {"referenced", referenced},
    {"elsewhere", elsewhere},
    {"by_address", by_address},
    {"multicast", multicast},
    {"sparse", sparse},
    {"named", named},
    {"pending", pending},
    {"needed", needed},
    {"reset", reset},
};

}  // namespace

int main(int argc, char** argv) {
  const char* const which = argc > 1 ? argv[1] : "";
  for (const Part& part : kParts)
    if (std::strcmp(which, part.name) == 0) part.run();
  if (std::strcmp(which, "random") == 0 && argc > 3)
    random_programs(static_cast<unsigned>(std::atoi(argv[2])),
                    static_cast<unsigned>(std::atoi(argv[3])));
  return 0;
}
