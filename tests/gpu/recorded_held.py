# SPDX-License-Identifier: MIT
"""Seven long programs (record_traces.py), written to judge rules that had been chosen before: the first three those for page sizes, the
other four what may be held beyond the need. They start as those of recorded_long.py do."""
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


def answers():
    """Requests in batches, answered by a model of the library transformers and its own cache of keys and values."""
    from transformers import LlamaConfig, LlamaForCausalLM
    draw, device = random.Random(24), recorded_long.DEVICE
    config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=10, num_attention_heads=16, vocab_size=16000)
    model = LlamaForCausalLM(config).to(device).eval()
    for _ in steps(60):
        prompts = torch.randint(3, 16000, (draw.randint(1, 12), draw.randint(10, 900)), device=device)
        model.generate(prompts, max_new_tokens=draw.randint(4, 100), do_sample=False, pad_token_id=0, eos_token_id=None)


def feeds():
    """Three streams: one loads pictures of any size ahead, one trains on them, one judges the weights of some steps ago."""
    draw, device = random.Random(25), recorded_long.DEVICE
    parts = [nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 48), (48, 96), (96, 192))]
    model = nn.Sequential(*(part for conv in parts for part in (conv, nn.GELU())), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 50))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    load, judge = torch.cuda.Stream(), torch.cuda.Stream()
    train = torch.cuda.current_stream()

    def batch():
        with torch.cuda.stream(load):
            shape = draw.randint(4, 32), 3, 8 * draw.randint(8, 40), 8 * draw.randint(8, 40)
            raw = torch.randint(0, 255, shape, dtype=torch.uint8, pin_memory=True).to(device, non_blocking=True)
            return (raw.float() / 255 - 0.5) * 4, load.record_event()

    ahead = [batch() for _ in range(3)]
    for step in steps(600):
        ahead.append(batch())
        x, there = ahead.pop(0)
        train.wait_event(there)
        x.record_stream(train)
        F.cross_entropy(model(x), torch.randint(0, 50, x.shape[:1], device=device)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 8 == 7:
            judged = copy.deepcopy(model)
            judge.wait_stream(train)
            with torch.cuda.stream(judge), torch.no_grad():
                x.record_stream(judge)
                judged(x).argmax(-1)
            for each in judged.parameters():
                each.record_stream(judge)


def points():
    """Clouds of points of any number: neighbours by distance, a part at a time, and features that are gathered along them."""
    draw, device, width = random.Random(26), recorded_long.DEVICE, 128
    layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3)).to(device)
    enter = nn.Linear(3, width).to(device)
    optimizer = torch.optim.Adam([*layers.parameters(), *enter.parameters()], lr=1e-3)
    for _ in steps(500):
        cloud = torch.rand(int(10 ** draw.uniform(3, 4.3)), 3, device=device)
        near = torch.cat([torch.cdist(part, cloud).topk(12, largest=False).indices for part in cloud.split(4096)])
        x = enter(cloud)
        for layer in layers:
            x = x + F.relu(layer(torch.cat([x, x[near].amax(1)], -1)))
        inside = cloud[:, 0] < draw.random()
        (x[inside].pow(2).mean() + x[~inside].abs().mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def again():
    """Training that computes activations again on the way back; sequences of any length, gradients of three batches, bf16."""
    from torch.utils.checkpoint import checkpoint
    draw, device = random.Random(27), recorded_long.DEVICE
    blocks = nn.ModuleList(nn.TransformerEncoderLayer(768, 12, batch_first=True, dropout=0.0) for _ in range(8)).to(device)
    enter, leave = nn.Embedding(20000, 768).to(device), nn.Linear(768, 20000).to(device)
    optimizer = torch.optim.AdamW([*blocks.parameters(), *enter.parameters(), *leave.parameters()], lr=1e-4)
    for step in steps(400):
        tokens = torch.randint(0, 20000, (draw.randint(1, 8), draw.randint(32, 900)), device=device)
        with torch.autocast(device, torch.bfloat16):
            x = enter(tokens)
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=False)
            loss = F.cross_entropy(leave(x).flatten(0, 1), tokens.flatten())
        loss.backward()
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


PROGRAMS = {program.__name__: program for program in (beam, tiles, graphs, answers, feeds, points, again)}

if __name__ == "__main__":
    recorded_long.DEVICE, recorded_long.STEPS = "cpu", 2
    recorded_long.start(PROGRAMS[sys.argv[1]])
