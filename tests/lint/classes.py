# SPDX-License-Identifier: MIT
"""No class of the product has more methods or lines than LIMITS, all files that define it together."""
from cpp_reader import Class, read_classes
from source import PRODUCT, files, finish, read

METHODS, LINES = 45, 500
LARGEST = 5


def problems_of(classes):
    return [f"{name}: {c.methods} methods, {c.lines} lines; the limits are {METHODS} and {LINES}"
            for name, c in classes.items() if c.methods > METHODS or c.lines > LINES]


def self_test():
    head = ("namespace n {\nclass Planted : public Base<int> {\n public:\n"
            "  explicit Planted(int a = f({})) : a_{a}, b_(1) {}\n")
    rest = ("  Planted(const Planted&) = delete;\n  // void comment();\n  friend void f(int);\n"
            "  void (*pointer_)(int);\n"
            "  std::function<void(int)> call_;\n  int held_ GUARDED_BY(mutex_) = g();\n"
            "  struct Inner {\n    int x() { return 1; }\n  };\n  int a_{0};\n};\n}\n")

    def planted(methods):
        return head + "".join(f"  [[nodiscard]] int m{i}(std::pair<int, int>) const REQUIRES(mutex_);\n"
                              for i in range(methods - 3)) + "  bool operator()(int) { return \"}\"[0] == '}'; }\n" + \
            "  template <typename T = int>\n  operator T();\n" + rest

    long = "namespace n {\nint Planted::m0(std::pair<int, int> p) const {\n" + "  p = {};\n" * 600 + "}\n}\n"
    found, problems = read_classes({"a.hpp": planted(METHODS)})
    assert not problems, problems
    assert found["n::Planted"].methods == METHODS and found["n::Planted::Inner"] == Class(1, 3), found
    assert not problems_of(found), problems_of(found)
    assert len(problems_of(read_classes({"a.hpp": planted(METHODS + 1)})[0])) == 1, "a method too many is not seen"
    assert len(problems_of(read_classes({"a.hpp": planted(9), "b.cpp": long})[0])) == 1, "a long method is not seen"
    for wrong in ["int Gone::f() {\n}\n", "class A {\n"]:
        assert read_classes({"a.cpp": wrong})[1], f"not said of: {wrong}"


def main():
    self_test()
    texts = {path: read(path) for path in files(*PRODUCT, ends=(".hpp", ".h", ".cpp"))}
    classes, problems = read_classes(texts)
    sizes = sorted(classes.items(), key=lambda item: -max(item[1].methods / METHODS, item[1].lines / LINES))
    for name, c in sizes[:LARGEST]:
        print(f"{name}: {c.methods} methods, {c.lines} lines")
    finish(problems + problems_of(classes), len(classes))


main()
