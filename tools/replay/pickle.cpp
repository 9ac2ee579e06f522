// SPDX-License-Identifier: MIT
// The opcodes are those of CPython's pickletools.py; each is named where it is read.
#include "tools/replay/pickle.hpp"

#include "tools/replay/trace.hpp"

namespace custash::replay {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 26;
constexpr std::size_t kMostPlaces = std::size_t{1} << 27;
constexpr std::size_t kMostWork = std::size_t{1} << 29;  // some seconds

std::string_view code_that_runs(std::uint8_t opcode) {
  switch (opcode) {
    case 'c':
    case 0x93:
      return "GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x81:
    case 0x92:
      return "NEWOBJ";
    case 'P':
    case 'Q':
      return "PERSID";
    case 0x82:
    case 0x83:
    case 0x84:
      return "EXT";
    default:
      return {};
  }
}

}  // namespace

Pickle::Pickle(std::string_view name, std::string_view bytes, const Told& progress)
    : name_(name), bytes_(bytes) {
  read_all(progress);
}

void Pickle::fail(std::string_view why) const {
  throw BadTrace(std::string(name_) + ": byte " + std::to_string(at_) + ": " +
                 std::string(why));
}

std::uint64_t Pickle::number(std::size_t bytes) {
  if (bytes > bytes_.size() - at_) fail("the pickle ends too early");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_ + i])} << (8 * i);
  at_ += bytes;
  return value;
}

void Pickle::spend(std::size_t work) const {
  spent_ += work;
  if (spent_ > kMostWork)
    throw BadTrace(std::string(name_) + ": takes more work than a snapshot can sensibly need");
}

void Pickle::push(Value value) {
  if (values_.size() >= kMostValues) fail("more values than a snapshot can sensibly hold");
  stack_.push_back(static_cast<Ref>(values_.size()));
  values_.push_back(value);
}

Pickle::Ref Pickle::pop() {
  const Ref top = stack_.at(last(1));
  stack_.pop_back();
  return top;
}

// Where the last n values on the stack begin; not beyond a mark.
std::size_t Pickle::last(std::size_t n) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + n) fail("too few values on the stack");
  return stack_.size() - n;
}

std::size_t Pickle::pop_mark() {
  if (marks_.empty()) fail("no mark on the stack");
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

void Pickle::push_long(std::uint64_t bytes) {
  if (bytes > bytes_.size() - at_) fail("the pickle ends too early");
  constexpr std::size_t kFits = 8;
  // The sign bit of the highest byte. A char is signed on x86-64 and unsigned on aarch64.
  const bool negative =
      bytes > 0 && static_cast<std::uint8_t>(bytes_[at_ + bytes - 1]) >= 0x80U;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes_[at_ + i]);
    if (i >= kFits && byte != (negative ? 0xff : 0)) fail("a number of more than 64 bits");
    if (i >= kFits) continue;
    value &= ~(std::uint64_t{0xff} << (8 * i));
    value |= std::uint64_t{byte} << (8 * i);
  }
  at_ += bytes;
  push({Type::Integer, 0, static_cast<std::int64_t>(value), 0});
}

void Pickle::push_text(std::uint64_t bytes) {
  if (bytes > bytes_.size() - at_) fail("the pickle ends too early");
  push({Type::Text, 0, static_cast<std::int64_t>(at_), bytes});
  at_ += bytes;
}

void Pickle::push_container(Type type, std::size_t from) {
  if (type == Type::Dict && (stack_.size() - from) % 2 != 0) fail("a key without a value");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto container = static_cast<std::uint32_t>(containers_.size());
  count_places(stack_.size() - from);
  containers_.emplace_back(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  push({type, container, 0, 0});
}

void Pickle::count_places(std::size_t more) {
  places_ += more;
  if (places_ > kMostPlaces) fail("longer lists than a snapshot can sensibly hold");
}

// What stands from `from` on goes into the container before it.
void Pickle::append(Type type, std::size_t from) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (from <= floor) fail("nothing to add to");
  const Value& target = values_[stack_[from - 1]];
  if (target.type != type) fail("values added to what does not hold any");
  if (type == Type::Dict && (stack_.size() - from) % 2 != 0) fail("a key without a value");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(from);
  count_places(stack_.size() - from);
  auto& items = containers_[target.container];
  items.insert(items.end(), begin, stack_.end());
  stack_.erase(begin, stack_.end());
}

void Pickle::get_memo(std::uint64_t key) {
  const auto it = memo_.find(key);
  if (it == memo_.end()) fail("a value that was never stored is read");
  stack_.push_back(it->second);
}

