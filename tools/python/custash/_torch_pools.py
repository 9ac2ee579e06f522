# SPDX-License-Identifier: MIT
"""PyTorch's private pools on custash: torch.cuda.MemPool, and what CUDA graph trees ask of a pool.

libcustash-torch.so keeps the pools, over the functions of libcustash.so beside it. PyTorch's interface for allocators has no call for the
rest: to create a pool, to list its blocks, and to restore it to an earlier state (a checkpoint). PyTorch's functions for these
raise, so `enable()` replaces them.
"""
import ctypes
import os
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import _library

# PyTorch passes a std::function to the first hook. The library reads libstdc++'s, and this is its mangled name.
_OF_LIBSTDCXX = ("_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator26set_begin_allocate_to_pool"
                 "ESt8functionIFviSt4pairIyyES3_IFbP11CUstream_stEEEE")
_REPLACED = ("_cuda_getCheckpointState", "_cuda_setCheckpointPoolState", "_cuda_checkPoolLiveAllocations",
             "_has_Standard_Deleter", "_free_And_Remove_DeleterFn")
_STATES = ("inactive", "active_allocated", "active_pending_free")
_FREE, _IN_USE, _ = range(3)


class _Pool(ctypes.Structure):
    _fields_ = [("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


class _Block(ctypes.Structure):
    _fields_ = [("pool", _Pool), ("device", ctypes.c_int), ("state", ctypes.c_int), ("address", ctypes.c_void_p),
                ("segment", ctypes.c_void_p), ("size", ctypes.c_size_t), ("stream", ctypes.c_void_p)]


def supported():
    """Whether this PyTorch has the hooks, in the form that the library understands."""
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so")
    return os.path.exists(path) and hasattr(ctypes.CDLL(path), _OF_LIBSTDCXX)


class _Calls(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("torch_malloc", "torch_free", "free", "record_stream")]


_opened = None


def _pools():
    """libcustash-torch.so."""
    global _opened
    if _opened is None:
        opened = ctypes.CDLL(os.path.join(os.path.dirname(_library.file()), "libcustash-torch.so"))
        calls = _Calls(*(_library.address(f"custash_{name}") for name, _ in _Calls._fields_))
        opened.custash_pools_start(ctypes.byref(calls))
        opened.custash_pools_blocks.restype = ctypes.c_size_t
        opened.custash_pools_blocks.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        opened.custash_pools_uses.argtypes = [ctypes.c_int, _Pool]
        opened.custash_pools_place.argtypes = [ctypes.c_void_p]
        _opened = opened
    return _opened


def hook(name):
    return ctypes.cast(getattr(_pools(), f"custash_pools_{name}"), ctypes.c_void_p).value


def set_hooks(inner):
    inner.set_record_stream_fn(hook("record_stream"))
    inner.set_begin_allocate_to_pool(hook("begin"))
    inner.set_end_allocate_to_pool_fn(hook("end"))
    inner.set_release_pool(hook("release"))


def blocks(device=None, pool=None):
    """The blocks of all private pools, or of one."""
    room, count = 0, 1
    while count > room:  # other threads allocate
        room = max(2 * room, count)
        found = (_Block * room)()
        count = _pools().custash_pools_blocks(found, room)
    return [each for each in found[:count]
            if device in (None, each.device) and pool in (None, (each.pool.first, each.pool.second))]


def unused_bytes(device):
    """Bytes of the device's private pools that are not in use."""
    return sum(each.size for each in blocks(device) if each.state != _IN_USE)


def memory_snapshot(mempool_id=None, include_traces=True):
    """As torch.cuda.memory_snapshot, of private pools only. There are no traces."""
    _free_expired()
    segments = {}
    for each in blocks(pool=mempool_id):
        start, pool = each.segment or 0, (each.pool.first, each.pool.second)
        segment = segments.setdefault((each.device, start), {
            "device": each.device, "address": start, "total_size": 0, "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": each.stream or 0, "segment_type": "large", "segment_pool_id": pool, "is_expandable": False, "frames": [],
            "blocks": []})
        segment["total_size"] += each.size
        segment["allocated_size"] += each.size * (each.state == _IN_USE)
        segment["active_size"] += each.size * (each.state != _FREE)
        segment["blocks"].append({"address": each.address, "size": each.size, "requested_size": each.size,
                                  "state": _STATES[each.state], "frames": []})
    for segment in segments.values():
        segment["requested_size"] = segment["allocated_size"]
        if segment["total_size"] <= 2 << 20:
            segment["segment_type"] = "small"
    return list(segments.values())


class MemPool:
    """torch.cuda.MemPool, of custash. `use_on_oom` and `no_split` change nothing."""

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        if allocator is not None:
            raise RuntimeError("With custash.enable_pytorch(), a MemPool cannot have an allocator of its own.")
        torch.cuda.init()
        self.allocator = None
        self.device = torch.cuda.current_device()
        self.id = tuple(torch._C._graph_pool_handle())
        # A begin creates the pool.
        torch._C._cuda_beginAllocateCurrentThreadToPool(self.device, self.id)
        torch._C._cuda_endAllocateToPool(self.device, self.id)
        weakref.finalize(self, torch._C._cuda_releasePool, self.device, self.id).atexit = False

    def use_count(self):
        return _pools().custash_pools_uses(self.device, _Pool(*self.id))

    def snapshot(self, include_traces=True):
        return memory_snapshot(self.id, include_traces)


# ---- Checkpoints. A graph's replay recreates its outputs at their addresses, as storages that own no memory. A restored pool has
# those blocks in use again, and they must be freed with their storages. PyTorch gives such a storage a deleter, which Python
# cannot. So the storage is noted here, and its block is freed once somebody next asks for the pool's state or a snapshot.

_adopted = {}  # by the storage's address in C++: (a weak reference to it, the address of its memory)


class _Checkpoint:
    def __init__(self, device, pool):
        self.device, self.pool = device, pool
        self.blocks = [(each.address, each.size, each.stream or 0) for each in _in_use(device, pool)]


def _in_use(device, pool):
    return [each for each in blocks(device, tuple(pool)) if each.state == _IN_USE]


def _storage(pointer):
    return torch.UntypedStorage._new_with_weak_ptr(pointer)


def _free_expired():
    for pointer, (storage, address) in list(_adopted.items()):
        if storage.expired():
            del _adopted[pointer]
            torch._C._cuda_cudaCachingAllocator_raw_delete(address)


def _get_checkpoint(device, pool):
    _free_expired()
    return _Checkpoint(torch.device("cuda", device).index, tuple(pool))


def _set_checkpoint(device, state, stale_storages, live_storages=()):
    _free_expired()
    wanted = {address for address, _, _ in state.blocks}
    used = {each.address for each in _in_use(state.device, state.pool)}
    stale = {pointer: _storage(pointer).data_ptr() for pointer in stale_storages}
    if len(used - wanted) > len(stale):
        raise RuntimeError("Any stale tensors which are being manually freed must be passed to set checkpoint")
    for pointer, address in stale.items():
        if address in used:
            _free_and_remove_deleter(pointer)
            used.discard(address)
    for address in used:
        torch._C._cuda_cudaCachingAllocator_raw_delete(address)
    for pointer, (_, address) in list(_adopted.items()):
        if address in used:
            del _adopted[pointer]
    torch._C._cuda_beginAllocateCurrentThreadToPool(state.device, state.pool)
    try:
        with torch.cuda.device(state.device):
            for address, size, stream in state.blocks:
                _pools().custash_pools_place(address)
                if torch._C._cuda_cudaCachingAllocator_raw_alloc(size, stream) != address:
                    raise RuntimeError(f"Memory at {address:#x} of a private pool cannot be restored")
    finally:
        torch._C._cuda_endAllocateToPool(state.device, state.pool)
        torch._C._cuda_releasePool(state.device, state.pool)
    for pointer in live_storages:
        storage = _storage(pointer)
        if storage.data_ptr() in wanted and not _originals["_has_Standard_Deleter"](pointer):
            _adopted[pointer] = StorageWeakRef(storage), storage.data_ptr()


def _check_live(device, pool, expected):
    _free_expired()
    return {each.address for each in _in_use(torch.device("cuda", device).index, pool)} == set(expected)


def _has_standard_deleter(pointer):
    return pointer in _adopted or _originals["_has_Standard_Deleter"](pointer)


def _free_and_remove_deleter(pointer):
    if pointer in _adopted:
        torch._C._cuda_cudaCachingAllocator_raw_delete(_adopted.pop(pointer)[1])
    else:
        _originals["_free_And_Remove_DeleterFn"](pointer)


_originals = {}


def enabled():
    return bool(_originals)


def enable():
    mine = (_get_checkpoint, _set_checkpoint, _check_live, _has_standard_deleter, _free_and_remove_deleter)
    for name, replacement in zip(_REPLACED, mine):
        if hasattr(torch._C, name) and name not in _originals:
            _originals[name] = getattr(torch._C, name)
            setattr(torch._C, name, replacement)
    for module in (torch.cuda.memory, torch.cuda):
        module.MemPool, module.memory_snapshot = MemPool, memory_snapshot
