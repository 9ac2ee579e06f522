# SPDX-License-Identifier: MIT
"""Six long programs (record_traces.py): what a short recording does not show. All are seeded. On a machine without a GPU,
`python3 recorded_long.py NAME` runs a few steps on the processor, to see that the program works."""
import random
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    torch = nn = F = None

DEVICE, STEPS = "cuda", None  # None: as many steps as the program has


def start(program):
    if torch is None:
        raise ImportError("PyTorch is not installed")
    torch.manual_seed(1)
    program()


def steps(many):
    return range(STEPS or many)


def chat():
    """A decoder serves requests. Each layer's cache grows by pieces of 64 tokens, so the sizes follow the requests' lengths."""
    draw, layers, width, words, piece = random.Random(11), 8, 1024, 16000, 64
    half = {"device": DEVICE, "dtype": torch.float16 if DEVICE == "cuda" else torch.float32}
    embed = torch.randn(words, width, **half) * 0.02
    weights = [[torch.randn(width, n, **half) * 0.02 for n in (3 * width, width)] for _ in range(layers)]

    def step(request):
        tokens, caches, used = request["tokens"], request["caches"], request["used"]
        x = embed[tokens]
        for i, (qkv, out) in enumerate(weights):
            q, k, v = (x @ qkv).chunk(3, -1)
            need = used + len(tokens)
            if caches[i] is None or caches[i].shape[1] < need:
                grown = torch.empty(2, (need + piece - 1) // piece * piece, width, **half)
                if caches[i] is not None:
                    grown[:, :used] = caches[i][:, :used]
                caches[i] = grown
            caches[i][0, used:need], caches[i][1, used:need] = k, v
            seen = torch.softmax((q @ caches[i][0, :need].T) / width ** 0.5, -1) @ caches[i][1, :need]
            x = F.layer_norm(x + seen @ out, (width,))
        request["used"] += len(tokens)
        request["tokens"] = (x[-1:] @ embed.T).argmax(-1)
        request["left"] -= 1

    running = []
    with torch.no_grad():
        for _ in steps(500):
            if len(running) < 24 and draw.random() < 0.3:
                prompt = torch.randint(0, words, (draw.randint(20, 900),), device=DEVICE)
                running.append({"tokens": prompt, "caches": [None] * layers, "used": 0, "left": int(draw.expovariate(1 / 120)) + 1})
            for request in running:
                step(request)
            running = [request for request in running if request["left"] > 0]


def experts():
    """A mixture of experts: how many tokens each expert gets differs from step to step."""
    draw, width, count = random.Random(12), 512, 8
    router = nn.Linear(width, count).to(DEVICE)
    workers = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count))
    workers.to(DEVICE)
    optimizer = torch.optim.AdamW([*router.parameters(), *workers.parameters()], lr=1e-3)
    for _ in steps(600):
        x = torch.randn(draw.randint(500, 12000), width, device=DEVICE)
        chances, chosen = router(x).softmax(-1).topk(2, -1)
        y = torch.zeros_like(x)
        for i, worker in enumerate(workers):
            rows, place = (chosen == i).nonzero(as_tuple=True)
            if len(rows):
                y = y.index_add(0, rows, worker(x[rows]) * chances[rows, place, None])
        F.mse_loss(y, x).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def reinforce():
    """A policy plays, then learns from what it played: two phases with different sizes, in turn."""
    draw, width = random.Random(13), 768
    policy = nn.GRU(64, width, 2, batch_first=True).to(DEVICE)
    head = nn.Linear(width, 32).to(DEVICE)
    optimizer = torch.optim.Adam([*policy.parameters(), *head.parameters()], lr=1e-4)
    for _ in steps(25):
        games, length = draw.choice((64, 128, 256)), draw.randint(20, 60)
        state, seen, acted = None, [], []
        with torch.no_grad():
            for _ in range(length):
                view = torch.randn(games, 1, 64, device=DEVICE)
                out, state = policy(view, state)
                seen.append(view)
                acted.append(head(out[:, -1]).softmax(-1).multinomial(1))
        views, actions = torch.cat(seen, 1), torch.cat(acted, 1)
        reward = torch.randn(games, length, device=DEVICE)
        for part in torch.randperm(games, device=DEVICE).chunk(4):
            out, _ = policy(views[part])
            chances = head(out).log_softmax(-1).gather(-1, actions[part, :, None])[..., 0]
            (-(chances * reward[part]).mean()).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def recurrent():
    """Sequences of any length, padded to the longest of their batch; the vocabulary's layer is the largest tensor."""
    draw, words, width = random.Random(14), 20000, 512
    embed, network, head = nn.Embedding(words, width).to(DEVICE), nn.LSTM(width, width, 3, batch_first=True).to(DEVICE), None
    head = nn.Linear(width, words).to(DEVICE)
    parameters = [*embed.parameters(), *network.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for step in steps(700):
        longest = max(draw.randint(5, 120) for _ in range(32))
        ids = torch.randint(0, words, (32, longest + 1), device=DEVICE)
        out, _ = network(embed(ids[:, :-1]))
        F.cross_entropy(head(out).flatten(0, 1), ids[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=step % 50 != 0)


def detect():
    """Images of any size through a pyramid of features; the boxes that overlap a better one are dropped."""
    draw = random.Random(15)
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU()).to(DEVICE)
    levels = nn.ModuleList(nn.Conv2d(128, 128, 3, 2, 1) for _ in range(3)).to(DEVICE)
    head = nn.Conv2d(128, 5, 3, padding=1).to(DEVICE)
    kept = []
    with torch.no_grad():
        for _ in steps(500):
            x = torch.rand(draw.choice((1, 2, 4)), 3, 32 * draw.randint(8, 34), 32 * draw.randint(8, 34), device=DEVICE)
            found, y = [], stem(x)
            for level in levels:
                y = F.relu(level(y))
                found.append(head(y).permute(0, 2, 3, 1).reshape(-1, 5))
            boxes = torch.cat(found)
            boxes = boxes[boxes[:, 4] > boxes[:, 4].quantile(0.9 if len(boxes) < 100000 else 0.99)][:3000]
            low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:4].abs()
            sides = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0)
            overlap = sides.prod(-1)
            kept.append(boxes[~(overlap.triu(1) > 0.5).any(0)])
            if len(kept) > draw.randint(5, 40):
                kept = kept[len(kept) // 2:]


def lanes():
    """Four streams: two train, one evaluates, one prepares batches that the others take behind an event."""
    draw, width = random.Random(16), 1024
    cuda = DEVICE == "cuda"
    streams = [torch.cuda.Stream() if cuda else None for _ in range(4)]
    models = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).to(DEVICE) for _ in range(2)]
    optimizers = [torch.optim.Adam(model.parameters(), lr=1e-4) for model in models]
    ready = []
    for _ in steps(600):
        with torch.cuda.stream(streams[3]):
            batch = torch.randn(draw.randint(64, 6000), width, device=DEVICE)
            batch = (batch - batch.mean(0)) / batch.std(0)
            ready.append((batch, streams[3].record_event() if cuda else None))
        lane = draw.randrange(3)
        batch, done = ready.pop(draw.randrange(len(ready)))
        with torch.cuda.stream(streams[lane]):
            if cuda:
                streams[lane].wait_event(done)
            if lane < 2:
                F.mse_loss(models[lane](batch), batch).backward()
                optimizers[lane].step()
                optimizers[lane].zero_grad(set_to_none=True)
            else:
                with torch.no_grad():
                    models[0](batch).var(0)
            if cuda:
                batch.record_stream(streams[lane])
        while len(ready) > 6:
            ready.pop(0)


PROGRAMS = {program.__name__: program for program in (chat, experts, reinforce, recurrent, detect, lanes)}

if __name__ == "__main__":
    DEVICE, STEPS = "cpu", 2
    start(PROGRAMS[sys.argv[1]])
