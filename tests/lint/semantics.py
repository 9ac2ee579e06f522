# SPDX-License-Identifier: MIT
"""docs/semantics.md has each entry point in one row, and the tests that its rows name exist and name it.

Rows of entry points are those of tables that begin with a column `entry`; the last column names
tests: `a file of tests/`, `a file:a name in it`, or "a test case". One of these files, or a program of the same name
beside it, names the entry or what the runtime calls it; a name without its version stands for each version. That
forwards.py calls every entry does not count: it shows no more than the arguments and the code. Tables that begin with a column
`calls` name what passes by (a name that ends in … stands for all that begin so): with them, each function
of the toolkit's cuda.h is on the page, if the page claims to know that version.
"""
import os
import re
import subprocess

from source import ROOT, files, finish, read

PAGE = "docs/semantics.md"
FORWARDS = "tests/process/forwards.py"
GENERIC = (FORWARDS, "tests/process/signatures.cpp")  # name no entry, or all
RUNTIME = {"cuCtxSynchronize": "cudaDeviceSynchronize", "cuMemHostGetDevicePointer": "cudaHostGetDevicePointer",
           "cuMemHostRegister": "cudaHostRegister", "cuMemHostUnregister": "cudaHostUnregister"}
# No test calls these but forwards.py, which their rows say. Remove one with its test; add none.
FORWARDED = set("""
cuCtxCreate_v4 cuCtxDestroy cuCtxDetach cuCtxSynchronize_v2 cuCtxWaitEvent cuDevicePrimaryCtxSetFlags
cuEventRecordWithFlags cuExternalMemoryGetMappedBuffer cuFabricCpyBatchAsync cuFuncLoad cuGraphAddBatchMemOpNode
cuGraphBatchMemOpNodeSetParams cuGraphExecBatchMemOpNodeSetParams cuGraphExecUpdate cuGraphInstantiate
cuGraphInstantiateWithParams cuGraphInstantiate_v2 cuGraphMemsetNodeSetParams cuLaunch
cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync cuLaunchHostFunc_v2 cuLibraryEnumerateKernels
cuLibraryGetGlobal cuLibraryGetModule cuLibraryLoadFromFile cuLinkComplete cuLogicalEndpointBindAddr
cuLogicalEndpointBindMem cuMemAlloc cuMemBatchDecompressAsync cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync
cuMemFree cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemPrefetchBatchAsync cuMemSetMemPool cuMemcpy3DBatchAsync
cuMemcpy3DPeer cuMemcpy3DWithAttributesAsync cuMemcpyAtoA_v2 cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 cuMemcpyDtoA_v2
cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2 cuMemcpyWithAttributesAsync cuModuleGetGlobal_v2 cuModuleLoad cuModuleLoadDataEx
cuModuleLoadFatBinary cuSignalExternalSemaphoresAsync cuStreamAttachMemAsync cuStreamBeginRecaptureToGraph
cuStreamDestroy cuStreamWaitValue64 cuStreamWaitValue64_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddress_v2
cuWaitExternalSemaphoresAsync
""".split())
CASE = re.compile(r'\bTEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def rows_of(page, head="entry"):
    """Cells of each row of a table that begins with such a column."""
    rows = []
    inside = False
    for line in page.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] == head:
            inside = True
        elif inside and not line.startswith("| ---"):
            rows.append(cells)
    return rows


