// SPDX-License-Identifier: MIT
// A training step captured into a graph and replayed, its memory kept for it.
#include "tests/harness/graph.hpp"
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

// One layer, squared error, gradient descent; the weights change in place.
struct Model {
  Tensor x;
  Tensor y;
  Tensor w;
  Tensor loss;

  explicit Model(Device device)
      : x(randn({32, 6}, 1, on(device))),
        y(randn({32, 2}, 2, on(device))),
        w(randn({6, 2}, 3, on(device))),
        loss(zeros({1}, on(device))) {}

  void step() const {
    const Tensor error = matmul(x, w) - y;
    loss.copy_(mean(error * error), Copy::NonBlocking);
    const Tensor gradient = matmul(x, error, Transpose::Yes);
    zip_(Binary::Sub, w, gradient * 0.01);
  }
};

}  // namespace

TEST_CASE("a captured training step does the same when it is replayed") {
  const NoRaces races;
  const Model eager(Device::cuda());
  const Model captured(Device::cuda());
  const Stream stream = Stream::make();
  stream.wait_stream(Stream::current());
  if (blas::usable()) {  // cuBLAS makes its workspace outside of the capture
    const StreamGuard guard(stream);
    (void)matmul(captured.x, captured.w);
    stream.synchronize();
  }
  const Graph graph = Graph::capture(stream, [&] { captured.step(); });
  CHECK(graph.memory() > 0);
  for (int i = 0; i < 5; ++i) {
    eager.step();
    graph.replay(stream);
    // What happens in between does not get the graph's memory.
    const Tensor other = full({32, 2}, i, on(Device::cuda()));
    CHECK(other.values() == repeated(i, 64));
  }
  stream.synchronize();
  CHECK(captured.w.values() == eager.w.values());
  CHECK(captured.loss.item() == eager.loss.item());
}

TEST_CASE("new data goes into a graph by its input tensors") {
  const NoRaces races;
  const Tensor in = zeros({1000}, on(Device::cuda()));
  const Tensor out = zeros({1000}, on(Device::cuda()));
  const Stream stream = Stream::make();
  stream.wait_stream(Stream::current());
  const Graph graph =
      Graph::capture(stream, [&] { out.copy_(relu(in * 2) + 1, Copy::NonBlocking); });
  const StreamGuard guard(stream);
  for (const double value : {1.0, -1.0, 10.0}) {
    in.fill_(value);
    graph.replay();
    CHECK(out.values() == repeated(std::max(0.0, 2 * value) + 1, 1000));
  }
}

TEST_CASE("a graph's memory is given back with it") {
  const NoRaces races;
  const Stream stream = Stream::make();
  const Tensor in = zeros({64 * kMiBOfFloats}, on(Device::cuda()));
  stream.wait_stream(Stream::current());
  synchronize();
  empty_cache();
  const auto before = memory_info().free;
  {
    const Graph graph = Graph::capture(stream, [&] {
      Tensor a = in + 1;
      for (int i = 0; i < 6; ++i)
        a = a * 2;  // two blocks that take turns
    });
    CHECK(graph.memory() == 128_MiB);
    CHECK(memory_info().free <= before - 128_MiB);
    graph.replay(stream);
    graph.replay(stream);
    stream.synchronize();
  }
  synchronize();
  empty_cache();
  CHECK(memory_info().free + 16_MiB >= before);  // a driver may keep what the graph itself took
}

TEST_CASE("an error in a capture leaves the stream usable") {
  const Stream stream = Stream::make();
  CHECK_THROWS_AS(Graph::capture(stream, [] { throw std::runtime_error("out"); }),
                  std::runtime_error);
  const StreamGuard guard(stream);
  CHECK(ones({10}, on(Device::cuda())).values() == repeated(1, 10));
}
