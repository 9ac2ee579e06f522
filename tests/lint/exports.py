# SPDX-License-Identifier: MIT
"""What libcustash.so, libcustash-check.so and libcustash-torch.so need (libc alone), and what they show (the hooks alone;
its three functions; PyTorch's hooks); and
that neither they nor the programs need a newer glibc than the docs state.

Arguments: the three libraries, the programs. All are for one processor, this machine's or another.
"""
import re
import subprocess
import sys

from source import finish, read

ALLOWED_NEEDED = re.compile(r"libc\.so\.6|ld-linux-\S+\.so\.\d+")
ENGINES = {"cuvidCreateDecoder", "NvEncodeAPICreateInstance"}  # interpose/hooks/exports_engines.cpp
ALLOWED_EXPORT = re.compile(r"dlsym|cu[A-Z]\w*|cuda[A-Z]\w*|custash_\w+|" + "|".join(ENGINES))


# Newer headers rename strtol and its kin. What is built there is for such systems.
RENAMED = re.compile(r"__isoc\d+_\w+")
PAGE = "docs/semantics.md"
CHECK_LIBRARY = {"custash_open_checks", "custash_open_reports", "custash_open_sleep"}  # what it shows


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_of(readelf_text):
    return re.findall(r"\(NEEDED\).*\[(.*?)\]", readelf_text)


def exported_of(readelf_text):
    """Names without their version, of `readelf --dyn-syms -W`; version nodes (ABS) are no symbols."""
    return set(re.findall(r"^\s+\d+: \S+\s+\S+ \w+\s+(?:GLOBAL|WEAK)\s+\S+\s+\d+ (\w+)", readelf_text, re.M))


def machine_of(readelf_text):
    return re.search(r"Machine:\s+(.+)", readelf_text)[1]


def entries_of(definition):
    """The symbols of entry_points.def: rows KIND(symbol, forms, …); forms adds a name with its ending."""
    symbols = set()
    for symbol, forms in re.findall(r"^[A-Z]+\((cu\w+)(?:, (\w+))?", definition, re.M):
        symbols.add(symbol)
        if forms in ("Ptsz", "Ptds"):
            symbols.add(f"{symbol}_{forms.lower()}")
    return symbols


def declared_of(header):
    return set(re.findall(r"\b(custash_[a-z]\w*(?<!_t))\s*\(", re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.S)))


def glibc_of(readelf_text):
    """{symbol: (2, 34)} of `readelf --dyn-syms -W`."""
    found = re.findall(r"\bUND (\w+)@GLIBC_(\d+)\.(\d+)", readelf_text)
    return {name: (int(major), int(minor)) for name, major, minor in found}


def stated_in(page):
    """The oldest glibc that a page promises to run on."""
    return tuple(int(part) for part in re.search(r"glibc (\d+)\.(\d+) or later", page).groups())


def newer_than(stated, symbols):
    return [f"{name}: of glibc {major}.{minor}, newer than {stated[0]}.{stated[1]}, which the docs state"
            for name, (major, minor) in sorted(symbols.items())
            if (major, minor) > stated and not RENAMED.fullmatch(name)]


def versions_of(readelf_text):
    """{(2, 34), …} of `readelf -V -W`: what the loader asks glibc for before anything runs."""
    needs = readelf_text.split("Version needs section")[-1]
    return {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needs)}


def glibc_problems(binary, stated, symbols, versions):
    """A version that no undefined symbol has is that of data which the program copies."""
    if not symbols or not versions:
        return [f"{binary}: readelf shows nothing of glibc"]
    renamed = {version for name, version in symbols.items() if RENAMED.fullmatch(name)}
    return [f"{binary}: {each}" for each in newer_than(stated, symbols)] + [
        f"{binary}: needs glibc {major}.{minor}, newer than {stated[0]}.{stated[1]}, which the docs state"
        for major, minor in sorted(versions - renamed) if (major, minor) > stated]


def problems_of(needed, exported, entries, declared):
    problems = [f"NEEDED {name}: only libc may be" for name in needed if not ALLOWED_NEEDED.fullmatch(name)]
    problems += [f"exports {name}: not a hook of ours" for name in sorted(exported)
                 if not ALLOWED_EXPORT.fullmatch(name)]
    problems += [f"{name}: in entry_points.def, not exported" for name in sorted(entries - exported)]
    problems += [f"{name}: exported, not in entry_points.def" for name in sorted(exported - entries)
                 if name.startswith("cu") and not name.startswith("custash_")]
    problems += [f"{name}: in custash.h, not exported" for name in sorted(declared - exported)]
    problems += [f"{name}: exported, not in custash.h" for name in sorted(exported - declared)
                 if name.startswith("custash_")]
    if "dlsym" not in exported:
        problems.append("dlsym is not exported")
    return problems


def small_library_problems(name, needed, exported, wanted):
    problems = [f"{name}: NEEDED {each}: only libc may be" for each in needed if not ALLOWED_NEEDED.fullmatch(each)]
    return problems + [f"{name}: shows {sorted(exported)}"] * (exported != wanted)


