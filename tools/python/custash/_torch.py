# SPDX-License-Identifier: MIT
"""PyTorch: the pluggable allocator, with what its interface leaves out.

PyTorch asks a pluggable allocator for memory and nothing else: statistics raise, record_stream does
nothing. `enable()` gives it both, by the hooks that PyTorch has and by replacing the Python functions
that ask for numbers.
"""
import collections
import ctypes

import torch

from . import _library, _torch_pools

_keep = []  # what C holds pointers to
# What PyTorch's memory_summary reads beside our keys: custash has no size above which it does not split.
_ABSENT = [f"oversize_{kind}.{what}" for kind in ("allocations", "segments")
           for what in ("current", "peak", "allocated", "freed")] + ["max_split_size"]


class Allocator(torch.cuda.memory.CUDAPluggableAllocator):
    """An allocator of the loaded library: PyTorch's own class opens a path."""

    def __init__(self, malloc, free):
        self._allocator = torch._C._cuda_customAllocator(malloc, free)


def allocator(pools=False):
    """`pools`: with private pools."""
    if pools:
        made = Allocator(_torch_pools.hook("malloc"), _torch_pools.hook("free"))
    else:
        made = Allocator(_library.address("custash_torch_malloc"), _library.address("custash_torch_free"))
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
    if pools:
        _torch_pools.set_hooks(inner)
    return made


def _index(device):
    return torch.cuda._utils._get_device_index(device, optional=True)


def _memory_stats(device=None):
    """As torch.cuda.memory_stats, of custash."""
    device = _index(device)
    stats = _library.counters("custash_memory_stats", device)
    # To the library all of a private pool is in use.
    unused = _torch_pools.unused_bytes(device) if _torch_pools.enabled() else 0
    for key in ("allocated_bytes.all.current", "active_bytes.all.current", "requested_bytes.all.current"):
        stats[key] -= unused
    for key in _ABSENT:
        stats.setdefault(key, 0)
    return collections.OrderedDict(sorted(stats.items()))


def _reset_peak(device=None):
    _library.call("custash_reset_peak_memory_stats", _index(device))


def enable():
    _library.library()
    pools = _torch_pools.supported()
    torch.cuda.memory.change_current_allocator(allocator(pools))
    if pools:
        _torch_pools.enable()
    # memory_allocated, max_memory_reserved, memory_summary … ask memory_stats by its name in the module.
    for module in (torch.cuda.memory, torch.cuda):
        module.memory_stats = _memory_stats
        module.reset_peak_memory_stats = _reset_peak
        module.reset_max_memory_allocated = _reset_peak
        module.reset_max_memory_cached = _reset_peak
