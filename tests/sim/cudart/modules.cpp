// SPDX-License-Identifier: MIT
// Registered binaries and their modules by context.
#include "tests/sim/cudart/modules.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace custash::cudart {

struct Kernel {
  Binary* binary = nullptr;
  const char* name = nullptr;
  std::map<CUcontext, CUfunction> functions;
};

struct Variable {
  Binary* binary = nullptr;
  const char* name = nullptr;
  void** managed = nullptr;
};

struct Binary {
  const void* image = nullptr;
  std::map<CUcontext, CUmodule> modules;
};

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Binary>> binaries;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;  // by host function
  std::unordered_map<const void*, Kernel*> handles;                  // by themselves
  std::unordered_map<const void*, Variable> variables;
};

Registry& registry() {
  static Registry* const the = new Registry;
  return *the;
}

Error current_context(CUcontext* context) {
  return legacy().ctx_get_current(context);
}

// With the registry's lock.
Error module_of(Binary* binary, CUcontext context, CUmodule* module) {
  const auto found = binary->modules.find(context);
  if (found != binary->modules.end()) {
    *module = found->second;
    return cudaSuccess;
  }
  const Error error = legacy().module_load_data(module, binary->image);
  if (error.ok()) binary->modules.emplace(context, *module);
  return error;
}

Error variable_address(const Variable& variable, CUdeviceptr* address, size_t* bytes) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  Error error = current_context(&context);
  if (error.ok()) error = module_of(variable.binary, context, &module);
  if (error.ok()) error = legacy().module_get_global(address, bytes, module, variable.name);
  return error;
}

}  // namespace

Binary* add_binary(const void* image) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  at.binaries.push_back(std::make_unique<Binary>());
  at.binaries.back()->image = image;
  return at.binaries.back().get();
}

// Modules are left to the context: this runs at exit, when the driver may be gone, or at
// dlclose.
void remove_binary(Binary* binary) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  std::erase_if(at.handles, [=](const auto& row) { return row.second->binary == binary; });
  std::erase_if(at.kernels, [=](const auto& row) { return row.second->binary == binary; });
  std::erase_if(at.variables, [=](const auto& row) { return row.second.binary == binary; });
  std::erase_if(at.binaries, [=](const auto& row) { return row.get() == binary; });
}

void add_kernel(Binary* binary, const void* host_function, const char* name) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  auto kernel = std::make_unique<Kernel>();
  kernel->binary = binary;
  kernel->name = name;
  at.handles[kernel.get()] = kernel.get();
  at.kernels[host_function] = std::move(kernel);
}

void add_variable(Binary* binary, const void* host_variable, const char* name, void** managed) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  at.variables[host_variable] = Variable{binary, name, managed};
}

Error init_managed(Binary* binary) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  for (auto& [host_variable, variable] : at.variables) {
    if (variable.binary != binary || variable.managed == nullptr) continue;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const Error error = variable_address(variable, &address, &bytes);
    if (!error.ok()) return error;
    *variable.managed = reinterpret_cast<void*>(address);
  }
  return cudaSuccess;
}

Kernel* find_kernel(const void* function) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  const auto by_host = at.kernels.find(function);
  if (by_host != at.kernels.end()) return by_host->second.get();
  const auto by_handle = at.handles.find(function);
  return by_handle != at.handles.end() ? by_handle->second : nullptr;
}

const char* kernel_name(const Kernel* kernel) {
  return kernel->name;
}

Error function_of(Kernel* kernel, CUfunction* function) {
  CUcontext context = nullptr;
  Error error = current_context(&context);
  if (!error.ok()) return error;
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  const auto found = kernel->functions.find(context);
  if (found != kernel->functions.end()) {
    *function = found->second;
    return cudaSuccess;
  }
  CUmodule module = nullptr;
  error = module_of(kernel->binary, context, &module);
  if (error.ok()) error = legacy().module_get_function(function, module, kernel->name);
  if (error.ok()) kernel->functions.emplace(context, *function);
  return error.code == cudaErrorSymbolNotFound ? Error(cudaErrorInvalidDeviceFunction) : error;
}

Error function_of(const void* function, CUfunction* found) {
  Kernel* kernel = find_kernel(function);
  // What is not a function of the program's is taken for a kernel handle, as the real runtime
  // does.
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (kernel == nullptr) return cudaErrorInvalidResourceHandle;
  return function_of(kernel, found);
}

Error variable_of(const void* host_variable, CUdeviceptr* address, size_t* bytes) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  const auto found = at.variables.find(host_variable);
  if (found == at.variables.end()) return cudaErrorInvalidSymbol;
  return variable_address(found->second, address, bytes);
}

void forget_modules(CUcontext context) {
  Registry& at = registry();
  const std::lock_guard lock(at.mutex);
  for (const auto& binary : at.binaries)
    binary->modules.erase(context);
  for (const auto& [function, kernel] : at.kernels)
    kernel->functions.erase(context);
}

}  // namespace custash::cudart
