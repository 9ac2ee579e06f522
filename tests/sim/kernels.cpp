// SPDX-License-Identifier: MIT
#include "tests/sim/kernels.hpp"

#include "tests/sim/sim.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <vector>

#include <dlfcn.h>

namespace custash::sim {
namespace {

struct Known {
  std::mutex mutex;
  std::vector<const custash_sim_kernel*> lists{digest_kernels};
  bool loaded = false;
};

// Never destroyed: kernels are launched from static destructors as well.
Known& known() {
  static Known* the_known = new Known;
  return *the_known;
}

void open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW);
  const void* list = library == nullptr ? nullptr : dlsym(library, "custash_sim_kernels");
  if (list == nullptr) {
    std::fprintf(stderr, "simulated driver: no kernels in %s\n", path.c_str());
    return;
  }
  register_kernels(static_cast<const custash_sim_kernel*>(list));
}

}  // namespace

void register_kernels(const custash_sim_kernel* kernels) {
  const std::lock_guard<std::mutex> lock(known().mutex);
  known().lists.push_back(kernels);
}

void load_kernel_libraries() {
  {
    const std::lock_guard<std::mutex> lock(known().mutex);
    if (known().loaded) return;
    known().loaded = true;
  }
  const char* paths = std::getenv("CUSTASH_SIM_KERNELS");
  if (paths == nullptr) return;
  std::stringstream each(paths);
  for (std::string path; std::getline(each, path, ':');)
    if (!path.empty()) open_library(path);
}

const custash_sim_kernel* find_kernel(const std::string& name) {
  const std::lock_guard<std::mutex> lock(known().mutex);
  for (const custash_sim_kernel* list : known().lists)
    for (; list->name != nullptr; ++list)
      if (name == list->name) return list;
  return nullptr;
}

}  // namespace custash::sim
