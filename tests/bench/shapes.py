# SPDX-License-Identifier: MIT
"""Traces of the patterns that are known to fragment a caching allocator, rebuilt from how others describe them, and of
RMM's own benchmarks by their shape. The same events each time."""
import random

MIB = 1 << 20


class Trace:
    """Its lines (docs/trace-format.md). What still lives is released at the end."""

    def __init__(self):
        self.lines, self.live, self.count = ["# custash trace 1"], {}, 0

    def add(self, op, block, size, stream):
        self.lines.append(f"{len(self.lines) * 1000} 0 {op} {block} {size} {stream}")

    def get(self, size, stream="-"):
        self.count += 1
        self.live[self.count] = int(size), stream
        self.add("a", self.count, *self.live[self.count])
        return self.count

    def drop(self, *blocks):
        for block in blocks:
            self.add("f", block, *self.live.pop(block))

    def drop_all(self):
        self.drop(*self.live)


def new_largest_batch(trace, rng):
    """pytorch/pytorch#96995: each new largest batch needs segments of its own; the old ones are too small for it."""
    for largest in range(8, 65, 4):
        for batch in (largest, *rng.sample(range(1, largest), 3)):
            trace.drop(*reversed([trace.get(batch * rng.choice((1, 2, 3, 4)) * MIB / 4) for _ in range(48)]))


def state_amid_temporaries(trace, rng):
    """pytorch/pytorch#96995: what stays is first allocated between what goes, as an optimiser's state is."""
    for step in range(30):
        going = []
        for layer in range(24):
            going.append(trace.get((8 + layer % 5) * MIB))
            if step == 0:
                trace.get(4 * MIB)
                trace.get(4 * MIB)
            if layer % 3 == 2:
                trace.drop(going.pop(rng.randrange(len(going))))
        trace.drop(*going)


def large_blocks_cut_up(trace, rng):
    """pytorch/pytorch#44742: a large block is cut into pieces that are never free at one time; its size comes again."""
    pieces = []
    for _ in range(40):
        trace.drop(trace.get(600 * MIB))
        pieces += [trace.get(rng.randint(1, 10) * MIB) for _ in range(24)]
        rng.shuffle(pieces)
        while len(pieces) > 120:
            trace.drop(pieces.pop())


def one_survivor_a_cycle(trace, _):
    """pytorch/pytorch#193400: two blocks go, and a small one beside them stays."""
    for _ in range(100):
        both = trace.get(91 * MIB), trace.get(45.5 * MIB)
        trace.get(2 * MIB)
        trace.drop(*both)


def small_takes_large(trace, _):
    """pytorch/pytorch#95827: what is cached of a large block goes to a small one, and its size comes again."""
    for _ in range(20):
        trace.drop(trace.get(2048 * MIB))
        small = trace.get(10 << 10)
        trace.drop(trace.get(2048 * MIB), small)


def uneven_chunks(trace, rng):
    """fastsafetensors#104: chunks of a file, each of another size, the next before the last has gone."""
    last = trace.get(128 * MIB)
    for _ in range(200):
        following = trace.get(rng.uniform(64, 256) * MIB)
        trace.drop(last)
        last = following


def growing_caches(trace, rng):
    """A cache of keys and values a sequence: the larger one before the smaller one goes. Sequences end at random."""
    for _ in range(60):
        sequences = [[trace.get(MIB), MIB, rng.randint(8, 40)] for _ in range(8)]
        while sequences:
            each = rng.choice(sequences)
            larger = trace.get(each[1] + MIB)
            trace.drop(each[0])
            each[:] = larger, each[1] + MIB, each[2] - 1
            if each[2] == 0:
                trace.drop(each[0])
                sequences.remove(each)


def rmm_random(trace, rng):
    """The shape of RMM's random_allocations: sizes at random, up to 16 GiB at one time."""
    live, in_use = [], 0
    for _ in range(4000):
        size = rng.randint(1, 256 * MIB)
        while in_use + size > 16384 * MIB or (live and rng.random() < .3):
            block, gone = live.pop(rng.randrange(len(live)))
            trace.drop(block)
            in_use -= gone
        live.append((trace.get(size), size))
        in_use += size


def rmm_streams(trace, rng):
    """The shape of RMM's multi_stream_allocations: each stream has its own short-lived blocks."""
    live = {stream: [] for stream in range(1, 9)}
    for _ in range(8000):
        stream = rng.choice(list(live))
        if len(live[stream]) == 4:
            trace.drop(live[stream].pop(0))
        live[stream].append(trace.get(rng.choice((64 << 10, MIB, 4 * MIB, 16 * MIB)), stream))


SHAPES = (new_largest_batch, state_amid_temporaries, large_blocks_cut_up, one_survivor_a_cycle, small_takes_large, uneven_chunks,
          growing_caches, rmm_random, rmm_streams)


def write(folder):
    """{name: path}."""
    paths = {}
    for shape in SHAPES:
        trace = Trace()
        shape(trace, random.Random(1))
        trace.drop_all()
        paths[shape.__name__] = folder / f"{shape.__name__}.trace"
        paths[shape.__name__].write_text("\n".join(trace.lines) + "\n")
    return paths
