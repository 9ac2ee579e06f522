# SPDX-License-Identifier: MIT
"""Each entry of entry_points.def passes the gate of sleep, or is named here with the reason why it need not.

Submissions and the kinds NODE and AWAKE pass it by their kind. The other kinds do not, so each of their
entries stands in one of the two tables below: with the function by which it passes, which its handler must
call, or with the reason why the memory may be away. docs/sleeping.md.
"""
import re

from source import files, finish, read

DEFINITION = "interpose/real/entry_points.def"
HOOKS = "interpose/hooks/hook.hpp"
EXPORTS = "interpose/hooks/exports_driver.cpp"
# The kinds that pass the gate, and where: (file, function or macro, what it must hold).
BY_KIND = {
    "SUBMISSION": ((EXPORTS, "SUBMIT_HOOK", "hooks::submit<"), (HOOKS, "submit", "Submission submission(")),
    "NODE": ((EXPORTS, "NODE_HOOK", "hooks::while_awake("), (HOOKS, "while_awake", "KeepAwake awake(")),
    "NOTED": ((EXPORTS, "NOTED_HOOK", "hooks::while_awake("), (HOOKS, "while_awake", "KeepAwake awake(")),
    "AWAKE": ((EXPORTS, "AWAKE_HOOK", "hooks::while_awake("), (HOOKS, "while_awake", "KeepAwake awake(")),
}
# What handlers call in their turn.
HELPERS = (("interpose/hooks/launch.cpp", "submit_from", "Submission"),
           ("interpose/hooks/capture_calls.cpp", "begin", "capture_begins("),
           ("interpose/hooks/sync_memops.cpp", "let_cards_reach", ".wake("))
