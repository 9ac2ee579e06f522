// SPDX-License-Identifier: MIT
// Trains a small network; started by tools/demos/train. harness_train [FILE]: a line of FILE is
// one example: numbers, then its class, with commas. Without a file: three spirals in the
// plane. Shows loss and memory at every step; the last line is for comparing runs.
#include "tests/harness/loader.hpp"
#include "tests/harness/network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <unistd.h>

using namespace custash;
using namespace custash::harness;

namespace {

constexpr std::int64_t kBatch = 64;
constexpr int kSteps = 600;

struct Data {
  std::int64_t features = 0;
  std::int64_t classes = 0;
  std::vector<double> x;  // a row an example
  std::vector<std::int64_t> label;

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(label.size()); }
};

Data spirals() {
  Data data{2, 3, {}, {}};
  constexpr int kExamples = 900;
  for (int i = 0; i < kExamples; ++i) {
    const int arm = i % 3;
    const double along = static_cast<double>(i) / kExamples;
    const double turn =
        4 * along + 2.0943951 * arm + 0.1 * uniform(5, static_cast<unsigned>(i));
    data.x.insert(data.x.end(), {2 * along * std::sin(turn), 2 * along * std::cos(turn)});
    data.label.push_back(arm);
  }
  return data;
}

Data read(const char* path) {
  Data data;
  std::ifstream file(path);
  double largest = 1;
  for (std::string line; std::getline(file, line);) {
    std::vector<double> numbers;
    std::stringstream each(line);
    for (std::string number; std::getline(each, number, ',');)
      numbers.push_back(std::stod(number));
    if (numbers.size() < 2) continue;
    data.label.push_back(static_cast<std::int64_t>(numbers.back()));
    numbers.pop_back();
    data.features = static_cast<std::int64_t>(numbers.size());
    for (const double number : numbers)
      largest = std::max(largest, std::abs(number));
    data.x.insert(data.x.end(), numbers.begin(), numbers.end());
    data.classes = std::max(data.classes, data.label.back() + 1);
  }
  for (double& x : data.x)
    x /= largest;
  return data;
}

// One row of a batch: the example's numbers, then 1 at its class.
void write_batch(const Data& data, std::int64_t index, const Tensor& batch) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < kBatch; ++row) {
    const auto example = static_cast<std::int64_t>(
        uniform(11, static_cast<std::uint64_t>(index * kBatch + row)) *
        static_cast<double>(data.count()));
    const auto from = data.x.begin() + example * data.features;
    values.insert(values.end(), from, from + data.features);
    for (std::int64_t c = 0; c < data.classes; ++c)
      values.push_back(data.label[static_cast<std::size_t>(example)] == c ? 1 : 0);
  }
  batch.set_(values);
}

// Columns of a matrix, by a product with a selection of the identity: no kernel of its own.
Tensor selection(std::int64_t width, std::int64_t from, std::int64_t count, Device device) {
  std::vector<double> values(static_cast<std::size_t>(width * count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>((from + i) * count + i)] = 1;
  return tensor(values, {width, count}, on(device));
}

double accuracy(const Network& network, const Data& data, Device device) {
  const Tensor x = tensor(data.x, {data.count(), data.features}, on(device));
  const std::vector<double> out = network.forward(x).values();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < data.count(); ++i) {
    const auto row = out.begin() + i * data.classes;
    right += std::max_element(row, row + data.classes) - row ==
             data.label[static_cast<std::size_t>(i)];
  }
  return 100.0 * static_cast<double>(right) / static_cast<double>(data.count());
}

// A bar at the terminal, through standard error; where there is none, a line now and then.
void show(int step, double loss) {
  constexpr int kWidth = 24;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal && step % 100 != 0) return;
  std::string bar(static_cast<std::size_t>(kWidth * step / kSteps), '#');
  bar.resize(kWidth, '.');
  std::fprintf(terminal ? stderr : stdout,
               "%s[%s] step %4d, loss %.4f, allocated %.2f MiB, reserved %.2f MiB%s",
               terminal ? "\r" : "",
               bar.c_str(),
               step,
               loss,
               static_cast<double>(memory_allocated()) / (1 << 20),
               static_cast<double>(memory_reserved()) / (1 << 20),
               terminal && step != kSteps ? "" : "\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_available()) return std::puts("no GPU"), 77;
  const Data data = argc > 1 ? read(argv[1]) : spirals();
  if (data.count() == 0) return std::fprintf(stderr, "no examples in %s\n", argv[1]), 1;
  std::printf("%ld examples of %ld numbers, %ld classes, %s\n",
              static_cast<long>(data.count()),
              static_cast<long>(data.features),
              static_cast<long>(data.classes),
              custash_loaded() ? "through custash" : "bare");
  const Device device = Device::cuda();
  const std::int64_t width = data.features + data.classes;
  Network network(data.features, 128, data.classes, device);
  const Tensor inputs = selection(width, 0, data.features, device);
  const Tensor outputs = selection(width, data.features, data.classes, device);
  PrefetchLoader loader(
      {kBatch, width}, DType::Float32, [&](std::int64_t i, const Tensor& batch) {
        write_batch(data, i, batch);
        return i < kSteps;
      });
  synchronize();
  const auto start = std::chrono::steady_clock::now();
  double loss = 0;
  for (int step = 1; step <= kSteps; ++step) {
    const Tensor batch = loader.next();
    loss = network.step(matmul(batch, inputs), matmul(batch, outputs), 0.05).item();
    show(step, loss);
  }
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  std::printf("train: loss %.9g, accuracy %.2f %%, peak %.2f MiB, %.1f ms\n",
              loss,
              accuracy(network, data, device),
              static_cast<double>(max_memory_allocated()) / (1 << 20),
              took.count());
  return 0;
}
