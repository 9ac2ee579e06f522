# SPDX-License-Identifier: MIT
"""PyTorch: the pluggable allocator, with what its interface leaves out.

PyTorch asks a pluggable allocator for memory and nothing else: statistics raise, record_stream does
nothing. `enable()` gives it both, by the hooks that PyTorch has and by replacing the Python functions
that ask for numbers.
"""
import collections
import ctypes

import torch

from . import _library

_keep = []  # what C holds pointers to
# What PyTorch's memory_summary reads beside our keys: custash has no size above which it does not split.
_ABSENT = [f"oversize_{kind}.{what}" for kind in ("allocations", "segments")
           for what in ("current", "peak", "allocated", "freed")] + ["max_split_size"]


class Allocator(torch.cuda.memory.CUDAPluggableAllocator):
    """An allocator of the loaded library: PyTorch's own class opens a path."""

    def __init__(self):
        self._allocator = torch._C._cuda_customAllocator(
            _library.address("custash_torch_malloc"), _library.address("custash_torch_free"))


def allocator():
    made = Allocator()
    inner = made.allocator()
    fraction = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(
        lambda share, device: _library.library().custash_set_memory_fraction(device, share))
    _keep.append(fraction)
    for setter, address in (
            ("set_record_stream_fn", _library.address("custash_record_stream")),
            ("set_reset_fn", _library.address("custash_empty_cache")),
            ("set_memory_fraction_fn", ctypes.cast(fraction, ctypes.c_void_p).value)):
        if hasattr(inner, setter):  # PyTorch from 2.1 on
            getattr(inner, setter)(address)
    return made


def _index(device):
    return torch.cuda._utils._get_device_index(device, optional=True)


def _memory_stats(device=None):
    """As torch.cuda.memory_stats, of custash."""
    stats = _library.counters("custash_memory_stats", _index(device))
    for key in _ABSENT:
        stats.setdefault(key, 0)
    return collections.OrderedDict(sorted(stats.items()))


def _reset_peak(device=None):
    _library.call("custash_reset_peak_memory_stats", _index(device))


def enable():
    _library.library()
    torch.cuda.memory.change_current_allocator(allocator())
    # memory_allocated, max_memory_reserved, memory_summary … ask memory_stats by its name in the module.
    for module in (torch.cuda.memory, torch.cuda):
        module.memory_stats = _memory_stats
        module.reset_peak_memory_stats = _reset_peak
        module.reset_max_memory_allocated = _reset_peak
        module.reset_max_memory_cached = _reset_peak
