# SPDX-License-Identifier: MIT
"""custash from Python: its numbers and controls, and its entry points for frameworks.

The program may run under `custash run`, which serves every allocation in it and is the best way; or
without, and then what is asked for here is served: `enable_pytorch()`, `enable_cupy()`, `enable_numba()`,
`rmm_resource()`. Keys and meanings of statistics are those of torch.cuda.memory_stats.

`device` is a number, as CUDA counts them; None is the calling thread's device. Errors are `Error` and
`OutOfMemoryError`. Every function may be called by any thread.
"""
from __future__ import annotations

import ctypes as _ctypes
import os
import typing as _typing

from . import _command, _library
from ._library import Error, OutOfMemoryError

__all__ = [
    "Error", "OutOfMemoryError", "empty_cache", "enable_cupy", "enable_numba", "enable_pytorch", "free",
    "host_empty_cache", "host_memory_stats", "leaks", "malloc", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "memory_summary", "preloaded", "pytorch_allocator",
    "record_history", "reset_peak_host_memory_stats", "reset_peak_memory_stats", "rmm_resource", "set_memory_limit",
    "set_per_process_memory_fraction", "sleep", "snapshot", "statistics_json", "statistics_prometheus",
    "stop_history", "trim", "trim_deep", "trim_idle", "version", "wake",
]

Error.__module__ = OutOfMemoryError.__module__ = __name__  # as users know them


def _number(device: int | None) -> int:
    return _library.CURRENT_DEVICE if device is None else int(device)


def version() -> tuple[int, int, int]:
    """(major, minor, patch) of the library in use."""
    number = _library.library().custash_version()
    return number // 10000, number // 100 % 100, number % 100


def preloaded() -> bool:
    """Whether the program runs under custash as a whole (`custash run`, or linked with it)."""
    return _library.path() is None


# ---- Memory, for those who bring a framework of their own.

def malloc(size: int, device: int | None = None, stream: int | None = None) -> int:
    """Allocates device memory and returns its address. `stream` is a handle (an int): the memory is usable in
    its order. None: usable on any stream at once. Size 0 gives 0."""
    ptr = _ctypes.c_void_p()
    if stream is None:
        _library.call("custash_malloc", _ctypes.byref(ptr), _number(device), size)
    else:
        _library.call("custash_malloc_async", _ctypes.byref(ptr), _number(device), size, stream)
    return ptr.value or 0


def free(ptr: int, stream: int | None = None) -> None:
    """Frees an address, and never waits. `stream` None: any stream may have used it."""
    if stream is None:
        _library.call("custash_free", ptr)
    else:
        _library.call("custash_free_async", ptr, stream)


# ---- Numbers.

def memory_allocated(device: int | None = None) -> int:
    """Bytes that the program owns, rounded up as they were handed out."""
    return _library.counter("custash_allocated_bytes", _number(device)).current


def memory_reserved(device: int | None = None) -> int:
    """Bytes obtained from the driver."""
    return _library.counter("custash_reserved_bytes", _number(device)).current


def max_memory_allocated(device: int | None = None) -> int:
    """The peak of memory_allocated since the start or the last reset."""
    return _library.counter("custash_allocated_bytes", _number(device)).peak


def max_memory_reserved(device: int | None = None) -> int:
    """The peak of memory_reserved since the start or the last reset."""
    return _library.counter("custash_reserved_bytes", _number(device)).peak


def reset_peak_memory_stats(device: int | None = None) -> None:
    """Sets every peak of the device to its current value."""
    _library.call("custash_reset_peak_memory_stats", _number(device))


def memory_stats(device: int | None = None) -> dict[str, int]:
    """All counters of the device, PyTorch's keys first."""
    return _library.counters("custash_memory_stats", _number(device))


def memory_summary(device: int | None = None) -> str:
    """The statistics as a table, as torch.cuda.memory_summary prints it."""
    return _command.stat(_number(device))


def statistics_json(device: int | None = None) -> str:
    """All numbers as JSON; docs/observing.md explains each."""
    return _library.text("custash_stats_text", _number(device), 0)


