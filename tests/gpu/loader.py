# SPDX-License-Identifier: MIT
"""A PyTorch DataLoader with pin_memory=True, workers, and a model that is trained on its batches.

Prints one line: the sum of what arrived on the device and the last loss (the same whatever serves the
memory), milliseconds of a batch, and what is pinned. PyTorch has a cache of pinned memory of its own and
no switch for it; --own-cache off empties it after every batch, so that each batch is pinned anew.

  loader.py [--own-cache on|off] [--batches 150] [--workers 4] [--quick]
"""
import argparse
import ctypes
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
except ImportError:
    print("skip: PyTorch is not installed")
    sys.exit(77)

SIDE = 128
CHANNELS = 3
WARM_UP = 10


class Pictures(Dataset):
    """Made from the number of the picture alone: the same in every process."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        return torch.rand(CHANNELS, SIDE, SIDE, generator=made), index % 10


def custash_held():
    """Bytes that custash has pinned; None where it is not preloaded."""
    stats = getattr(ctypes.CDLL(None), "custash_host_memory_stats", None)
    if stats is None:
        return None

    class Stat(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]

    values = (Stat * 100)()
    count = ctypes.c_size_t(100)
    if stats(values, ctypes.byref(count)) != 0:
        return None
    return {values[i].name: values[i].value for i in range(count.value)}[b"allocated_bytes.peak"]


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own-cache", choices=("on", "off"), default="on")
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.batches = min(args.batches, 40)
    return args


def main():
    args = options()
    if not torch.cuda.is_available():
        print("skip: PyTorch sees no GPU")
        return 77
    torch.manual_seed(1)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    model = nn.Sequential(nn.Conv2d(CHANNELS, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Pictures(args.batches * args.batch), batch_size=args.batch,
                        num_workers=args.workers, pin_memory=True, drop_last=True)
    sums = torch.zeros((), dtype=torch.float64, device="cuda")
    loss = None
    times = []
    start = time.perf_counter()
    for pictures, labels in loader:
        assert pictures.is_pinned()
        there = pictures.cuda(non_blocking=True)
        labels = labels.cuda(non_blocking=True)
        del pictures
        sums += there.double().sum()
        loss = nn.functional.cross_entropy(model(there), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if args.own_cache == "off":
            torch._C._host_emptyCache()
        now = time.perf_counter()
        times.append((now - start) * 1e3)
        start = now
    torch.cuda.synchronize()
    stats = torch.cuda.host_memory_stats()
    print(f"ok loader_own_cache_{args.own_cache} ms={statistics.median(times[WARM_UP:]):.2f} "
          f"mean_ms={statistics.mean(times[WARM_UP:]):.2f} batches={len(times)} "
          f"sum={sums.item()!r} loss={loss.item()!r} "
          f"torch_pinned={stats['allocated_bytes.peak']} custash_pinned={custash_held()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