bool Pickle::step_scalar(std::uint8_t opcode) {
  switch (opcode) {
    case 'N':  // NONE
      return push({}), true;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return push({Type::Bool, 0, opcode == 0x88 ? 1 : 0, 0}), true;
    case 'J':  // BININT
      return push({Type::Integer, 0, static_cast<std::int32_t>(number(4)), 0}), true;
    case 'K':  // BININT1
    case 'M':  // BININT2
      return push({Type::Integer,
                   0,
                   static_cast<std::int64_t>(number(opcode == 'K' ? 1 : 2)),
                   0}),
             true;
    case 0x8a:  // LONG1
    case 0x8b:  // LONG4
      return push_long(number(opcode == 0x8a ? 1 : 4)), true;
    case 'G':  // BINFLOAT: nothing that we ask for is one
      return number(8), push({Type::Real, 0, 0, 0}), true;
    case 0x8c:  // SHORT_BINUNICODE
    case 'C':   // SHORT_BINBYTES
      return push_text(number(1)), true;
    case 'X':  // BINUNICODE
    case 'B':  // BINBYTES
      return push_text(number(4)), true;
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      return push_text(number(8)), true;
    default:
      return false;
  }
}

bool Pickle::step_container(std::uint8_t opcode) {
  switch (opcode) {
    case ']':   // EMPTY_LIST
    case ')':   // EMPTY_TUPLE
    case 0x8f:  // EMPTY_SET
      return push_container(Type::List, stack_.size()), true;
    case '}':  // EMPTY_DICT
      return push_container(Type::Dict, stack_.size()), true;
    case 'l':   // LIST
    case 't':   // TUPLE
    case 0x91:  // FROZENSET
      return push_container(Type::List, pop_mark()), true;
    case 'd':  // DICT
      return push_container(Type::Dict, pop_mark()), true;
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      return push_container(Type::List, last(opcode - 0x84)), true;
    case 'a':  // APPEND
      return append(Type::List, last(1)), true;
    case 'e':   // APPENDS
    case 0x90:  // ADDITEMS
      return append(Type::List, pop_mark()), true;
    case 's':  // SETITEM
      return append(Type::Dict, last(2)), true;
    case 'u':  // SETITEMS
      return append(Type::Dict, pop_mark()), true;
    default:
      return false;
  }
}

bool Pickle::step_stack(std::uint8_t opcode) {
  switch (opcode) {
    case 0x80:  // PROTO
      if (const auto protocol = number(1); protocol < 2 || protocol > 5)
        fail("a pickle of protocol " + std::to_string(protocol) + ", not 2 to 5");
      return true;
    case 0x95:  // FRAME
      return number(8), true;
    case '(':  // MARK
      return marks_.push_back(stack_.size()), true;
    case '0':  // POP
      return pop(), true;
    case '1':  // POP_MARK
      return stack_.resize(pop_mark()), true;
    case '2':  // DUP
      return stack_.push_back(stack_.at(last(1))), true;
    case 'q':  // BINPUT
    case 'r':  // LONG_BINPUT
      return memo_[number(opcode == 'q' ? 1 : 4)] = stack_.at(last(1)), true;
    case 0x94:  // MEMOIZE
      return memo_[memo_.size()] = stack_.at(last(1)), true;
    case 'h':  // BINGET
    case 'j':  // LONG_BINGET
      return get_memo(number(opcode == 'h' ? 1 : 4)), true;
    default:
      return false;
  }
}

void Pickle::step(std::uint8_t opcode) {
  if (step_scalar(opcode) || step_container(opcode) || step_stack(opcode)) return;
  --at_;
  const std::string_view runs = code_that_runs(opcode);
  if (!runs.empty())
    fail("it would run code (" + std::string(runs) + "), and no snapshot needs to");
  fail("an opcode that is not known");
}

void Pickle::read_all(const Told& progress) {
  constexpr std::uint8_t kStop = '.';
  std::size_t next = 0;
  for (auto opcode = static_cast<std::uint8_t>(number(1)); opcode != kStop;
       opcode = static_cast<std::uint8_t>(number(1))) {
    step(opcode);
    if (!progress || at_ < next) continue;
    progress(at_, bytes_.size());
    next = at_ + bytes_.size() / 100;
  }
  root_ = pop();
  stack_ = {};
  memo_ = {};
}

Pickle::Type Pickle::type(Ref value) const {
  return value == kNothing ? Type::None : values_[value].type;
}

std::int64_t Pickle::integer(Ref value) const {
  const Type its = type(value);
  return its == Type::Integer || its == Type::Bool ? values_[value].integer : 0;
}

std::string_view Pickle::text(Ref value) const {
  if (type(value) != Type::Text) return {};
  return bytes_.substr(static_cast<std::size_t>(values_[value].integer), values_[value].size);
}

const std::vector<Pickle::Ref>& Pickle::items(Ref value) const {
  static const std::vector<Ref> none;
  return type(value) == Type::List ? containers_[values_[value].container] : none;
}

Pickle::Ref Pickle::get(Ref dict, std::string_view key) const {
  if (type(dict) != Type::Dict) return kNothing;
  const std::vector<Ref>& pairs = containers_[values_[dict].container];
  std::size_t i = pairs.size();
  while (i >= 2 && !(type(pairs[i - 2]) == Type::Text && text(pairs[i - 2]) == key))
    i -= 2;
  spend((pairs.size() - i) / 2 + 1);
  return i >= 2 ? pairs[i - 1] : kNothing;
}

}  // namespace custash::replay
