# SPDX-License-Identifier: MIT
"""CuPy: memory of custash, in the order of the stream that is current in CuPy at the allocation.

CuPy's arrays are freed without a word on which streams have used them, so the free names none: the
memory is handed out again behind all that its context holds then.
"""
import cupy

from . import _library, free, malloc

_keep = []


def _malloc(size, device):
    return malloc(size, device, cupy.cuda.get_current_stream().ptr or 0)


def _free(ptr, device):
    try:
        free(ptr)
    except _library.Error as error:
        if error.status != _library.NOT_RUNNING:  # at exit the driver is gone, and the memory with it
            raise


def enable():
    _library.library()
    allocator = cupy.cuda.PythonFunctionAllocator(_malloc, _free)
    _keep.append(allocator)
    cupy.cuda.set_allocator(allocator.malloc)
