# SPDX-License-Identifier: MIT
"""Device memory in use as the driver's management library (NVML) sees it, for the whole GPU.

cudaMemGetInfo will not do: a preloaded allocator may answer it. Needs nvidia-ml-py; every reading is
None without it.
"""
try:
    import pynvml

    pynvml.nvmlInit()
except Exception:  # not installed, or no driver
    pynvml = None


def used_mib(device=0):
    """MiB in use on the GPU, or None."""
    if pynvml is None:
        return None
    handle = pynvml.nvmlDeviceGetHandleByIndex(device)
    return pynvml.nvmlDeviceGetMemoryInfo(handle).used / 2**20