# Handlers that pass it: what they call to that end.
PASSES = {
    "launch_kernel_ex": "hooks::submit<",
    "launch_multi_device": "submit_from(",
    "begin_capture": "return begin(",
    "begin_capture_v1": "return begin(",
    "begin_capture_to_graph": "return begin(",
    "begin_recapture": "return begin(",
    "graph_instantiate_log": "KeepAwake",
    "graph_instantiate_flags": "KeepAwake",
    "graph_instantiate_params": "KeepAwake",
    "add_node": "while_awake(",
    "add_node_v2": "while_awake(",
    "set_node": "while_awake(",
    "graph_exec_update": "graphs::update(",
    "graph_exec_update_v2": "graphs::update(",
    "add_child_graph": "while_awake(",
    "exec_set_child_graph": "while_awake(",
    "set_exec_node": "while_awake(",
    "pointer_get_attribute": "ask_driver(",
    "pointer_get_attributes": "ask_driver(",
    "pointer_set_attribute": "sleep.wake(",
    "ctx_set_flags": "let_cards_reach(",
    "primary_set_flags": "let_cards_reach(",
    "handle_for_address_range": "KeepAwake",
    "ipc_get_mem_handle": "ipc::",
    "mem_get_address_range": "ask_driver(",
    "retain_allocation_handle": "KeepAwake",
    "mem_release": "KeepAwake",
    "mem_map": "KeepAwake",
    "mem_unmap": "KeepAwake",
    "mem_set_access": "KeepAwake",
    "map_arrays": "KeepAwake",
}
OWN = "arrays and memory of other interfaces do not sleep, and a new handle has no contents"
HOST = "host memory does not sleep"
ALLOCATES = "touches no contents; where the device has no room, the core wakes the process first"
FREES = "blocks of a sleeping page are freed without its memory"
POOL = "asks or sets something of a pool; its contents are not touched"
CODE = "code and variables do not sleep"
LIFE = "a beginning or an end; what lives on is woken by its own work"
ASKS = "names no address"
MARKS = "orders work and touches no memory; the work itself has passed or will pass"
# Handlers, and entries without one, that need not pass it.
REASONS = {
    "cuEventRecord": MARKS, "cuEventRecordWithFlags": MARKS, "cuCtxRecordEvent": MARKS, "cuCtxWaitEvent": MARKS,
    "get_proc_address": ASKS, "get_proc_address_v2": ASKS,
    "mem_alloc": ALLOCATES, "mem_alloc_async": ALLOCATES, "mem_alloc_managed": ALLOCATES, "mem_alloc_pitch": ALLOCATES,
    "mem_alloc_from_pool": ALLOCATES, "mem_create": ALLOCATES, "cuMemAlloc": ALLOCATES,
    "array_create": ALLOCATES, "array_create_3d": ALLOCATES, "mipmap_create": ALLOCATES, "external_import": ALLOCATES,
    "mem_free": FREES, "mem_free_v1": FREES, "mem_free_async": FREES,
    "host_alloc": HOST, "alloc_host": HOST, "free_host": HOST, "host_get_device_pointer": HOST, "host_register": HOST,
    "host_unregister": HOST, "host_get_flags": HOST,
    "library_get_managed": CODE, "module_get_global": CODE, "library_get_global": CODE, "library_get_kernel": CODE,
    "library_kernels": CODE, "module_unload": CODE, "library_unload": CODE, "cuModuleLoad": CODE,
    "cuModuleLoadData": CODE, "cuModuleLoadDataEx": CODE, "cuModuleLoadFatBinary": CODE, "cuLibraryLoadData": CODE,
    "cuLibraryLoadFromFile": CODE, "cuLinkComplete": CODE, "cuModuleGetFunction": CODE, "cuLibraryGetModule": CODE,
    "cuKernelGetFunction": CODE, "cuFuncLoad": CODE,
    "device_set_mem_pool": POOL, "mem_set_mem_pool": POOL, "pool_set_attribute": POOL, "pool_set_access": POOL,
    "pool_create": POOL, "pool_destroy": POOL, "pool_trim": POOL, "pool_get_attribute": POOL,
    "pool_export_pointer": POOL,
    "array_destroy": OWN, "mipmap_destroy": OWN, "external_destroy": OWN, "mem_import": OWN, "multicast_create": OWN,
    "cuExternalMemoryGetMappedBuffer": OWN,
    "end_capture": "a capture keeps the process awake until it has ended",
    "graph_create": ASKS, "graph_clone": "nodes hold addresses already", "graph_destroy": LIFE,
    "graph_exec_destroy": LIFE,
    "init": LIFE, "ctx_destroy": LIFE, "primary_retain": LIFE, "primary_release": LIFE, "primary_reset": LIFE,
    "green_ctx_destroy": LIFE, "stream_destroy": LIFE, "cuStreamCreate": LIFE, "cuStreamCreateWithPriority": LIFE,
    "cuGreenCtxCreate": LIFE, "cuGreenCtxStreamCreate": LIFE, "cuCtxCreate_v2": LIFE, "cuCtxCreate_v3": LIFE,
    "cuCtxCreate_v4": LIFE, "cuCtxSetLimit": LIFE,
    "peer_enable": "waking gives all accessors access, also those that came meanwhile",
    "mem_get_info": "counts sleeping memory as used",
    "ipc_open_mem_handle": "the exporter wakes; memory opened from others does not sleep here",
    "ipc_close_mem_handle": "memory opened from others does not sleep here",
    "cuCtxSynchronize": "waits for work, and no work runs while the memory is away",
}
for entry in ("cuCtxSynchronize_v2", "cuStreamSynchronize", "cuStreamQuery", "cuEventSynchronize", "cuEventQuery"):
    REASONS[entry] = REASONS["cuCtxSynchronize"]
HANDLED = ("MEMORY", "CAPTURE", "LIFETIME", "DESCRIBE", "RESOLVER")


def rows_of(definition):
    """(kind, entry, its handler or itself) of each row; the runtime's are answered by the driver's."""
    rows = []
    for kind, arguments in re.findall(r"^([A-Z]+)\((cu\w.*)$", definition, re.M):
        if kind == "RUNTIME":
            continue
        cells = arguments.rstrip(",").split(", ")
        rows.append((kind, cells[0], cells[3] if kind in HANDLED else cells[0]))
    return rows


