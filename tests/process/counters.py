# SPDX-License-Identifier: MIT
"""PyTorch's counters against a model that knows nothing of custash; the keys; the JSON and Prometheus texts."""
import json
import os
import random
import re
import subprocess
import sys

import program as shared
from program import PATHS, Case, environment, must_load_the_library

PATHS.command = ""

# What torch.cuda.memory_stats has (2.11).
KEYS = [f"{name}.{pool}.{part}" for name in
        ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
         "inactive_split_bytes", "requested_bytes") for pool in ("all", "small_pool", "large_pool")
        for part in ("current", "peak", "allocated", "freed")] + [
    f"{name}.{part}" for name in ("oversize_allocations", "oversize_segments")
    for part in ("current", "peak", "allocated", "freed")] + [
    "max_split_size", "num_alloc_retries", "num_device_alloc", "num_device_free", "num_ooms", "num_sync_all_streams"]

TEXT = """
import ctypes, sys
lib = ctypes.CDLL(None)
blocks = [ctypes.c_void_p() for _ in range(6)]
for block, size in zip(blocks, (100, 5000, 700, 1 << 20, 3 << 20, 50 << 20)):
    assert lib.custash_malloc_async(ctypes.byref(block), 0, ctypes.c_size_t(size), None) == 0
assert lib.custash_free(blocks[1]) == 0 and lib.custash_free(blocks[4]) == 0
size = ctypes.c_size_t(1 << 20)
text = ctypes.create_string_buffer(size.value)
assert lib.custash_stats_text(0, 0, text, ctypes.byref(size)) == 0
print(text.value.decode(), flush=True)
sys.stdin.read()
"""


class Statistics(Case):
    def test_a_model_says_the_same(self):
        seed = int(os.environ.get("CUSTASH_TEST_SEED", random.randrange(1 << 30)))
        for backing in ("vmm", "driver"):
            said = self.succeed("counters", str(seed), CUSTASH_SIM="devices=1",
                                CUSTASH_CONF=f"backing:{backing},decay:0")
            self.assertEqual(said, "0 differ\n", f"CUSTASH_TEST_SEED={seed} backing:{backing}")

    def text(self, conf="", stat=None):
        """The program's JSON; with `stat` also what the command prints of it."""
        must_load_the_library(sys.executable)
        env = environment(preload=True, CUSTASH_CONF=conf, CUSTASH_SIM="devices=1")
        with subprocess.Popen([sys.executable, "-c", TEXT], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            told, said = process.stdout.readline(), ""
            if stat:
                said = self.succeed(PATHS.command, "stat", *stat, str(process.pid), preload=False)
            self.assertEqual(process.communicate(timeout=60), ("", ""))
        self.assertEqual(process.returncode, 0)
        return (json.loads(told), said) if stat else json.loads(told)

    def test_every_key_of_pytorch_is_there(self):
        told = self.text()
        self.assertEqual({key for key in told["stats"] if not key.startswith("custash.")}, set(KEYS))
        self.assertEqual(told["stats"]["requested_bytes.all.current"], 100 + 700 + (1 << 20) + (50 << 20))

    def test_the_parts_add_up(self):
        told = self.text()
        stats = told["stats"]
        for part in ("streams", "sizes"):
            self.assertEqual(sum(row["held_bytes"] for row in told[part]), stats["reserved_bytes.all.current"])
            self.assertEqual(sum(row["in_use"] for row in told[part]), stats["allocation.all.current"])
            self.assertEqual(sum(row["in_use_bytes"] for row in told[part]), stats["allocated_bytes.all.current"])
            self.assertEqual(sum(row["free_bytes"] for row in told[part]), stats["custash.free_bytes"])
            self.assertEqual(max(row["largest_free_block"] for row in told[part]), stats["custash.largest_free_block"])
        for call in told["driver_calls"]:
            self.assertEqual(sum(call["up_to_ns"].values()), call["count"])
            self.assertGreaterEqual(call["total_ns"], call["max_ns"])
        self.assertEqual((told["callers"], told["lifetimes_up_to_ns"]), ([], {}))

    def test_detailed(self):
        plain, told = self.text(), self.text("stats:detailed")
        self.assertGreater({c["name"] for c in told["driver_calls"]}, {c["name"] for c in plain["driver_calls"]})
        self.assertEqual(sum(c["in_use"] for c in told["callers"]), 4)
        self.assertEqual(sum(c["allocations"] for c in told["callers"]), 6)
        self.assertEqual(sum(c["in_use_requested_bytes"] for c in told["callers"]),
                         told["stats"]["requested_bytes.all.current"])
        self.assertTrue(all(c["module"] for c in told["callers"]))
        self.assertEqual(sum(told["lifetimes_up_to_ns"].values()), 2)

    def test_prometheus(self):
        types, samples, helps = {}, {}, set()
        told, said = self.text(stat=["--prometheus"])
        for line in said.splitlines():
            if not line:
                continue
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types)
                types[name] = kind
                self.assertIn(name, helps)
                continue
            if line.startswith("# HELP "):
                self.assertRegex(line, r"^# HELP [a-z_]+ [A-Z][^\\]+\.$")
                helps.add(line.split()[2])
                continue
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)', line)
            self.assertTrue(match, line)
            self.assertNotIn((match[1], match[2]), samples)
            samples[match[1], match[2]] = float(match[3])
            self.assertIn(re.sub("_(bucket|sum|count)$", "", match[1]) if match[1] not in types else match[1], types)
        for name, kind in types.items():
            counts = name.endswith("_total") or "_num_" in name or name.endswith("_time_ns") or name.startswith("custash_host_") and name.endswith(
                ("_allocated", "_freed", "_count", "_total"))
            self.assertEqual(kind, "histogram" if name.endswith("_seconds") else "counter" if counts else "gauge", name)
        told = told["stats"]
        for pool in ("all", "small_pool", "large_pool"):
            self.assertEqual(samples["custash_allocated_bytes", f'{{device="0",pool="{pool}"}}'],
                             told[f"allocated_bytes.{pool}.current"])
        self.assertEqual(samples["custash_free_bytes", '{device="0"}'], told["custash.free_bytes"])

    def test_the_table_of_pytorch(self):
        told, said = self.text(stat=["--device", "0"])
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.count("|") == 6]
        table = {row[0]: row[1:] for row in rows[1:] if not row[0].startswith("from ")}
        self.assertEqual(rows[0], ["Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"])
        stats = told["stats"]
        for title, key in (("Allocations", "allocation"), ("Active allocs", "active"), ("GPU reserved segments", "segment")):
            self.assertEqual([int(cell) for cell in table[title]],
                             [stats[f"{key}.all.{part}"] for part in ("current", "peak", "allocated", "freed")], title)
        for title, key in (("Allocated memory", "allocated_bytes"), ("Requested memory", "requested_bytes")):
            self.assertEqual(table[title], [f"{stats[f'{key}.all.{part}'] // 1024} KiB" for part in ("current", "peak", "allocated", "freed")])


shared.main()
