# SPDX-License-Identifier: MIT
"""Finds libcustash.so and declares the functions of custash.h to ctypes."""
import ctypes
import os
import pathlib

try:
    from ._where import LIBDIR  # written at installation
except ImportError:
    LIBDIR = None

CURRENT_DEVICE = -1
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_RUNNING, NOT_OURS, BUFFER_TOO_SMALL, DRIVER, FILE, BUSY, CONTENTS = range(10)


class Error(RuntimeError):
    """A function of custash.h did not succeed; `status` is its answer."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class OutOfMemoryError(Error, MemoryError):
    """Device or pinned memory ran out, after all cached memory was released."""


class Stat(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]


class Counter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("current", "peak", "allocated", "freed")]


_pointer, _size, _int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_SIGNATURES = {
    "custash_malloc_async": [ctypes.POINTER(_pointer), _int, _size, _pointer],
    "custash_malloc": [ctypes.POINTER(_pointer), _int, _size],
    "custash_free": [_pointer],
    "custash_free_async": [_pointer, _pointer],
    "custash_record_stream": [_pointer, _pointer],
    "custash_empty_cache": [],
    "custash_trim": [_int, _size],
    "custash_trim_deep": [_int],
    "custash_trim_idle": [_int],
    "custash_sleep": [_int],
    "custash_wake": [_int],
    "custash_host_empty_cache": [],
    "custash_set_memory_limit": [_int, _size],
    "custash_set_memory_fraction": [_int, ctypes.c_double],
    "custash_allocated_bytes": [_int, ctypes.POINTER(Counter)],
    "custash_reserved_bytes": [_int, ctypes.POINTER(Counter)],
    "custash_reset_peak_memory_stats": [_int],
    "custash_host_reset_peak_memory_stats": [],
    "custash_history_start": [_size, ctypes.c_uint],
    "custash_history_stop": [],
    "custash_snapshot": [ctypes.c_char_p],
    "custash_leaks_text": [_pointer, ctypes.POINTER(_size)],
    "custash_stats_text": [_int, _int, _pointer, ctypes.POINTER(_size)],
    "custash_memory_stats": [_int, ctypes.POINTER(Stat), ctypes.POINTER(_size)],
    "custash_host_memory_stats": [ctypes.POINTER(Stat), ctypes.POINTER(_size)],
}
_TEXTS = {"custash_error_name": [_int], "custash_error_string": [_int], "custash_last_error_message": []}

_loaded = None


def _candidates():
    """Possible paths of the library, in the order of trying."""
    if os.environ.get("CUSTASH_LIBRARY"):
        yield os.environ["CUSTASH_LIBRARY"]
        return
    here = pathlib.Path(__file__).resolve()
    yield str(here.parent / "lib" / "libcustash.so")  # a wheel's
    yield str(here.parents[3] / "libcustash.so")  # the tarball's: lib/python3/site-packages/custash
    if LIBDIR:
        yield os.path.join(LIBDIR, "libcustash.so")
    # In the source tree: tools/python/custash beside build/interpose.
    yield str(here.parents[3] / "build" / "interpose" / "libcustash.so")
    yield "libcustash.so"


def _open():
    """(the library, its path; None where it is part of the process from the start)."""
    process = ctypes.CDLL(None)
    if hasattr(process, "custash_version"):
        return process, None
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path), path
        except OSError as why:
            tried.append(f"  {path}: {why}")
    raise ImportError("libcustash.so was not found; set CUSTASH_LIBRARY to its path. Tried:\n" + "\n".join(tried))


def library():
    """The C API, loaded at the first call."""
    global _loaded
    if _loaded is None:
        found, path = _open()
        for name, arguments in _SIGNATURES.items():
            function = getattr(found, name)
            function.argtypes, function.restype = arguments, _int
        for name, arguments in _TEXTS.items():
            function = getattr(found, name)
            function.argtypes, function.restype = arguments, ctypes.c_char_p
        _loaded = found, path
    return _loaded[0]


def path():
    """The path of the loaded library, or None if it was preloaded or linked."""
    library()
    return _loaded[1]


class _Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", _pointer), ("name", ctypes.c_char_p), ("address", _pointer)]


def file():
    """The path of the file that the library is in, also if it was preloaded."""
    place = _Place()
    find = ctypes.CDLL(None).dladdr
    find.argtypes = [_pointer, ctypes.POINTER(_Place)]
    find(address("custash_version"), ctypes.byref(place))
    return os.path.realpath(os.fsdecode(place.file or b""))


def address(name):
    """A function's address, for those who take pointers to functions."""
    return ctypes.cast(getattr(library(), name), _pointer).value


def check(status, explained=False):
    """Raises what the status says; success passes. `explained`: the function says why it refuses a value."""
    if status == SUCCESS:
        return
    what = f"{library().custash_error_name(status).decode()}: {library().custash_error_string(status).decode()}"
    if status == OUT_OF_MEMORY:
        why = library().custash_last_error_message().decode()
        raise OutOfMemoryError(status, f"CUDA out of memory. {why or what}")
    if status in (BUSY, CONTENTS, FILE) or (explained and status == INVALID_VALUE):
        why = library().custash_last_error_message().decode(errors="replace")
        name = "" if status in (BUSY, CONTENTS) else f"{library().custash_error_name(status).decode()}: "
        what = name + why if why else what
    raise Error(status, what)


def call(name, *arguments, explained=False):
    check(getattr(library(), name)(*arguments), explained)


def counter(name, device):
    """The custash_counter_t that a function fills."""
    value = Counter()
    call(name, device, ctypes.byref(value))
    return value


def counters(name, *arguments):
    """{name: value} of a function that fills an array of custash_stat_t, in its order."""
    function = getattr(library(), name)
    count = _size(0)
    check(function(*arguments, None, ctypes.byref(count)))
    stats = (Stat * count.value)()
    check(function(*arguments, stats, ctypes.byref(count)))
    return {stat.name.decode(): stat.value for stat in stats[:count.value]}


def text(name, *arguments):
    """The text of a function that fills a buffer and returns its size."""
    function = getattr(library(), name)
    size = _size(0)
    check(function(*arguments, None, ctypes.byref(size)))
    while True:
        buffer = ctypes.create_string_buffer(size.value)
        status = function(*arguments, buffer, ctypes.byref(size))
        if status != BUFFER_TOO_SMALL:  # the numbers may have grown meanwhile
            check(status)
            return buffer.value.decode()
