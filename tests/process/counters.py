# SPDX-License-Identifier: MIT
"""PyTorch's counters against a model that knows nothing of custash; the keys; the JSON and Prometheus texts."""
import json
import os
import random
import sys

import program as shared
from program import Case

# What torch.cuda.memory_stats has (2.11).
KEYS = [f"{name}.{pool}.{part}" for name in
        ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
         "inactive_split_bytes", "requested_bytes") for pool in ("all", "small_pool", "large_pool")
        for part in ("current", "peak", "allocated", "freed")] + [
    f"{name}.{part}" for name in ("oversize_allocations", "oversize_segments")
    for part in ("current", "peak", "allocated", "freed")] + [
    "max_split_size", "num_alloc_retries", "num_device_alloc", "num_device_free", "num_ooms", "num_sync_all_streams"]

TEXT = """
import ctypes
lib = ctypes.CDLL(None)
blocks = [ctypes.c_void_p() for _ in range(6)]
for block, size in zip(blocks, (100, 5000, 700, 1 << 20, 3 << 20, 50 << 20)):
    assert lib.custash_malloc_async(ctypes.byref(block), 0, ctypes.c_size_t(size), None) == 0
assert lib.custash_free(blocks[1]) == 0 and lib.custash_free(blocks[4]) == 0
size = ctypes.c_size_t(1 << 20)
text = ctypes.create_string_buffer(size.value)
assert lib.custash_stats_text(0, 0, text, ctypes.byref(size)) == 0
print(text.value.decode())
"""


class Statistics(Case):
    def test_a_model_says_the_same(self):
        seed = int(os.environ.get("CUSTASH_TEST_SEED", random.randrange(1 << 30)))
        for backing in ("vmm", "driver"):
            said = self.succeed("counters", str(seed), CUSTASH_SIM="devices=1",
                                CUSTASH_CONF=f"backing:{backing},decay:0")
            self.assertEqual(said, "0 differ\n", f"CUSTASH_TEST_SEED={seed} backing:{backing}")

    def text(self, conf=""):
        return json.loads(self.succeed(sys.executable, "-c", TEXT, CUSTASH_CONF=conf, CUSTASH_SIM="devices=1"))

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


shared.main()
