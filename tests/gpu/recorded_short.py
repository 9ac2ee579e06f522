# SPDX-License-Identifier: MIT
"""Four short programs of kinds that differ in how they use memory (record_traces.py). Each imports its framework itself."""
import random


def serving():
    import torch  # pylint: disable=import-outside-toplevel
    from torch.nn import functional as F  # pylint: disable=import-outside-toplevel

    torch.manual_seed(1)
    draw = random.Random(1)
    layers, width, heads, words = 6, 1024, 16, 32000
    half = {"device": "cuda", "dtype": torch.float16}
    embed = torch.randn(words, width, **half) * 0.02
    blocks = [[torch.randn(width, n, **half) * 0.02 for n in (3 * width, width, 4 * width)] +
              [torch.randn(4 * width, width, **half) * 0.02] for _ in range(layers)]

    def forward(tokens, cache):
        """The next token of one request; `cache` holds keys and values of each layer, or is empty."""
        x = embed[tokens]
        for i, (qkv, out, up, down) in enumerate(blocks):
            q, k, v = (F.layer_norm(x, (width,)) @ qkv).chunk(3, -1)
            q, k, v = (t.view(1, -1, heads, width // heads).transpose(1, 2) for t in (q, k, v))
            if len(cache) > i:
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
                cache[i] = (k, v)
            else:
                k, v = k.contiguous(), v.contiguous()
                cache.append((k, v))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
            x = x + seen.transpose(1, 2).reshape(1, -1, width) @ out
            x = x + F.gelu(F.layer_norm(x, (width,)) @ up) @ down
        return (x[:, -1] @ embed.T).float().softmax(-1).argmax(-1, keepdim=True)

    running = []
    with torch.no_grad():
        for _ in range(60):
            if len(running) < 6 and draw.random() < 0.5:
                prompt = torch.randint(0, words, (1, draw.randint(30, 1500)), device="cuda")
                cache = []
                running.append([forward(prompt, cache), cache])
            for each in running:
                each[0] = forward(each[0], each[1])
            if running and draw.random() < 0.12:
                running.pop(draw.randrange(len(running)))
    torch.cuda.synchronize()


def diffusion():
    import torch  # pylint: disable=import-outside-toplevel
    from torch import nn  # pylint: disable=import-outside-toplevel

    torch.manual_seed(1)
    draw = random.Random(2)
    widths = (128, 256, 384, 512)

    class Block(nn.Module):
        def __init__(self, inside, outside, attends):
            super().__init__()
            self.first = nn.Sequential(nn.GroupNorm(32, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1))
            self.second = nn.Sequential(nn.GroupNorm(32, outside), nn.SiLU(), nn.Conv2d(outside, outside, 3, padding=1))
            self.skip = nn.Conv2d(inside, outside, 1)
            self.attention = nn.MultiheadAttention(outside, 8, batch_first=True) if attends else None

        def forward(self, x):
            x = self.skip(x) + self.second(self.first(x))
            if self.attention is None:
                return x
            flat = x.flatten(2).transpose(1, 2)
            seen, _ = self.attention(flat, flat, flat, need_weights=True)
            return x + seen.transpose(1, 2).reshape(x.shape)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.leave = nn.Conv2d(4, widths[0], 3, padding=1), nn.Conv2d(widths[0], 4, 3, padding=1)
            pairs = list(zip((widths[0], *widths), widths))
            self.down = nn.ModuleList(Block(a, b, i > 1) for i, (a, b) in enumerate(pairs))
            self.up = nn.ModuleList(Block(2 * b, a, i > 1) for i, (a, b) in enumerate(pairs))

        def forward(self, x):
            x, skips = self.enter(x), []
            for block in self.down:
                x = block(x)
                skips.append(x)
                x = nn.functional.avg_pool2d(x, 2)
            for block in reversed(self.up):
                x = nn.functional.interpolate(x, size=skips[-1].shape[2:])
                x = block(torch.cat([x, skips.pop()], 1))
            return self.leave(x)

    net = UNet().cuda().half()
    decoder = nn.Sequential(nn.Conv2d(4, 128, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=8),
                            nn.Conv2d(128, 64, 3, padding=1), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1)).cuda().half()
    with torch.no_grad():
        for _ in range(8):
            side, batch = draw.choice((48, 64, 72, 96, 112)), draw.choice((1, 2, 4))
            x = torch.randn(batch, 4, side, side, device="cuda", dtype=torch.float16)
            for step in range(8):
                conditional, free = net(torch.cat([x, x])).chunk(2)
                x = x - (free + 2 * (conditional - free)) / (step + 2)
            decoder(x)
    torch.cuda.synchronize()


def frames():
    import cupy  # pylint: disable=import-outside-toplevel

    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    draw = random.Random(3)
    state = cupy.random.RandomState(3)
    tables = []
    for _ in range(90):
        rows = int(10 ** draw.uniform(4.5, 7.3))
        key = state.randint(0, rows // 4 + 1, rows, dtype=cupy.int32)
        table = {"key": key, **{f"c{i}": state.random_sample(rows, dtype=cupy.float32)
                                for i in range(draw.randint(1, 5))}}
        action = draw.choice(("sort", "join", "group", "filter"))
        if action == "sort":
            order = cupy.argsort(table["key"])
            table = {name: column[order] for name, column in table.items()}
        elif action == "filter":
            kept = table["c0"] > draw.random()
            table = {name: column[kept] for name, column in table.items()}
        elif action == "group":
            groups, inverse = cupy.unique(table["key"], return_inverse=True)
            table = {"key": groups, **{name: cupy.bincount(inverse, weights=column)
                                       for name, column in table.items() if name != "key"}}
        elif tables:
            other = draw.choice(tables)
            order = cupy.argsort(other["key"])
            at = cupy.minimum(cupy.searchsorted(other["key"][order], table["key"]), len(order) - 1)
            found = other["key"][order][at] == table["key"]
            table = {**{name: column[found] for name, column in table.items()},
                     **{"r" + name: column[order][at][found] for name, column in list(other.items())[:3]}}
        tables.append({name: column for name, column in table.items() if len(column)})
        while len(tables) > 8:
            tables.pop(draw.randrange(len(tables)))
    cupy.cuda.Device().synchronize()


def streams():
    import cupy  # pylint: disable=import-outside-toplevel

    cupy.cuda.set_allocator(cupy.cuda.malloc_async)
    draw = random.Random(4)
    lanes = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    handed = []
    for _ in range(450):
        lane = draw.choice(lanes)
        with lane:
            if handed and draw.random() < 0.5:
                x, done = handed.pop(draw.randrange(len(handed)))
                lane.wait_event(done)
            else:
                x = cupy.full(int(10 ** draw.uniform(4, 7)), 1.5, dtype=cupy.float32)
            for _ in range(draw.randint(1, 5)):
                y = cupy.sqrt(x * x + 1)
                x = y[: max(1, int(len(y) * draw.uniform(0.5, 1)))] - y.mean()
            handed.append((x, lane.record()))
        if len(handed) > 14:
            handed.pop(0)
    cupy.cuda.Device().synchronize()


PROGRAMS = {program.__name__: program for program in (serving, diffusion, frames, streams)}
