// SPDX-License-Identifier: MIT
#include "tests/harness/network.hpp"

#include <cmath>

namespace custash::harness {

Network::Network(std::int64_t inputs, std::int64_t hidden, std::int64_t outputs, Device device)
    : weights_{
          randn({inputs, hidden}, 1, on(device)) * std::sqrt(2.0 / static_cast<double>(inputs)),
          zeros({hidden}, on(device)),
          randn({hidden, outputs}, 2, on(device)) *
              std::sqrt(1.0 / static_cast<double>(hidden)),
          zeros({outputs}, on(device))} {
  for (const Tensor& weight : weights_)
    speed_.push_back(zeros_like(weight));
}

Tensor Network::forward(const Tensor& x) const {
  return matmul(relu(matmul(x, weights_[0]) + weights_[1]), weights_[2]) + weights_[3];
}

Tensor Network::step(const Tensor& x, const Tensor& wanted, double rate) {
  const Tensor sums = matmul(x, weights_[0]) + weights_[1];
  const Tensor hidden = relu(sums);
  const Tensor error = matmul(hidden, weights_[2]) + weights_[3] - wanted;
  const Tensor loss = mean(error * error);

  const Tensor of_outputs = error * (2.0 / static_cast<double>(error.size(0)));
  const Tensor of_hidden = matmul(of_outputs, weights_[2], Transpose::No, Transpose::Yes);
  const Tensor of_sums = zip(Binary::ReluGrad, sums, of_hidden);
  const std::vector<Tensor> gradients = {matmul(x, of_sums, Transpose::Yes),
                                         sum_rows(of_sums),
                                         matmul(hidden, of_outputs, Transpose::Yes),
                                         sum_rows(of_outputs)};
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    zip_(Binary::Mul, speed_[i], 0.9);
    zip_(Binary::Sub, speed_[i], gradients[i] * rate);
    zip_(Binary::Add, weights_[i], speed_[i]);
  }
  return loss;
}

}  // namespace custash::harness
