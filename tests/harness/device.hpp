// SPDX-License-Identifier: MIT
// Devices: the CPU and each CUDA device; the thread's current one; guards that change it for a
// scope. Lazy: nothing here makes a context, use_device() does, and only work calls it.
#pragma once

#include "tests/harness/cuda.hpp"

#include <string>

namespace custash::harness {

class Device {
 public:
  enum class Type { Cpu, Cuda };

  static Device cpu() { return {Type::Cpu, 0}; }

  static Device cuda();  // the thread's current device

  static Device cuda(int index) { return {Type::Cuda, index}; }

  static Device parse(const std::string& name);  // "cpu", "cuda", "cuda:1"

  [[nodiscard]] bool is_cuda() const { return type_ == Type::Cuda; }

  [[nodiscard]] int index() const { return index_; }

  [[nodiscard]] std::string str() const;

  bool operator==(const Device&) const = default;

 private:
  Device(Type type, int index) : type_(type), index_(index) {}

  Type type_;
  int index_;
};

int device_count();  // 0 where CUDA does not work
bool is_available();
bool is_initialized();  // whether this process has used a device yet
int current_device();
void set_device(int index);
void synchronize(int index);
void synchronize();  // the current device

// Makes the device the runtime's current one, with a context. A forked child may not: CUDA does
// not survive a fork.
void use_device(int index);

// Whether kernels on `device` may read memory of `peer`.
bool can_access_peer(int device, int peer);
void enable_peer_access(int device, int peer);
bool peer_access_enabled(int device, int peer);

class DeviceGuard {
 public:
  explicit DeviceGuard(int index) : outer_(current_device()) { set_device(index); }

  ~DeviceGuard() { set_device(outer_); }

  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int outer_;
};

}  // namespace custash::harness
