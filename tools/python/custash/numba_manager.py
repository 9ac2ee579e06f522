# SPDX-License-Identifier: MIT
"""Numba: an External Memory Management plug-in. Device memory is custash's; host memory stays Numba's (and
is custash's all the same under `custash run`).

NUMBA_CUDA_MEMORY_MANAGER=custash.numba_manager, or custash.enable_numba().
"""
import contextlib
import ctypes

from numba import cuda

from . import _library, free, malloc


def _handle(address):
    """An address as this Numba's binding has it: cuda-python's type, or ctypes'."""
    try:
        from numba.cuda.cudadrv import driver
        if getattr(driver, "USE_NV_BINDING", True):
            try:
                from cuda.bindings.driver import CUdeviceptr
            except ImportError:
                from cuda.cuda import CUdeviceptr
            return CUdeviceptr(address)
    except ImportError:
        pass
    return ctypes.c_uint64(address)


class CustashManager(cuda.HostOnlyCUDAMemoryManager):
    """Device memory of the context's device; frees never wait."""

    def initialize(self):
        """custash starts with the driver; nothing is to be done."""

    def memalloc(self, size):
        address = malloc(size, self.context.device.id)

        def finalizer():
            # After a reset of the context, or at exit, the memory is gone with it.
            with contextlib.suppress(_library.Error):
                free(address)

        return cuda.MemoryPointer(self.context, _handle(address), size, finalizer=finalizer)

    def get_memory_info(self):
        free_bytes, total = ctypes.c_size_t(), ctypes.c_size_t()
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuMemGetInfo_v2(ctypes.byref(free_bytes), ctypes.byref(total)) != 0:
            raise RuntimeError("the driver does not say how much memory is free")
        return cuda.MemoryInfo(free=free_bytes.value, total=total.value)

    def get_ipc_handle(self, memory):
        raise NotImplementedError("memory of custash is shared by cuIpcGetMemHandle under custash run")

    @property
    def interface_version(self):
        return 1


_numba_memory_manager = CustashManager  # the name that Numba looks for


def enable():
    _library.library()
    cuda.set_memory_manager(CustashManager)
