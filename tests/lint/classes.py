# SPDX-License-Identifier: MIT
"""No class of the product has more methods or lines than LIMITS, all files that define it together, or shows more
data beside methods. What it takes over from its bases by `using` counts as its own. And each function is defined in
the folder that declares it."""
from cpp_reader import Class, read_classes
from source import PRODUCT, files, finish, read

METHODS, LINES, DATA = 38, 462, 27
LARGEST = 5
# Functions that another folder defines than declares them, and why.
ELSEWHERE = {
    "custash::process::build": "the composition root, interpose/startup.cpp, builds the core",
    "custash::open_check_library": "the composition root opens the library of checks",
    "custash::open_report_library": "the same",
    "custash::open_sleep_library": "the same",
}


def problems_of(classes, astray=()):
    sizes = [f"{name}: {c.methods} methods, {c.lines} lines, {c.data} public data members; "
             f"the limits are {METHODS}, {LINES} and {DATA}"
             for name, c in classes.items()
             if c.methods > METHODS or c.lines > LINES or (c.methods and c.data > DATA)]
    return sizes + [f"{path}: defines a function of {name}, which another folder declares"
                    for name, path in astray if name not in ELSEWHERE]


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
    found, problems, _ = read_classes({"a.hpp": planted(METHODS)})
    assert not problems, problems
    assert found["n::Planted"].methods == METHODS and found["n::Planted::Inner"] == Class(1, 3), found
    assert not problems_of(found), problems_of(found)
    assert len(problems_of(read_classes({"a.hpp": planted(METHODS + 1)})[0])) == 1, "a method too many is not seen"
    assert len(problems_of(read_classes({"a.hpp": planted(9), "b.cpp": long})[0])) == 1, "a long method is not seen"
    taken = planted(METHODS - 1).replace(" public:\n", " public:\n  using Base::f, Base<int>::g;\n  using Type = int;\n", 1)
    assert read_classes({"a.hpp": taken})[0]["n::Planted"].methods == METHODS + 1, "names of a base do not count"
    shown = "struct Shown {\n  int f();\n" + "".join(f"  int a{i} = 0, b{i}{{}};\n" for i in range(DATA)) + \
        "  static constexpr int kNone = 0;\n  enum E { A, B };\n private:\n  int hidden_;\n};\n"
    assert read_classes({"a.hpp": shown})[0]["Shown"].data == 2 * DATA, "public data is not counted"
    assert len(problems_of(read_classes({"a.hpp": shown})[0])) == 1, "much public data is not seen"
    assert not problems_of(read_classes({"a.hpp": shown.replace("  int f();\n", "")})[0]), "a record is not exempt"
    below = {"low/a.hpp": "namespace n {\nclass A {\n  void f();\n};\nvoid g();\n}\n",
             "low/a.cpp": "namespace n {\nvoid A::f() {}\nvoid g() {}\n}\n"}
    assert not read_classes(below)[2], read_classes(below)[2]
    weak = {"low/a.cpp": 'extern "C" void g();\n', "high/a.cpp": "void g() {}\n"}
    assert not read_classes(weak)[2], "a declaration in a .cpp file is no promise of its folder"
    above = {"low/a.hpp": below["low/a.hpp"], "high/a.cpp": below["low/a.cpp"]}
    assert len(problems_of({}, read_classes(above)[2])) == 2, "functions defined in a folder above are not seen"
    for wrong in ["int Gone::f() {\n}\n", "class A {\n"]:
        assert read_classes({"a.cpp": wrong})[1], f"not said of: {wrong}"


def main():
    self_test()
    texts = {path: read(path) for path in files(*PRODUCT, ends=(".hpp", ".h", ".cpp"))}
    classes, problems, astray = read_classes(texts)
    problems += [f"{name} is an exception for nothing" for name in ELSEWHERE if name not in dict(astray)]
    sizes = sorted(classes.items(), key=lambda item: -max(item[1].methods / METHODS, item[1].lines / LINES))
    for name, c in sizes[:LARGEST]:
        print(f"{name}: {c.methods} methods, {c.lines} lines")
    finish(problems + problems_of(classes, astray), len(classes))


main()
