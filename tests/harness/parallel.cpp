// SPDX-License-Identifier: MIT
#include "tests/harness/parallel.hpp"

#include "tests/harness/detector.hpp"

#include <exception>
#include <thread>

namespace custash::harness {

std::vector<Tensor> scatter(const Tensor& batch, const std::vector<int>& devices) {
  std::vector<Tensor> pieces;
  const auto count = static_cast<std::int64_t>(devices.size());
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t rows = batch.size(0) / count + (i < batch.size(0) % count ? 1 : 0);
    pieces.push_back(batch.narrow(start, rows).to(Device::cuda(devices[i]), Copy::NonBlocking));
    start += rows;
  }
  return pieces;
}

std::vector<std::vector<Tensor>> replicate(const std::vector<Tensor>& tensors,
                                           const std::vector<int>& devices) {
  std::vector<std::vector<Tensor>> replicas(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (const Tensor& tensor : tensors)
      replicas[i].push_back(tensor.to(Device::cuda(devices[i]), Copy::NonBlocking));
  return replicas;
}

void run_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  const unsigned maker = detector::this_thread();
  std::vector<unsigned> numbers(count);
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        numbers[i] = detector::this_thread();
        detector::thread_sync(maker, numbers[i]);
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  for (std::size_t i = 0; i < count; ++i) {
    threads[i].join();
    detector::thread_sync(numbers[i], maker);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

std::vector<Tensor> parallel_apply(const std::function<Tensor(std::size_t)>& work,
                                   const std::vector<int>& devices) {
  std::vector<Tensor> results(devices.size());
  run_threads(devices.size(), [&](std::size_t i) {
    const DeviceGuard guard(devices[i]);
    results[i] = work(i);
  });
  return results;
}

Tensor gather(const std::vector<Tensor>& pieces, int device) {
  Shape shape = pieces.front().shape();
  shape[0] = 0;
  for (const Tensor& piece : pieces)
    shape[0] += piece.size(0);
  Tensor all = empty(shape, {pieces.front().dtype(), Device::cuda(device)});
  std::int64_t start = 0;
  for (const Tensor& piece : pieces) {
    all.narrow(start, piece.size(0)).copy_(piece, Copy::NonBlocking);
    start += piece.size(0);
  }
  return all;
}

Tensor data_parallel(
    const std::function<Tensor(const Tensor&, const std::vector<Tensor>&)>& work,
    const Tensor& batch,
    const std::vector<Tensor>& tensors,
    const std::vector<int>& devices) {
  const std::vector<Tensor> pieces = scatter(batch, devices);
  const auto replicas = replicate(tensors, devices);
  const auto results =
      parallel_apply([&](std::size_t i) { return work(pieces[i], replicas[i]); }, devices);
  return gather(results, devices.front());
}

}  // namespace custash::harness
