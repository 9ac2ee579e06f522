# SPDX-License-Identifier: MIT
"""Snapshots made up for the tests of the report: a program of any length with call sites, streams and leaks.

What the page must show is counted here on its own, event by event."""
import random

MIB = 1 << 20
SEGMENT = 24 * MIB
STEPS = (512, 65536, 384 << 10, MIB, 2 * MIB, 4 * MIB)
STREAMS = (0, 1, 0x7F0000001000, 0x7F0000002000)


class Program:
    """Allocates and frees; keeps what a snapshot tells of it."""

    def __init__(self, name="app"):
        self.name, self.frames, self.stacks, self.events = name, [], [], []
        self.live, self.free, self.segments, self.sites = {}, {}, [], {}
        self.end, self.time, self.used, self.peak = 0x7F1000000000, 1_795_000_000_000_000, 0, 0

    def stack(self, *functions):
        """Innermost first."""
        ids = []
        for function in functions:
            module, _, name = function.rpartition("|")
            frame = {"module": module or "/opt/app/bin/app", "build_id": "", "offset": 16 * len(self.frames) + 16, "name": name,
                     "file": "" if module else "model.cpp", "line": 0 if module else 10 + len(name)}
            same = [i for i, old in enumerate(self.frames) if {**old, "offset": 0} == {**frame, "offset": 0}]
            ids.append(same[0] if same else len(self.frames))
            self.frames += [] if same else [frame]
        self.stacks.append(ids)
        return len(self.stacks) - 1

    def event(self, *values):
        self.time += 7
        self.events.append([self.time, *values])

    def room_for(self, size):
        """The address of a block; a new segment where there is none."""
        whole = next(step for step in (*STEPS, SEGMENT) if size <= step)
        if not self.free.get(whole):
            self.event("segment_alloc", 0, "device", self.end, SEGMENT, 0, -1)
            self.segments.append((self.end, whole))
            self.free[whole] = [self.end + i * whole for i in range(SEGMENT // whole)][::-1]
            self.end += 2 * SEGMENT
        return self.free[whole].pop(), whole

    def site(self, stack):
        if stack not in self.sites:
            self.sites[stack] = {"stack": stack, "device": 0, "memory": "device", "caller": "app" if stack % 3 else "libnccl.so.2", "blocks": 0,
                                 "bytes": 0, "peak_bytes": 0, "at_peak_bytes": 0, "allocations": 0, "allocated_bytes": 0, "growing": False}
        return self.sites[stack]

    def allocate(self, size, stack, stream=0):
        address, whole = self.room_for(size)
        self.event("alloc", 0, "device", address, size, stream, stack)
        self.live[address] = (size, whole, stack, stream)
        site = self.site(stack)
        for key, by in (("blocks", 1), ("bytes", size), ("allocations", 1), ("allocated_bytes", size)):
            site[key] += by
        site["peak_bytes"] = max(site["peak_bytes"], site["bytes"])
        self.used += size
        if self.used > self.peak:
            self.peak = self.used
            self.at_peak = {key: each["bytes"] for key, each in self.sites.items()}
        return address

    def release(self, address, freed_by):
        size, whole, stack, stream = self.live.pop(address)
        self.event("free", 0, "device", address, size, stream, stack, freed_by)
        self.free[whole].append(address)
        self.sites[stack]["blocks"] -= 1
        self.sites[stack]["bytes"] -= size
        self.used -= size

    def blocks_of(self, base, whole):
        out = []
        for at in range(base, base + SEGMENT, whole):
            if at in self.live:
                size, _, stack, _ = self.live[at]
                out.append([at, whole, size, "used", stack])
            elif out and out[-1][3] == "free":
                out[-1][1] += whole
            else:
                out.append([at, whole, 0, "free", -1])
        if sum(each[1] for each in out) < SEGMENT:
            raise AssertionError("a segment is not filled")
        out[-1][1] -= sum(each[1] for each in out) - SEGMENT
        return out

    def snapshot(self):
        for stack, site in self.sites.items():
            site["at_peak_bytes"] = self.at_peak.get(stack, 0)
        segments = [{"address": base, "size": SEGMENT, "pool": "large_pool", "made_of": "driver", "stream": 0, "pages": [],
                     "blocks": self.blocks_of(base, whole)} for base, whole in self.segments]
        pieces = [each for segment in segments for each in segment["blocks"]]
        used, free = (sum(each[1] for each in pieces if each[3] == state) for state in ("used", "free"))
        held = SEGMENT * len(segments)
        stats = {"allocated_bytes.all.current": used, "allocated_bytes.all.peak": max(used, self.peak), "reserved_bytes.all.current": held,
                 "reserved_bytes.all.peak": held, "requested_bytes.all.current": self.used, "requested_bytes.all.peak": self.peak,
                 "custash.total_bytes": 80 << 30, "allocation.all.allocated":
                 sum(site["allocations"] for site in self.sites.values()), "num_device_alloc": len(segments), "num_device_free": 0, "num_ooms": 0,
                 "custash.free_bytes": free, "custash.largest_free_block": max([each[1] for each in pieces if each[3] == "free"], default=0),
                 "custash.limbo_bytes": 0, "custash.fragmentation": 250, "custash.num_stalls_avoided": 5}
        return {"format": "custash snapshot 1", "version": 200, "pid": 4711, "program": self.name, "time_us": self.time, "host_stats": {},
                "devices": [{"device": 0, "stats": stats, "segments": segments}],
                "history": {"on": True, "depth": 16, "since_us": 1, "events_seen": len(self.events), "events_lost": 0, "stacks_lost": 0,
                            "tracked": [{"bytes": self.used, "peak_bytes": self.peak, "lifetimes_up_to_ns": {"1024": 3, "65536": 9}}],
                            "sites": list(self.sites.values()), "events": self.events},
                "frames": self.frames, "stacks": self.stacks}


def training(events, name="train --steps 100", seed=1, leak=1, cache=0):
    """Steps of a training: weights that stay, activations that rise and fall, a list that grows; `cache` bytes kept a step."""
    chance, program = random.Random(seed), Program(name)
    layers = 12 if events < 10_000 else 40
    weights = [program.stack("allocate", f"Linear{i}::weights", "Model::Model", "main") for i in range(layers)]
    forward = [program.stack("allocate", f"Linear{i}::forward", "Model::forward", "step", "train", "main") for i in range(layers)]
    scratch = program.stack("/usr/lib/libcublas.so.13|cublasLtMatmul", "Linear::multiply", "Model::forward", "step", "train", "main")
    losses, release = program.stack("append", "log_loss", "train", "main"), program.stack("free_all", "Model::backward", "step", "train", "main")
    keys = program.stack("allocate", "Cache::remember", "Attention::forward", "Model::forward", "step", "train", "main")

    def size(*steps):
        """Nearly what is handed out, so that rounding does not matter."""
        return chance.choice(steps) * MIB - chance.randrange(20_000)

    for stack in weights:
        program.allocate(size(2, 4), stack)
    while len(program.events) < events - 4 * layers:
        held = []
        for stack in forward:
            held.append(program.allocate(size(1, 2, 4), stack, STREAMS[stack % len(STREAMS)]))
            program.release(program.allocate(chance.randrange(1, 60_000), scratch, STREAMS[1]), scratch)
        for _ in range(leak):
            program.allocate(400, losses)
        if cache:
            program.allocate(cache, keys)
        for address in reversed(held):  # the last one first, as a backward pass does
            program.release(address, release)
        program.time += 60
    while len(program.events) < events:
        program.allocate(400, losses)
    return program.snapshot()
