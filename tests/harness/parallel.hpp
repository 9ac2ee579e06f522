// SPDX-License-Identifier: MIT
// Data parallel over the devices of one process, as torch.nn.parallel: a batch is scattered, a
// model's tensors are replicated, each device is served by a thread of its own, the results are
// gathered.
#pragma once

#include "tests/harness/tensor.hpp"

#include <functional>
#include <vector>

namespace custash::harness {

// A batch cut along dimension 0, one piece a device (the first ones are a row longer).
std::vector<Tensor> scatter(const Tensor& batch, const std::vector<int>& devices);

// Copies of every tensor: result[i] is for devices[i].
std::vector<std::vector<Tensor>> replicate(const std::vector<Tensor>& tensors,
                                           const std::vector<int>& devices);

// work(i) on a thread with devices[i] current. Rethrows what the first of them threw.
std::vector<Tensor> parallel_apply(const std::function<Tensor(std::size_t)>& work,
                                   const std::vector<int>& devices);

// One tensor on the device, pieces one after the other along dimension 0.
Tensor gather(const std::vector<Tensor>& pieces, int device);

// scatter, replicate, work(piece, replicas), gather on devices[0].
Tensor data_parallel(
    const std::function<Tensor(const Tensor&, const std::vector<Tensor>&)>& work,
    const Tensor& batch,
    const std::vector<Tensor>& tensors,
    const std::vector<int>& devices);

// A host thread whose order with its maker the race detector is told of.
void run_threads(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace custash::harness
