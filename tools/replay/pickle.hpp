// SPDX-License-Identifier: MIT
// Pickle: a reader of Python pickles, protocols 2 to 5, that runs nothing. It builds plain
// values (None, booleans, whole numbers, floats, text, bytes, lists, tuples, sets,
// dictionaries) and refuses every opcode that names a class or calls anything. Memory is
// bounded by a small multiple of the pickle's own size; text is not copied, so the bytes must
// outlive the values. A value may be in millions of places at two bytes each, so that what is
// looked up is bounded, too.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace custash::replay {

class Pickle {
 public:
  enum class Type : std::uint8_t { None, Bool, Integer, Real, Text, List, Dict };
  using Ref = std::uint32_t;  // of a value; a value may be in many places, even in itself
  static constexpr Ref kNothing = ~Ref{0};

  // Called now and then with how many bytes of how many have been read.
  using Told = std::function<void(std::size_t done, std::size_t all)>;

  // Throws BadTrace ("NAME: byte N: why").
  Pickle(std::string_view name, std::string_view bytes, const Told& progress = {});

  [[nodiscard]] Ref root() const { return root_; }

  // What is asked of a value of another type, or of kNothing, is nothing: 0, empty, kNothing.
  [[nodiscard]] Type type(Ref value) const;
  [[nodiscard]] std::int64_t integer(Ref value) const;  // True is 1
  [[nodiscard]] std::string_view text(Ref value) const;
  [[nodiscard]] const std::vector<Ref>& items(Ref value) const;  // of a list, tuple or set
  [[nodiscard]] Ref get(Ref dict, std::string_view key) const;   // the last so named

  // Counts keys that were compared, or bytes that were copied. Throws BadTrace beyond what any
  // snapshot needs.
  void spend(std::size_t work) const;

 private:
  struct Value {
    Type type = Type::None;
    std::uint32_t container = 0;  // of a list (items) or a dictionary (keys and values in turn)
    std::int64_t integer = 0;     // of text: where its first byte stands
    std::uint64_t size = 0;       // of text
  };

  void read_all(const Told& progress);
  void step(std::uint8_t opcode);
  bool step_scalar(std::uint8_t opcode);
  bool step_container(std::uint8_t opcode);
  bool step_stack(std::uint8_t opcode);
  [[noreturn]] void fail(std::string_view why) const;
  std::uint64_t number(std::size_t bytes);
  void push(Value value);
  void push_long(std::uint64_t bytes);
  void push_text(std::uint64_t bytes);
  void push_container(Type type, std::size_t from);
  void count_places(std::size_t more);
  void append(Type type, std::size_t from);
  Ref pop();
  std::size_t pop_mark();
  [[nodiscard]] std::size_t last(std::size_t n) const;
  void get_memo(std::uint64_t key);

  std::string_view name_;
  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t places_ = 0;  // of values in containers
  mutable std::size_t spent_ = 0;
  std::vector<Value> values_;
  std::vector<std::vector<Ref>> containers_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Ref> memo_;
  Ref root_ = kNothing;
};

}  // namespace custash::replay
