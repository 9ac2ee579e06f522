// SPDX-License-Identifier: MIT
// A network of two layers, its gradients by hand, trained by gradient descent with momentum.
#pragma once

#include "tests/harness/ops.hpp"

#include <vector>

namespace custash::harness {

class Network {
 public:
  Network(std::int64_t inputs, std::int64_t hidden, std::int64_t outputs, Device device);

  [[nodiscard]] Tensor forward(const Tensor& x) const;
  // One step against wanted outputs; the mean squared error before it.
  Tensor step(const Tensor& x, const Tensor& wanted, double rate);

 private:
  std::vector<Tensor> weights_;  // of layer 1, its bias, of layer 2, its bias
  std::vector<Tensor> speed_;
};

}  // namespace custash::harness