def body_of(name, code):
    """The text of each macro or function of that name, up to the next empty line or closing brace at the margin."""
    found = [code[at.start():] for at in re.finditer(rf"(?:#define |\b(?:CUresult|void) ){re.escape(name)}\(", code)]
    return "\n".join(re.split(r"\n\}\n|\n\n(?=#define )", text, maxsplit=1)[0] for text in found)


def problems_of(definition, source, hooks):
    problems = []
    rows = rows_of(definition)
    places = {place for kind, places in BY_KIND.items() for place in places if any(row[0] == kind for row in rows)}
    problems += [f"{path}: {name} does not pass the gate of sleep by {call}"
                 for path, name, call in sorted({*places, *HELPERS}) if call not in body_of(name, source(path))]
    needed = {handler for kind, _, handler in rows if kind not in BY_KIND}
    for handler in sorted(needed):
        if (handler in PASSES) == (handler in REASONS):
            problems.append(f"tests/lint/gates.py: {handler} of entry_points.def stands in no table, or in both")
        elif handler in PASSES and PASSES[handler] not in body_of(handler, hooks):
            problems.append(f"{handler} does not call {PASSES[handler]} any more, by which it passed the gate of sleep")
    problems += [f"tests/lint/gates.py: {name} is no handler or entry" for name in sorted({*PASSES, *REASONS} - needed)]
    return problems


def self_test():
    """Planted faults are found: an entry in no table, a hook that passes the gate no more, a kind that does not."""
    hooks = "".join(f"CUresult {name}(int) {{\n  {call}x);\n}}\n" for name, call in PASSES.items())
    names = "".join(f"MEMORY(cuX, One, Other, {n}, (), ())\n" for n in {*PASSES, *REASONS} if not n.startswith("cu"))
    names += "".join(f"RELIEF({n}, One, (), ())\n" for n in REASONS if n.startswith("cu"))
    sound = names + "SUBMISSION(cuL, One, 0, 0, 0, 0, (), ())\nAWAKE(cuT, One, (), ())\nNOTED(cuE, One, n, (), ())\nNODE(cuN, One, n, (), ())\n"
    code = ("#define SUBMIT_HOOK(x) hooks::submit<r>(x)\n\n#define NODE_HOOK(x) hooks::while_awake(x)\n\n"
            "#define AWAKE_HOOK(x) hooks::while_awake(x)\n\n#define NOTED_HOOK(x) hooks::while_awake(x)\n\nCUresult submit(int) {\n  Submission submission(x);\n}\n"
            "CUresult while_awake(int) {\n  KeepAwake awake(x);\n}\n"
            "CUresult begin(int) {\n  capture_begins(x);\n}\nCUresult submit_from(int) {\n  Submission s(x);\n}\n"
            "void let_cards_reach(int) {\n  Sleep(x).wake();\n}\n")
    assert not problems_of(sound, lambda _: code, hooks), problems_of(sound, lambda _: code, hooks)
    for definition in (sound + "MEMORY(cuNew, One, Other, new_handler, (), ())\n", sound + "RELIEF(cuNew, One, (), ())\n",
                       sound.replace("MEMORY(cuX, One, Other, mem_free, (), ())\n", "")):
        assert problems_of(definition, lambda _: code, hooks), definition[-60:]
    for old in ("hooks::submit<", "KeepAwake awake(", "Submission submission(", "capture_begins(", "Submission s(", ".wake("):
        assert problems_of(sound, lambda _, old=old: code.replace(old, "gone("), hooks), old
    for name, call in PASSES.items():
        assert problems_of(sound, lambda _: code, hooks.replace(f"{name}(int) {{\n  {call}", f"{name}(int) {{\n  gone(")), name


def main():
    self_test()
    hooks = "\n".join(read(path) for path in files("interpose/hooks", ends=(".cpp",)))
    definition = read(DEFINITION)
    finish(problems_of(definition, read, hooks), len(rows_of(definition)))


main()
