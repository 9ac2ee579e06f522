# SPDX-License-Identifier: MIT
"""Device memory in use as the driver's management library (NVML) sees it, for the whole GPU.

cudaMemGetInfo will not do: a preloaded allocator may answer it. Needs nvidia-ml-py; every reading is
None without it. Peak samples in a thread of the calling process, so that the measured program, a
child, is not disturbed.
"""

import threading

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


class Peak:
    """with Peak() as peak: ...; peak.mib is the most above what was in use at the start."""

    def __init__(self, interval_s=0.02):
        self.interval_s = interval_s
        self.mib = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._start = used_mib()
        if self._start is not None:
            self.mib = 0.0
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._start is not None:
            self._thread.join()

    def _watch(self):
        while not self._stop.is_set():
            self.mib = max(self.mib, used_mib() - self._start)
            self._stop.wait(self.interval_s)
