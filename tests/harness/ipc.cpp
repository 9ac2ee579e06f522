// SPDX-License-Identifier: MIT
#include "tests/harness/ipc.hpp"

#include "tests/harness/detector.hpp"

#include <cstring>

namespace custash::harness {
namespace {

struct Parcel {
  cudaIpcMemHandle_t handle;
  int device;
  DType dtype;
  std::int64_t numel;
};

}  // namespace

Tensor to_shareable(const Tensor& tensor) {
  const int device = tensor.device().index();
  Tensor copy(Storage::plain(tensor.nbytes(), device), tensor.shape(), tensor.dtype());
  copy.copy_(tensor);
  synchronize(device);
  return copy;
}

std::string share(const Tensor& tensor) {
  Parcel parcel{};
  use_device(tensor.device().index());
  check(cudaIpcGetMemHandle(&parcel.handle, tensor.data()), "cudaIpcGetMemHandle");
  parcel.device = tensor.device().index();
  parcel.dtype = tensor.dtype();
  parcel.numel = tensor.numel();
  std::string text;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&parcel);
  for (std::size_t i = 0; i < sizeof parcel; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

Tensor open_shared(const std::string& text) {
  Parcel parcel{};
  if (text.size() != 2 * sizeof parcel) throw std::invalid_argument("not a shared tensor");
  auto* bytes = reinterpret_cast<unsigned char*>(&parcel);
  for (std::size_t i = 0; i < sizeof parcel; ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  use_device(parcel.device);
  void* memory = nullptr;
  check(cudaIpcOpenMemHandle(&memory, parcel.handle, cudaIpcMemLazyEnablePeerAccess),
        "cudaIpcOpenMemHandle");
  const Bytes size = static_cast<Bytes>(parcel.numel) * size_of(parcel.dtype);
  detector::allocated(memory, size, nullptr);
  auto storage = Storage::borrow(memory, Stream::default_of(parcel.device), [memory, parcel] {
    use_device(parcel.device);
    detector::freed(memory, nullptr);
    (void)cudaIpcCloseMemHandle(memory);
  });
  return {std::move(storage), {parcel.numel}, parcel.dtype};
}

}  // namespace custash::harness
