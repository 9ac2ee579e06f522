# SPDX-License-Identifier: MIT
"""Three long programs (record_traces.py). They were written after the rules for page sizes were chosen, to judge these.
They start as those of recorded_long.py do."""
import copy
import random
import sys

import recorded_long
from recorded_long import F, nn, steps, torch


def beam():
    """Translation by beam search: every step the caches of the best beams are gathered, a token longer; batches of any size."""
    draw, device, layers, width, words, beams = random.Random(21), recorded_long.DEVICE, 6, 512, 12000, 5
    embed = torch.randn(words, width, device=device) * 0.02
    weights = [[torch.randn(width, n, device=device) * 0.02 for n in (3 * width, width)] for _ in range(layers)]
    with torch.no_grad():
        for _ in steps(40):
            batch, length = draw.randint(1, 24), draw.randint(10, 60)
            rows = batch * beams
            caches = [torch.zeros(2, rows, 1, width, device=device) for _ in range(layers)]
            tokens, scores = torch.zeros(rows, dtype=torch.long, device=device), torch.zeros(rows, 1, device=device)
            for _ in range(length):
                x = embed[tokens]
                for i, (qkv, out) in enumerate(weights):
                    q, k, v = (x @ qkv).chunk(3, -1)
                    caches[i] = torch.cat([caches[i], torch.stack([k, v])[:, :, None]], 2)
                    seen = (q[:, None] * caches[i][0]).sum(-1).softmax(-1)
                    x = F.layer_norm(x + (seen[:, :, None] * caches[i][1]).sum(1) @ out, (width,))
                best, at = (scores + (x @ embed.T).log_softmax(-1)).view(batch, -1).topk(beams, -1)
                origin = (at // words + torch.arange(batch, device=device)[:, None] * beams).flatten()
                tokens, scores = (at % words).flatten(), best.view(-1, 1)
                caches = [cache[:, origin] for cache in caches]


def tiles():
    """Segmentation of pictures: crops of any size, gradients of four before a step, a slow copy of the weights, whole pictures now and then."""
    draw, device = random.Random(22), recorded_long.DEVICE
    down = [nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 32), (32, 64), (64, 128), (128, 256))]
    up = [nn.ConvTranspose2d(a, b, 4, 2, 1) for a, b in ((256, 128), (256, 64), (128, 32), (64, 8))]
    parts = nn.ModuleList([*down, *up]).to(device)
    slow = copy.deepcopy(parts)
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-4)

    def run(layers, x):
        kept = []
        for layer in layers[:4]:
            kept.append(x)
            x = F.gelu(layer(x))
        for i, layer in enumerate(layers[4:]):
            x = layer(x)
            if i < 3:
                x = torch.cat([F.gelu(x), kept[-1 - i]], 1)
        return x

    for step in steps(500):
        x = torch.rand(draw.randint(1, 6), 3, 16 * draw.randint(6, 24), 16 * draw.randint(6, 24), device=device)
        target = torch.randint(0, 8, (x.shape[0], *x.shape[2:]), device=device)
        F.cross_entropy(run(parts, x), target).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            with torch.no_grad():
                for a, b in zip(slow.parameters(), parts.parameters()):
                    a.lerp_(b, 0.01)
        if step % 60 == 59:
            with torch.no_grad():
                run(slow, torch.rand(4, 3, 1024, 768, device=device)).argmax(1)


def graphs():
    """Messages along the edges of graphs of any size; what each graph's nodes learnt is kept for a while."""
    draw, device, width = random.Random(23), recorded_long.DEVICE, 256
    layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(4)).to(device)
    enter = nn.Embedding(120, width).to(device)
    optimizer = torch.optim.Adam([*layers.parameters(), *enter.parameters()], lr=1e-3)
    memory = {}
    for step in steps(700):
        which, nodes = draw.randrange(40), int(10 ** draw.uniform(2.5, 4.5))
        edges = torch.randint(0, nodes, (2, nodes * draw.randint(2, 8)), device=device)
        x = enter(torch.randint(0, 120, (nodes,), device=device))
        for layer in layers:
            gathered = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            x = x + F.relu(layer(torch.cat([x, gathered], -1)))
        loss = x.pow(2).mean()
        if which in memory:
            loss = loss + F.mse_loss(x.mean(0), memory[which].mean(0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        memory[which] = x.detach()
        if step % 25 == 24:
            memory.pop(next(iter(memory)))


PROGRAMS = {program.__name__: program for program in (beam, tiles, graphs)}

if __name__ == "__main__":
    recorded_long.DEVICE, recorded_long.STEPS = "cpu", 2
    recorded_long.start(PROGRAMS[sys.argv[1]])