def functions_of(header):
    """What cuda.h declares, and what it renames that to; the forms of per-thread streams stand for themselves."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.S)
    names = re.findall(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(", code)
    names += re.findall(r"#\s*define\s+cu[A-Z]\w+\s+(?:__CUDA_API_PT[DS][SZ]\s*\(\s*)?(cu[A-Z]\w+)", code)
    return {re.sub(r"_pt[ds][sz]$", "", name) for name in names}


def allocating_of(header):
    """Functions of cuda_runtime_api.h that allocate or free, by their names."""
    return set(re.findall(r"CUDARTAPI\s+(cuda\w*(?:Malloc|Free|Alloc)(?!\w*GetParams)\w*)\s*\(", header))


def unknown_of(page, functions, names):
    """Functions that the page says nothing of. An older form of an entry passes by."""
    def split(name):
        base, version = re.fullmatch(r"(\w+?)(?:_v(\d+))?", name).groups()
        return base, int(version or 1)

    newest = {}
    for base, version in map(split, names):
        newest[base] = max(version, newest.get(base, 0))
    passing = [name for row in rows_of(page, "calls") for name in re.findall(r"`(\w+…?)`", row[0])]
    return [f"{PAGE}: {name} of the toolkit is not on the page" for name in sorted(functions - names)
            if newest.get(split(name)[0], 0) <= split(name)[1]
            and not any(name == p or p[-1] == "…" and name.startswith(p[:-1]) for p in passing)]


def toolkit_problems(page, names):
    folder = subprocess.run([os.path.join(ROOT, "tools/find-cuda")], capture_output=True, text=True,
                            check=True).stdout.strip()
    texts = [open(os.path.join(folder, "include", name), encoding="utf-8", errors="replace").read()
             for name in ("cuda.h", "cuda_runtime_api.h")]
    version = int(re.search(r"#define CUDA_VERSION (\d+)", texts[0]).group(1))
    known = re.search(r"`cuda\.h`, 11\.8 to (\d+)\.(\d+)", page)
    if version > int(known[1]) * 1000 + int(known[2]) * 10:
        return []
    runtime = set(re.findall(r"^RUNTIME\((\w+)\)", read("interpose/real/entry_points.def"), re.M))
    return unknown_of(page, functions_of(texts[0]), names) + unknown_of(page, allocating_of(texts[1]), runtime)


def cases_of(text):
    """Names of Catch2 test cases; one may be written in pieces."""
    return {"".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found)) for found in CASE.findall(text)}


def names_of(definition, header):
    """What needs a row: entry_points.def without the forms, and the functions of custash.h."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.S)
    return set(re.findall(r"^[A-Z]+\((cu\w+)", definition, re.M)) | set(
        re.findall(r"\bCUSTASH_API\s[^;(]*?\b(custash_\w+)\s*\(", code))


def test_problems(cell, texts, cases):
    """What is wrong with the tests that a last cell names."""
    references = [r for r in re.findall(r"`([^`]+)`", cell) if "/" in r]
    quoted = re.findall(r'"([^"]+)"', cell)
    problems = [] if references or quoted else ["names no test"]
    for reference in references:
        path, _, name = reference.partition(":")
        if path not in texts:
            problems.append(f"{path} is no file of tests/")
        elif name and not re.search(rf"\b{re.escape(name)}\b", texts[path]):
            problems.append(f"{name} is not in {path}")
    return problems + [f'no test case "{name}"' for name in quoted if name not in cases]


def is_named(entry, cell, texts):
    """Whether a file that the cell cites names the entry."""
    base = re.sub(r"(_v\d+)?(_pt[ds][sz])?$", "", entry)
    words = [entry, base, re.sub("^custash_", "custash\\\\.", base), RUNTIME.get(base, "")] + (["cuda" + base[2:]] if re.match("cu[A-Z]", base) else [])
    cited = {os.path.splitext(found.partition(":")[0])[0] for found in re.findall(r"`(tests/[^`]+)`", cell)
             if found.partition(":")[0] not in GENERIC}
    cited |= {os.path.splitext(path)[0] for name in re.findall(r'"([^"]+)"', cell) for path in texts if path.endswith(".cpp")
              and f'"{name}"' in texts[path]}
    said = "\n".join(text for path, text in texts.items() if os.path.splitext(path)[0] in cited)
    return any(word and re.search(rf"\b{word}\b", said) for word in words)


def unnamed_of(row, texts, forwarded):
    """Entries of the row that its tests do not name, but for those that are known to have none and say so."""
    problems = []
    for entry in re.findall(r"`(\w+)`", row[0]):
        named = is_named(entry, row[-1], texts)
        if entry in forwarded and named:
            problems.append(f"{entry} has a test: remove it from FORWARDED in tests/lint/semantics.py")
        elif entry in forwarded and FORWARDS not in row[-1]:
            problems.append(f"{entry} is forwarded alone, which the row does not say")
        elif entry not in forwarded and not named:
            problems.append(f"no test of the row names {entry}")
    return problems


