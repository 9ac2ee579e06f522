// SPDX-License-Identifier: MIT
#include "tests/harness/stress_machine.hpp"

#include <algorithm>
#include <cmath>

namespace custash::harness::stress {
namespace {

constexpr std::int64_t kMostSorted = 1000;

// The longest square-ish matrix that is in it, so that a product is always possible.
Tensor as_matrix(const Tensor& a) {
  const auto side = static_cast<std::int64_t>(std::sqrt(std::min<double>(a.numel(), 1024)));
  return a.view({a.numel()}).narrow(0, side * side).view({side, side});
}

}  // namespace

// ---- letters

Letters::Letters(const Program& program) {
  for (const Command& command : program.commands)
    if (command.kind == Kind::Send) expected_.insert(command.letter);
}

void Letters::send(int letter, Slot slot) {
  detector::thread_sync(detector::this_thread(), 1000U + static_cast<unsigned>(letter));
  const std::lock_guard lock(mutex_);
  letters_[letter] = std::move(slot);
  arrived_.notify_all();
}

Slot Letters::receive(int letter) {
  std::unique_lock lock(mutex_);
  if (expected_.count(letter) == 0) return {};
  arrived_.wait(lock, [&] { return given_up_ || letters_.count(letter) != 0; });
  if (letters_.count(letter) == 0) return {};
  Slot slot = std::move(letters_[letter]);
  detector::thread_sync(1000U + static_cast<unsigned>(letter), detector::this_thread());
  return slot;
}

void Letters::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  arrived_.notify_all();
}

// ---- order

Device Machine::place(int device) const {
  return where_ == Where::Cuda ? Device::cuda(device) : Device::cpu();
}

const Stream& Machine::stream(int device, int index) const {
  return (*streams_)[static_cast<std::size_t>(device)][static_cast<std::size_t>(index)];
}

void Machine::before(const Slot& slot, const Stream& stream, Wait wait) const {
  if (where_ == Where::Cpu || !slot.tensor.defined()) return;
  if (slot.last->stream && !(*slot.last->stream == stream) && plant_ != Plant::NoWait) {
    if (wait == Wait::ForEvent) slot.last->event.wait(stream);
    if (wait == Wait::ForStream) stream.wait_stream(*slot.last->stream);
    if (wait == Wait::OnHost) slot.last->event.synchronize();
  }
  if (plant_ != Plant::NoRecord && slot.tensor.device().index() == stream.device())
    slot.tensor.record_stream(stream);
}

void Machine::after(Slot& slot, const Stream& stream) const {
  if (where_ == Where::Cpu || !slot.tensor.defined()) return;
  slot.last->stream = stream;
  slot.last->event = stream.record_event();
}

void Machine::put(int index, Tensor tensor, int device, const Stream* stream) {
  // A view goes on with the history of its storage.
  auto last = std::make_shared<LastUse>();
  for (const Slot& other : slots_)
    if (other.tensor.defined() && other.tensor.shares_storage(tensor)) last = other.last;
  Slot& target = slot(index);
  target = {std::move(tensor), device, std::move(last)};
  if (stream != nullptr) after(target, *stream);
}

// ---- commands

void Machine::run(const Command& command) {
  try {
    dispatch(command);
  } catch (...) {
    letters_->give_up();
    throw;
  }
}

void Machine::ensure(const Command& c, int index) {
  if (slot(index).tensor.defined()) return;
  const Options options{c.type, place(c.device)};
  const bool random = c.seed % 2 == 0;
  const auto make = [&] {
    return random ? (rand({c.n}, c.seed, options) * 16) : full({c.n}, c.value, options);
  };
  if (where_ == Where::Cpu) return put(index, make(), c.device, nullptr);
  const Stream& chosen = stream(c.device, c.stream);
  const StreamGuard guard(chosen);
  put(index, make(), c.device, &chosen);
}

bool Machine::run_alone(const Command& c) {
  switch (c.kind) {
    case Kind::Create:
      slot(c.dst) = {};
      ensure(c, c.dst);
      return true;
    case Kind::Drop:
      slot(c.a) = {};
      return true;
    case Kind::Sync:
      if (where_ == Where::Cuda) synchronize(c.device);
      return true;
    case Kind::Empty:
      if (where_ == Where::Cuda) empty_cache();
      return true;
    case Kind::Receive:
      slot(c.dst) = letters_->receive(c.letter);
      return true;
    default:
      return false;
  }
}

