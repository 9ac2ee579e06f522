# SPDX-License-Identifier: MIT
"""The snapshot in a report, plain or packed: written from tools/command/snapshot/packed.hpp alone."""
import base64
import itertools
import json
import re
import zlib

ACTIONS = ("alloc", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom")
MEMORIES = ("device", "pinned", "other")


def unpacked(data):
    """A snapshot out of its packed form, as tools/command/snapshot/packed.hpp describes it."""
    head, _, rest = zlib.decompress(data).partition(b"\n")
    snapshot, bytes_left = json.loads(head), iter(rest)

    def number():
        out, shift = 0, 0
        while (byte := next(bytes_left)) & 128:
            out, shift = out | (byte & 127) << shift, shift + 7
        return out | byte << shift

    def steps(count):
        return list(itertools.accumulate(number() for _ in range(count)))

    count = number()
    lists = [steps(number()) for _ in range(3)]
    times = itertools.accumulate((step // 2 if step % 2 == 0 else -(step + 1) // 2) for step in [number() for _ in range(count)])
    columns = [list(times)] + [[number() for _ in range(count)] for _ in range(8)]
    columns[1] = [ACTIONS[each] for each in columns[1]]
    columns[3] = [MEMORIES[each] for each in columns[3]]
    columns[4] = [lists[0][each] for each in columns[4]]
    latest, allocated = {}, [None] * count
    for i, (action, address) in enumerate(zip(columns[1], columns[4])):
        if action == "alloc":
            latest[address] = i
        elif action == "free":
            allocated[i] = latest.get(address)
    for column, value in ((5, lambda n: lists[1][n - 1]), (6, lambda n: lists[2][n - 1]), (7, lambda n: n - 2)):
        for i, number_read in enumerate(columns[column]):
            columns[column][i] = value(number_read) if number_read else columns[column][allocated[i]]
    columns[8] = [each - 1 for each in columns[8]]
    assert next(bytes_left, None) is None
    snapshot["history"]["events"] = [list(event) if event[1] == "free" else list(event[:8]) for event in zip(*columns)]
    return snapshot


def data_of(page):
    with open(page, encoding="utf-8") as file:
        kind, data = re.search(r'<script type="application/([a-z-]+)" id="data"[^>]*>(.*?)</script>', file.read(), re.S).groups()
    return json.loads(data) if kind == "json" else unpacked(base64.b64decode(data))