def problems_of(page, names, texts, cases, forwarded=frozenset()):
    problems = []
    rows_with = {}
    for row in rows_of(page):
        for name in re.findall(r"`(\w+)`", row[0]):
            rows_with[name] = rows_with.get(name, 0) + 1
        problems += [f"{PAGE}: {row[0][:60]}: {p}" for p in test_problems(row[-1], texts, cases) + unnamed_of(row, texts, forwarded)]
    problems += [f"{PAGE}: {name} has no row" for name in sorted(names - set(rows_with))]
    problems += [f"{PAGE}: {name} has {count} rows" for name, count in sorted(rows_with.items()) if count > 1]
    problems += [f"{PAGE}: {name} is no entry point" for name in sorted(set(rows_with) - names)]
    return problems


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    texts = {"tests/a.c": "void plain(void) { cuOne(); cudaTwo(); custash_a(); }", "tests/a.py": "", FORWARDS: "cuOne"}
    cases = cases_of('TEST_CASE("one "\n  "two", "[tag]") {}\n  TEST_CASE("three") {')
    assert cases == {"one two", "three"}, cases
    names = names_of("A(cuOne, One)\n// B(cuNot, One)\nB(cuTwo, Ptsz)\n",
                     "/* custash_not(x) */\nCUSTASH_API int custash_a(void);\n")
    assert names == {"cuOne", "cuTwo", "custash_a"}, names
    page = ('| entry | test |\n| --- | --- |\n| `cuOne`, `cuTwo` | `tests/a.c:plain`, "three" |\n'
            "| `custash_a` | `tests/a.c` |\n\n| call | test |\n| --- | --- |\n| `cuThree` | none |\n")
    assert not problems_of(page, names, texts, cases), problems_of(page, names, texts, cases)
    for good, bad in [("`cuOne`, ", ""), ("`cuTwo`", "`cuTwo`, `custash_a`"), ("`cuTwo`", "`cuTwo`, `cuFour`"),
                      ("`tests/a.c:plain`, \"three\"", "form only"), ("a.c:plain", "b.c"), ("a.c:plain", "a.c:plai"),
                      ('"three"', '"four"'), ("| call |", "| entry |")]:
        assert good in page and problems_of(page.replace(good, bad, 1), names, texts, cases), (good, bad)
    row = ["`cuOne_v2`, `cuTwo`", "`tests/a.py`"]
    assert not unnamed_of(row, texts, set()) and len(unnamed_of([row[0], f"`{FORWARDS}`"], texts, set())) == 2
    assert len(unnamed_of(["`cuOn`", "`tests/a.c`"], texts, set())) == 1
    for cell, known, count in ((f"`{FORWARDS}`", {"cuOne_v2", "cuTwo"}, 0), ("`tests/a.c`", {"cuTwo"}, 1), ("`tests/b.c`", {"cuOne_v2", "cuTwo"}, 2)):
        assert len(unnamed_of([row[0], cell], texts, known)) == count, (cell, known)
    declared = functions_of("#define cuOne __CUDA_API_PTDS(cuOne_v2)\n/* CUDAAPI cuNot() */ CUresult CUDAAPI cuOne(int);\n"
                            "CUresult CUDAAPI cuGetIt(int *x);\nCUresult CUDAAPI cuTwo_ptsz (int);\n")
    assert declared == {"cuOne", "cuOne_v2", "cuGetIt", "cuTwo"}, declared
    passing = "| calls | why |\n| --- | --- |\n| `cuGet…` | ask |\n"
    assert not unknown_of(passing, declared, {"cuOne_v2", "cuTwo"})
    for names in ({"cuOne", "cuTwo"}, {"cuOne_v2"}):
        assert unknown_of(passing, declared, names), names
    assert unknown_of(passing.replace("…", ""), declared, {"cuOne_v2", "cuTwo"})
    assert allocating_of("cudaError_t CUDARTAPI cudaMallocX(void);\ncudaError_t CUDARTAPI cudaGraphMemAllocNodeGetParams(int);"
                         ) == {"cudaMallocX"}


def main():
    self_test()
    names = names_of(read("interpose/real/entry_points.def"), read("interpose/api/custash.h"))
    texts = {path: read(path) or "" for path in files("tests")}
    cases = {name for path, text in texts.items() if path.endswith(".cpp") for name in cases_of(text)}
    page = read(PAGE)
    finish(problems_of(page, names, texts, cases, FORWARDED) + toolkit_problems(page, names), len(names))


main()