def self_test():
    one = CHECK_LIBRARY
    assert not small_library_problems("l", ["libc.so.6"], one, one)
    assert small_library_problems("l", ["libc.so.6", "libgcc_s.so.1"], one, one)
    assert small_library_problems("l", ["libc.so.6"], {*one, "custash_malloc"}, one)
    exported = {"dlsym", "cuMemAlloc_v2", "custash_malloc"}
    fine = (["libc.so.6", "ld-linux-x86-64.so.2"], exported, {"cuMemAlloc_v2"}, {"custash_malloc"})
    assert not problems_of(*fine)
    assert problems_of(fine[0] + ["libstdc++.so.6"], *fine[1:])
    assert problems_of(fine[0] + ["libcuda.so.1"], *fine[1:])
    assert problems_of(fine[0], exported | {"_ZN7custash5thingE"}, *fine[2:])
    assert problems_of(fine[0], exported, {"cuMemFree_v2"}, fine[3])
    assert problems_of(fine[0], exported, fine[2], {"custash_malloc", "custash_free"})
    assert problems_of(fine[0], exported | {"cuMemFree_v2"}, *fine[2:])
    assert problems_of(fine[0], exported - {"dlsym"}, *fine[2:])
    shown = exported_of("     7: 0000 0 FUNC    GLOBAL DEFAULT  UND free@GLIBC_2.17 (4)\n"
                        "   900: 00000000004018f0   552 FUNC    GLOBAL DEFAULT   12 cuMemAlloc_v2\n"
                        "   901: 00000000004018f0  0x552 FUNC    WEAK   DEFAULT   12 custash_malloc@@CUSTASH_1\n"
                        "   902: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  ABS CUSTASH_1\n")
    assert shown == {"cuMemAlloc_v2", "custash_malloc"}, shown
    assert machine_of("  Machine:                           AArch64\n") == "AArch64"
    rows = "// KIND(cuNot, One)\nA(cuOne, One, x)\nB(cuTwo, Ptsz, (CUstream s), (s))\nRUNTIME(cudaThree)\n"
    symbols = glibc_of("  7: 0 0 FUNC GLOBAL DEFAULT UND arc4random@GLIBC_2.36 (9)\n"
                       "  8: 0 0 FUNC GLOBAL DEFAULT UND __isoc23_strtol@GLIBC_2.38 (9)\n"
                       "  9: 0 0 FUNC GLOBAL DEFAULT UND free@GLIBC_2.2.5 (4)\n")
    assert len(symbols) == 3 and len(newer_than((2, 35), symbols)) == 1 and not newer_than((2, 36), symbols)
    needs = "Version needs section '.gnu.version_r'\n  0x10: Name: GLIBC_2.36  Flags: none\n  0x20: Name: GLIBC_2.2.5\n"
    assert versions_of(needs) == {(2, 36), (2, 2)}
    old = {"free": (2, 2)}
    assert not glibc_problems("b", (2, 36), old, versions_of(needs))
    assert len(glibc_problems("b", (2, 35), old, versions_of(needs))) == 1
    assert glibc_problems("b", (2, 36), {}, set())
    assert not glibc_problems("b", (2, 34), {**old, "__isoc23_strtol": (2, 38)}, {(2, 2), (2, 38)})
    assert stated_in("x86-64, glibc 2.9 or later.") == (2, 9)
    assert entries_of(rows) == {"cuOne", "cuTwo", "cuTwo_ptsz", "cudaThree"}


def main():
    self_test()
    library = sys.argv[1]
    exported = exported_of(run("readelf", "--dyn-syms", "-W", library))
    entries = entries_of(read("interpose/real/entry_points.def")) | ENGINES
    problems = problems_of(needed_of(run("readelf", "-d", library)), exported, entries,
                           declared_of(read("interpose/api/custash.h")))
    for other, wanted in ((sys.argv[2], CHECK_LIBRARY),
                          (sys.argv[3], declared_of(read("interpose/torch/torch.h")))):
        problems += small_library_problems(other, needed_of(run("readelf", "-d", other)),
                                           exported_of(run("readelf", "--dyn-syms", "-W", other)), wanted)
    stated = stated_in(read(PAGE))
    machines = {machine_of(run("readelf", "-h", binary)) for binary in sys.argv[1:]}
    if len(machines) != 1:
        problems.append(f"the library and the programs are for several processors: {', '.join(sorted(machines))}")
    for binary in sys.argv[1:]:
        symbols = glibc_of(run("readelf", "--dyn-syms", "-W", binary))
        versions = versions_of(run("readelf", "-V", "-W", binary))
        problems += glibc_problems(binary, stated, symbols, versions)
        # A control: each of them needs something newer than glibc 2.2, for aarch64 its first, 2.17.
        if len(glibc_problems(binary, (2, 2), symbols, versions)) < 2:
            problems.append(f"{binary}: this lint is blind: it finds nothing that is newer than glibc 2.2")
    finish(problems, len(exported))


main()
