# SPDX-License-Identifier: MIT
"""An atomic access without a named order is sequentially consistent. A file that names a weaker one says why: a
comment with `Order:` there, or in the header or source of the same name. It lists the accesses by their order."""
import collections
import os
import re

from source import files, finish, read

WEAKER = re.compile(r"memory_order_(?:relaxed|acquire|release|acq_rel)|__ATOMIC_(?:RELAXED|ACQUIRE|RELEASE|ACQ_REL)")
ORDERS = re.compile(r"memory_order_(\w+)")
ACCESS = re.compile(r"[.>](?:load|store|exchange|fetch_\w+|compare_exchange_\w+)\(")
NAMED_ELSEWHERE = "process::current.load(std::memory_order_acquire)"  # process.hpp says why


def code_of(text):
    return re.sub(r"//[^\n]*", "", text).replace(NAMED_ELSEWHERE, "")


def problems_of(texts):
    """`texts`: by path."""
    says_why = {os.path.splitext(path)[0] for path, text in texts.items() if re.search(r"// .*\bOrder:\s", text)}
    return [f"{path}: names an order weaker than seq_cst; say why in a comment with `Order:`"
            for path, text in sorted(texts.items())
            if WEAKER.search(code_of(text)) and os.path.splitext(path)[0] not in says_why]


def self_test():
    weak = "value.load(std::memory_order_relaxed);"
    assert problems_of({"a.cpp": weak})
    assert problems_of({"a.cpp": "// in order: " + weak + "\n" + weak, "b.hpp": "// Order: none."})
    assert problems_of({"a.cpp": "__atomic_load_n(&a, __ATOMIC_ACQUIRE)"})
    for good in ({"a.cpp": "// Order: none.\n" + weak}, {"a.cpp": weak, "a.hpp": "// All. Order: none."},
                 {"a.cpp": "value.load();"}, {"a.cpp": NAMED_ELSEWHERE}, {"a.cpp": "value.load(std::memory_order_seq_cst)"}):
        assert not problems_of(good), good


def main():
    self_test()
    texts = {path: read(path) for path in files("allocator", "pinned", "interpose", ends=(".cpp", ".hpp", ".h"))}
    counts = collections.Counter()
    for text in texts.values():
        code = re.sub(r"//[^\n]*", "", text)
        if "atomic" in code or "memory_order" in code or ACCESS.search(code):
            orders = ORDERS.findall(code)
            counts.update(orders)
            counts["seq_cst, not named"] += max(0, len(ACCESS.findall(code)) - len(orders))
    print(", ".join(f"{count} {order}" for order, count in counts.most_common()))
    finish(problems_of(texts), len(texts))


main()