void Machine::dispatch(const Command& c) {
  if (run_alone(c)) return;
  const bool second = c.kind == Kind::Zip || c.kind == Kind::InPlace || c.kind == Kind::MatMul;
  ensure(c, c.a);
  if (second) ensure(c, c.b);
  Slot& a = slot(c.a);
  Slot& b = slot(c.b);
  const int home = c.kind == Kind::Move ? c.device : a.device;
  Tensor result;
  if (where_ == Where::Cpu) {
    result = compute(c, a.tensor, b.tensor);
  } else {
    // Each operand on its own device's stream: where the two differ the harness orders the
    // copy.
    const Stream& at_a = stream(a.device, c.stream);
    const Stream& at_b = stream(b.device, c.stream);
    before(a, at_a, c.wait);
    if (second) before(b, at_b, c.wait);
    const StreamGuard of_b(second ? at_b : at_a);
    const StreamGuard of_result(stream(home, c.stream));
    const StreamGuard of_a(at_a);
    result = compute(c, a.tensor, b.tensor);
    after(a, at_a);
    if (second) after(b, at_b);
  }
  if (c.kind == Kind::InPlace) return;
  const Stream* made_on = where_ == Where::Cpu ? nullptr : &stream(home, c.stream);
  if (c.kind != Kind::Send) return put(c.dst, std::move(result), home, made_on);
  Slot letter{std::move(result), home, std::make_shared<LastUse>()};
  if (made_on != nullptr) after(letter, *made_on);
  letters_->send(c.letter, std::move(letter));
}

Tensor Machine::compute(const Command& c, const Tensor& a, const Tensor& b) {
  const auto fitting = [&]() -> Tensor {
    const Tensor there = b.to(a.device()).to(a.dtype());
    return a.numel() % there.numel() == 0 ? there : there.view({there.numel()}).narrow(0, 1);
  };
  switch (c.kind) {
    case Kind::Zip:
      return zip(c.op, a, fitting());
    case Kind::InPlace:
      return zip_(c.op, a, b.shares_storage(a) ? fitting().clone() : fitting());
    case Kind::Scalar:
      return zip(c.op, a, c.value);
    case Kind::Map:
      return relu(a);
    case Kind::Sum:
      return sum(a);
    case Kind::MatMul: {
      const Tensor left = as_matrix(a.to(DType::Float32));
      const Tensor right = as_matrix(b.to(a.device()).to(DType::Float32));
      return left.size(1) == right.size(0) ? matmul(left, right)
                                           : matmul(left, left, Transpose::Yes);
    }
    case Kind::Sort:
      return sort(
          a.view({a.numel()}).narrow(0, std::min(a.numel(), kMostSorted)).to(DType::Int32));
    case Kind::Cast:
      return c.type == a.dtype() ? a.clone() : a.to(c.type);
    case Kind::Narrow:
      return a.view({a.numel()}).narrow(a.numel() / 4, a.numel() - a.numel() / 2);
    case Kind::Plain: {
      if (where_ == Where::Cpu) return a.clone();
      const Tensor copy(Storage::plain(a.nbytes(), a.device().index()), a.shape(), a.dtype());
      return copy.copy_(a);
    }
    case Kind::Pinned:
      return by_way_of_pinned(a);
    case Kind::Move:
      return where_ == Where::Cpu || place(c.device) == a.device() ? a.clone()
                                                                   : a.to(place(c.device));
    case Kind::Host:
      return where_ == Where::Cpu ? a.clone() : a.cpu().to(a.device());
    default:
      return a.clone();
  }
}

// Both copies asynchronous; the host adds one in between, and lets go of its memory at once.
Tensor Machine::by_way_of_pinned(const Tensor& a) {
  const bool on_cpu = where_ == Where::Cpu;
  const Tensor host = empty(a.shape(), {a.dtype(), Device::cpu(), !on_cpu});
  host.copy_(a, Copy::NonBlocking);
  if (!on_cpu && plant_ != Plant::EarlyRefill)
    Stream::current(a.device().index()).synchronize();
  zip_(Binary::Add, host, 1);
  return on_cpu ? host : host.to(a.device(), Copy::NonBlocking);
}

void Machine::collect(std::vector<std::vector<double>>& values) const {
  for (const Slot& slot : slots_)
    values.push_back(slot.tensor.defined() ? slot.tensor.values() : std::vector<double>{});
}

}  // namespace custash::harness::stress
