#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the traces of this folder again: what kinds of program do, with made-up sizes.

Usage: make.py [FOLDER]. The same traces each time: they are drawn with fixed seeds.
"""
import lzma
import os
import random
import sys

KIB, MIB = 1 << 10, 1 << 20


class Writer:
    """A program's calls; time passes by a little with each."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.sizes = {}
        self.time = 0
        self.pinned = set()

    def say(self, op, block, stream):
        self.time += self.random.randint(2_000, 40_000)
        self.lines.append(f"{self.time} 0 {op} {block} {self.sizes[block]} {stream}")

    def alloc(self, size, stream="-", pinned=False):
        block = len(self.sizes) + 1
        self.sizes[block] = max(1, int(size))
        if pinned:
            self.pinned.add(block)
        self.say("h" if pinned else "a", block, stream)
        return block

    def free(self, block, stream="-"):
        self.say("g" if block in self.pinned else "f", block, stream)

    def temporary(self, size, stream="-"):
        self.free(self.alloc(size, stream), stream)


def serving(w):
    """A language model that serves requests: weights, caches that grow by copying, finished ones freed."""
    layers, width = 12, 2048
    for _ in range(layers):
        for rows in (width, width // 4, width // 4, width, 4 * width, 4 * width):
            w.alloc(2 * rows * width)
        w.alloc(2 * width)
    w.alloc(2 * 32000 * width)
    per_token = 2 * 2 * (width // 4) * layers
    running = {}  # its cache: block, tokens that it can hold
    for step in range(420):
        if len(running) < 24 and w.random.random() < 0.5:
            prompt = w.random.randint(30, 1800)
            hidden = w.alloc(2 * prompt * width)
            for _ in range(3):
                w.temporary(2 * prompt * 4 * width)
            room = prompt + 64
            running[step] = [w.alloc(per_token * room), prompt, room]
            w.free(hidden)
        batch = len(running)
        hidden = w.alloc(2 * batch * width + 512)
        for _ in range(2):
            scores = w.alloc(4 * sum(held[1] for held in running.values()) * 16 + 512)
            out = w.alloc(2 * batch * width + 512)
            w.free(scores)
            w.free(hidden)
            hidden = out
        w.temporary(4 * batch * 32000 + 512)
        w.free(hidden)
        for name in list(running):
            held = running[name]
            held[1] += 4
            if w.random.random() < 0.02 or held[1] > 3000:
                w.free(running.pop(name)[0])
            elif held[1] > held[2]:
                held[2] = int(held[2] * 1.25) + 16
                bigger = w.alloc(per_token * held[2])
                w.free(held[0])
                held[0] = bigger


def streams(w):
    """Four pipelines on streams of their own, which hand results to each other, and pinned staging."""
    kept = []
    for _ in range(500):
        stream = w.random.randint(1, 4)
        base = w.random.choice((200 * KIB, 900 * KIB, 3 * MIB, 12 * MIB, 40 * MIB))
        staging = w.alloc(base, pinned=True) if w.random.random() < 0.1 else None
        stages = [w.alloc(base * w.random.uniform(0.5, 2), stream) for _ in range(w.random.randint(2, 5))]
        w.random.shuffle(stages)
        if w.random.random() < 0.3:
            kept.append((stages.pop(), stream))
        for block in stages:
            w.free(block, stream)
        if staging:
            w.free(staging)
        if len(kept) > 12:
            block, made_on = kept.pop(w.random.randrange(len(kept)))
            w.free(block, w.random.choice((made_on, 1 + made_on % 4)))


def frames(w):
    """Data frames: tables of columns, joins, sorts and group-bys with temporaries twice their size."""
    tables = []
    for _ in range(260):
        rows = int(10 ** w.random.uniform(4.5, 7.2))
        widths = [w.random.choice((1, 4, 8, 8)) for _ in range(w.random.randint(1, 6))]
        columns = [w.alloc(rows * width) for width in widths]
        if w.random.random() < 0.4:
            columns.append(w.alloc(rows // 8 + 1))
        action = w.random.choice(("sort", "join", "group", "filter"))
        scratch = [w.alloc(rows * 8 * (2 if action == "join" else 1)), w.alloc(rows * 4)]
        if action in ("join", "group"):
            scratch.append(w.alloc(int(rows * w.random.uniform(0.1, 1.5)) * 8))
        for _ in range(w.random.randint(2, 10)):
            w.temporary(w.random.randint(8, 4096))
        kept = int(rows * (1 if action == "sort" else w.random.uniform(0.05, 0.9))) + 1
        result = [w.alloc(kept * width) for width in widths]
        for block in scratch + columns:
            w.free(block)
        tables.append(result)
        while len(tables) > 9:
            for block in tables.pop(w.random.randrange(len(tables))):
                w.free(block)


def diffusion(w):
    """Images by a U-Net: skip connections are held on the way down, sizes change from image to image."""
    for level in range(4):
        for _ in range(14):
            w.alloc(9 * 2 * (320 << level) * (320 << min(level, 2)) // 4)
    for _ in range(9):
        side, batch = w.random.choice((48, 64, 64, 80, 96, 112)), w.random.choice((1, 2, 4))
        latent = w.alloc(4 * batch * 4 * side * side)
        for _ in range(12):
            skips, hidden = [], w.alloc(2 * batch * 320 * side * side)
            for level in range(4):
                here = 2 * batch * (320 << min(level, 2)) * max(1, side >> level) ** 2
                for _ in range(2):
                    normed = w.alloc(here)
                    out = w.alloc(here)
                    w.free(normed)
                    if level < 3:
                        tokens = (side >> level) ** 2
                        w.temporary(min(2 * batch * 8 * tokens * tokens, 600 * MIB))
                    w.free(hidden)
                    hidden = out
                    skips.append((w.alloc(here), here))
            while skips:
                skip, here = skips.pop()
                joined = w.alloc(2 * here)
                w.free(skip)
                w.free(hidden)
                hidden = w.alloc(here)
                w.free(joined)
            following = w.alloc(4 * batch * 4 * side * side)
            w.free(hidden)
            w.free(latent)
            latent = following
        picture = w.alloc(2 * batch * 128 * (8 * side) ** 2)
        w.temporary(2 * batch * 256 * (8 * side) ** 2)
        w.free(latent)
        w.free(picture)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for seed, program in enumerate((serving, streams, frames, diffusion), start=1):
        writer = Writer(seed)
        program(writer)
        text = f"# {program.__doc__}\n" + "\n".join(writer.lines) + "\n"
        with open(os.path.join(folder, program.__name__ + ".trace.xz"), "wb") as file:
            file.write(lzma.compress(text.encode(), preset=9))


main()
