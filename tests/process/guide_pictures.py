# SPDX-License-Identifier: MIT
"""Draws docs/top.png, docs/top-asleep.png and the pictures of docs/guide.md anew, from programs over the simulated driver, and
those of reports from made-up trainings:

  python3 tests/process/guide_pictures.py build

It needs tmux, Chromium and a compiler.
"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import browser
import made_snapshot

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = 104
COLOURS = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "35": "#c678dd", "36": "#56b6c2", "39": "#dcdfe4"}
TRAINING = """
import ctypes, os, sys, time
driver, rank = ctypes.CDLL("libcuda.so.1"), int(os.environ["RANK"] or 0)
context = ctypes.c_void_p()
driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank), driver.cuCtxSetCurrent(context)
def allocate(mib):
    block = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mib << 20)) == 0
    return block
weights = [allocate(64) for _ in range(int(sys.argv[1]))]
for block in [allocate(64) for _ in range(int(sys.argv[2]))]:
    driver.cuMemFree_v2(block)
while "idle" in sys.argv:
    time.sleep(1)
for step in range(1000000):
    batch = [allocate((2, 8, 24)[(step + i + rank) % 3]) for i in range(6)]
    time.sleep(0.02)
    for block in batch:
        driver.cuMemFree_v2(block)
"""
PROGRAMS = [("train.py", 0, 96, 18), ("train.py", 1, 80, 24), ("train.py", 2, 96, 30), ("train.py", 3, 80, 36), ("eval.py", 3, 32, 8)]
SERVERS = [("llama-server", "", 72, 0, "idle"), ("transformers", "", 44, 0, "idle"), ("diffusion.py", "", 80, 12)]


def page(ansi):
    """A terminal's screen with its colours."""
    body, open_spans = "", 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", ansi):
        found = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not found:
            body += html.escape(part)
            continue
        for code in found[1].split(";"):
            if code in ("", "0"):
                body += "</span>" * open_spans
                open_spans = 0
            style = {"1": "font-weight:bold", "2": "opacity:.5", "7": "background:#dcdfe4;color:#282c34"}.get(code)
            if style or code in COLOURS:
                body += f'<span style="{style or "color:" + COLOURS[code]}">'
                open_spans += 1
    return ('<!doctype html><meta charset="utf-8"><style>body{margin:0;background:#282c34;color:#dcdfe4}'
            f"pre{{font:15px/19px 'DejaVu Sans Mono',monospace;margin:16px}}</style><pre>{body}{'</span>' * open_spans}</pre>")


def draw(shows, path, picture, width, height, theme):
    shows.look(width, height, theme)
    shows.ask("Page.navigate", url=path.as_uri())
    shows.wait("location.protocol === 'file:' && document.readyState === 'complete' && document.body?.dataset.ready !== 'no'")
    time.sleep(1)
    shows.picture(str(ROOT / "docs" / picture))


def top(build, folder, shows, picture, started, machine, rows):
    """Those that idle are put to sleep."""
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{build}/tests/sim", "CUSTASH_SIM": machine, "CUSTASH_CONF": "decay:0"}
    screen = ["tmux", "-L", f"custash-{os.getpid()}"]
    programs = []
    try:
        for name, rank, *words in started:
            (folder / name).write_text(TRAINING)
            programs.append(subprocess.Popen([build / "tools/custash", "run", "--", "python3", name, *map(str, words)], cwd=folder,
                                             env={**environment, "RANK": str(rank)}))
            if "idle" in words:
                time.sleep(3)
                subprocess.run([build / "tools/custash", "sleep", str(programs[-1].pid)], check=True)
        time.sleep(6)
        subprocess.run([*screen, "new-session", "-d", "-x", str(COLUMNS), "-y", str(rows), build / "tools/custash", "top"],
                       env={**environment, "LANG": "C.UTF-8"}, check=True)
        time.sleep(4)
        shown = subprocess.run([*screen, "capture-pane", "-e", "-p"], capture_output=True, text=True, check=True).stdout
        subprocess.run([*screen, "kill-server"], check=True)
    finally:
        for each in programs:
            each.kill()
    (folder / "top.html").write_text(page(shown))
    draw(shows, folder / "top.html", picture, COLUMNS * 9 + 40, rows * 19 + 32, "dark")


def guide(build, folder, shows):
    """A page of each task of the guide."""
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{build}/tests/sim:{build}/tests/sim/cudart", "CUSTASH_SIM": "devices=1,memory=2g"}
    (folder / "app.cpp").write_text((ROOT / "tests/process/app.cpp").read_text())
    cuda = subprocess.run([ROOT / "tools/find-cuda"], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["g++", "-std=c++20", "-g", f"-fdebug-prefix-map={folder}=.", "app.cpp", f"-I{cuda}/include", f"-L{build}/tests/sim/cudart", "-lcudart", "-o", "app"],
                   cwd=folder, check=True)
    custash = str(build / "tools/custash")
    for command in ([custash, "run", "--record-history", "leak.html", "--", "./app", "leak"],
                    [custash, "run", "--record-history", "memory.html", "--", "./app", "memory"],
                    [custash, "run", "--check-memory", "--json", "found.json", "--", "./app", "wrong"],
                    [custash, "report", "found.json", "-o", "wrong.html"],
                    [custash, "compare", "--export", "slow.html", "--", "./app", "slow"]):
        subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name, file, height in (("leak", "leak.html", 760), ("memory", "memory.oom.html", 760), ("wrong", "wrong.html", 520), ("slow", "slow.html", 760)):
        draw(shows, folder / file, f"guide-{name}.png", 1100, height, "light")


def reports(build, folder, shows):
    paths = []
    for name, cache in (("before", 0), ("after", 390_000)):
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(made_snapshot.training(3000, name="python3 train.py", cache=cache)))
    page, both = folder / "report.html", folder / "both.html"
    subprocess.run([build / "tools/custash", "report", paths[1], "-o", page], check=True)
    subprocess.run([build / "tools/custash", "report", *paths, "-o", both], check=True)
    for theme, opened, name, height in (("light", page, "light", 1240), ("dark", page, "dark", 1240), ("light", both, "compare", 1180)):
        shows.look(1180, height, theme)
        shows.open(opened)
        if opened == page:
            shows.run("choose(1000, 1700)")
        shows.picture(str(ROOT / "docs" / f"report-{name}.png"))


def main(build):
    shows = browser.Browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            top(build, pathlib.Path(folder), shows, "top.png", PROGRAMS, "devices=4,memory=24g", 15)
            top(build, pathlib.Path(folder), shows, "top-asleep.png", SERVERS, "devices=1,memory=8g", 10)
            guide(build, pathlib.Path(folder), shows)
            reports(build, pathlib.Path(folder), shows)
    finally:
        shows.close()


main(pathlib.Path(sys.argv[1]).resolve())
