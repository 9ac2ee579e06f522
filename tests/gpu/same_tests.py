# SPDX-License-Identifier: MIT
"""The subtests of same_frameworks.py: how one is registered, and what says that bytes are the same."""
import hashlib

TESTS = {}


def test(needs, gpus=1, env=None, name=None):
    """A subtest: a function that prints what must be the same, run in a process of its own."""
    def register(function):
        TESTS[name or function.__name__] = (function, needs, gpus, env or {})
        return function
    return register


def digest(*arrays):
    """Of host bytes: equal only where every bit is."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(bytes(memoryview(array).cast("B")))
    return whole.hexdigest()[:16]


def torch_digest(*tensors):
    return digest(*[t.detach().float().cpu().contiguous().numpy() for t in tensors])
