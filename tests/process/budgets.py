# SPDX-License-Identifier: MIT
"""Small files that would take hours or all memory: custash report and replay refuse them in a sentence."""
import lzma
import os
import resource
import struct
import subprocess
import tempfile
import time

import program
from program import PATHS, Case

MOST_MEMORY = 3 << 30
MOST_SECONDS = 60


def text(value):
    data = value.encode()
    return b"\x8c" + bytes([len(data)]) + data if len(data) < 256 else b"X" + struct.pack("<I", len(data)) + data


def number(value):
    return b"J" + struct.pack("<i", value)


def dictionary(**members):
    return b"}(" + b"".join(text(key) + value for key, value in members.items()) + b"u"


def several(items):
    return b"](" + items + b"e"


def snapshot(events=b"", segments=b""):
    return b"\x80\x02" + dictionary(device_traces=several(several(events)), segments=several(segments)) + b"."


def event(**more):
    return dictionary(action=text("alloc"), addr=number(4096), size=number(512), stream=number(0), time_us=number(1), **more)


def frames(items):
    return event(frames=several(items))


KEPT, AGAIN = b"q\x00", b"h\x00"
WIDE = b"}(" + text("action") + text("alloc") + b"".join(text("x") + b"N" for _ in range(1_000_000)) + b"u"
FILE = text("A" * 60000)


def frame(line, file=AGAIN):
    return dictionary(filename=file, line=number(line))


class Budgets(Case):
    def refused(self, verb, name, data, why):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(lzma.compress(data, preset=1) if name.endswith(".xz") else data)
            words = [PATHS.command, verb, path] + (["-o", os.path.join(folder, "page.html")] if verb == "report" else [])
            most = MOST_SECONDS * (5 if program.emulated() else 1)
            began = time.monotonic()
            done = subprocess.run(words, capture_output=True, text=True, timeout=2 * most, check=False, env=program.environment(False),
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, rf"^custash: {path}.*: {why}\n$")
            self.assertLess(time.monotonic() - began, most)
            self.assertEqual(os.listdir(folder), [name])

    def test_a_dictionary_of_a_million_keys_that_every_event_is(self):
        for verb in ("report", "replay"):
            self.refused(verb, "a.pickle.xz", snapshot(WIDE + KEPT + AGAIN * 1_000_000),
                         "takes more work than a snapshot can sensibly need")

    def test_a_list_that_is_too_long(self):
        self.refused("report", "a.pickle.xz", snapshot(event() + KEPT + AGAIN * (1 << 27)),
                     "longer lists than a snapshot can sensibly hold")

    def test_long_names(self):
        self.refused("report", "a.pickle.xz", snapshot(frames(frame(1, text("A" * 100_000)))), "frames: a text too long")
        many = frame(1, FILE + KEPT) + b"".join(frame(line) for line in range(2, 4000))
        self.refused("report", "a.pickle.xz", snapshot(frames(many)), "too many frames")

    def test_a_stack_of_millions_of_frames(self):
        self.refused("report", "a.pickle.xz", snapshot(frames(frame(1, text("a.py")) + KEPT + AGAIN * (1 << 24))), "too many frames")

    def test_lists_of_nothing(self):
        data = b'{"format":"custash snapshot 1","x":[' + b"[]," * ((1 << 23) + 1) + b"[]]}"
        self.refused("report", "a.json", data, "no snapshot: more values than one can sensibly hold")

    def test_thousands_of_streams(self):
        lines = b"".join(b"%d 0 a %d 4096 %d\n" % (n, n, n) for n in range(5000))
        self.refused("replay", "a.trace", lines, "more than 4,096 streams")


if __name__ == "__main__":
    program.main()
