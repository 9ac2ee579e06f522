# SPDX-License-Identifier: MIT
"""RMM from Python: a resource whose memory is custash's, usable on any stream at once."""
import rmm

from . import free, malloc


def resource():
    return rmm.mr.CallbackMemoryResource(lambda size, stream: malloc(size),
                                         lambda ptr, size, stream: free(ptr))