def statistics_prometheus(device: int | None = None) -> str:
    """All numbers for a Prometheus scraper."""
    return _command.stat(_number(device), "--prometheus")


def host_memory_stats() -> dict[str, int]:
    """All counters of pinned memory, as torch.cuda.host_memory_stats names them."""
    return _library.counters("custash_host_memory_stats")


def reset_peak_host_memory_stats() -> None:
    """Sets every peak of pinned memory to its current value."""
    _library.call("custash_host_reset_peak_memory_stats")


# ---- Controls.

def empty_cache() -> None:
    """Returns every free page of every device to the driver."""
    _library.call("custash_empty_cache")


def host_empty_cache() -> None:
    """Returns all free pinned memory to the system; waits for the device."""
    _library.call("custash_host_empty_cache")


def trim(size: int, device: int | None = None) -> None:
    """Returns at least `size` bytes of free memory to the driver, if that much is free."""
    _library.call("custash_trim", _number(device), size)


def trim_deep(device: int | None = None) -> None:
    """Returns all free memory to the driver, also that in pages which are partly in use. Waits for running work."""
    _library.call("custash_trim_deep", _number(device))


def sleep(device: int | None = None) -> None:
    """Moves the contents of the device memory to the host until the next submission needs it."""
    _library.call("custash_sleep", _number(device))


def wake(device: int | None = None) -> None:
    """Returns when the memory that sleeps is on the device again."""
    _library.call("custash_wake", _number(device))


def trim_idle(device: int | None = None) -> None:
    """Returns memory that has been free since the previous call."""
    _library.call("custash_trim_idle", _number(device))


def set_memory_limit(size: int | None, device: int | None = None) -> None:
    """Limits the device memory that the process may hold; None: no limit."""
    most = 2**64 - 1 if size is None else size
    _library.call("custash_set_memory_limit", _number(device), most)


def set_per_process_memory_fraction(fraction: float, device: int | None = None) -> None:
    """Limits it to a share of the device's memory, from 0 to 1."""
    _library.call("custash_set_memory_fraction", _number(device), fraction)


# ---- History: docs/observing.md.

def record_history(events: int = 200_000, depth: int = 16) -> None:
    """From now on allocations are counted by call site, and the last `events` are kept."""
    _library.call("custash_history_start", events, depth)


def stop_history() -> None:
    """Switches history off; the data gathered so far stays."""
    _library.call("custash_history_stop")


def snapshot(path: str | os.PathLike[str]) -> None:
    """Writes a snapshot; the ending chooses the form: .html, .json, .pickle, .trace.json, .pb.gz, .folded. The library writes JSON, and
    the command `custash` makes the other forms. If there is no command, FILE.json stays and a warning says so."""
    path = os.fsdecode(path)
    _library.call("custash_snapshot", os.fsencode(path), explained=True)
    if not path.endswith(".json") or path.endswith(".trace.json"):
        _command.render(path + ".json", path)


def leaks() -> str:
    """Lists live allocations by call site, as text."""
    return _library.text("custash_leaks_text")


# ---- Frameworks. Each import is made when it is asked for.

def pytorch_allocator() -> _typing.Any:
    """A torch.cuda.memory.CUDAPluggableAllocator, e.g. for torch.cuda.MemPool(allocator.allocator())."""
    from . import _torch
    return _torch.allocator()


def enable_pytorch() -> None:
    """Makes PyTorch allocate from custash. Call it before PyTorch uses CUDA memory. See docs/frameworks.md."""
    from . import _torch
    _torch.enable()


def enable_cupy() -> None:
    """Makes CuPy allocate from custash instead of its own pool."""
    from . import _cupy
    _cupy.enable()


def enable_numba() -> None:
    """Makes Numba allocate from custash. Call it before Numba uses the device. Without a change to the code:
    NUMBA_CUDA_MEMORY_MANAGER=custash.numba_manager."""
    from . import numba_manager
    numba_manager.enable()


def rmm_resource() -> _typing.Any:
    """An rmm.mr.CallbackMemoryResource, for rmm.mr.set_current_device_resource."""
    from . import _rmm
    return _rmm.resource()
