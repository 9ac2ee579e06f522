# SPDX-License-Identifier: MIT
"""Model servers that sleep between requests: changed by nothing but `custash run`, and random weights.

  servers.py --build build --folder FOLDER [--only NAME...] [--cycles 100] [--checkpoints 0] [--json FILE]

FOLDER holds what cannot be made here: llama/llama-server and model.gguf. A server whose parts are missing is left out. Each runs
twice. Without custash: the time from its start to the first token, and that of a request to a server that is awake; with --checkpoints also
that of requests to a server that NVIDIA's checkpoint functions took off the device (driver 570), with restoring. With it: before every
request `custash sleep --all`; each answer must be that of the first run, byte for byte. Then a monitor asks the sleeping server
what monitors ask, and what wakes it is named. The status is 1 where an answer differs or a server did not sleep, 77 where all were
left out.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu"))
import checkpoint  # noqa: E402
from device_memory import used_mib  # noqa: E402
from same_frameworks import installed  # noqa: E402

SKIPPED = 77
PORT = 8099
TOKENS = 16
KINDS = ("reserved", "asleep", "by_driver", "imported", "nvml", "unexplained")


def opened(path, body=None, seconds=120, port=PORT):
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode() if body else None,
                                   {"Content-Type": "application/json"})
    return urllib.request.urlopen(asked, timeout=seconds)


def http(path, body=None):
    with opened(path, body) as answer:
        return answer.read()


class Program:
    """A part of server_programs.py."""
    monitors = ("/health", "/memory")

    def __init__(self, name, modules):
        self.name, self.modules = name, modules

    def missing(self, _):
        return next((name for name in self.modules if not installed(name)), None)

    def command(self, _):
        return [sys.executable, str(HERE / "server_programs.py"), self.name, str(PORT)]

    def ask(self, count):
        return http("/", {"count": count})


class Llama:
    name, monitors = "llama-server", ("/health", "/props", "/slots", "/metrics", "/v1/models")

    def missing(self, folder):
        return next((name for name in ("llama/llama-server", "model.gguf") if not (folder / name).exists()), None)

    @staticmethod
    def command(folder, port=PORT, context=32768):
        return [str(folder / "llama/llama-server"), "-m", str(folder / "model.gguf"), "-ngl", "99", "-c", str(context), "-np", "1", "-fa", "auto",
                "-fit", "off", "-cram", "0", "--metrics", "--slots", "--port", str(port), "--host", "127.0.0.1"]

    def ask(self, count):
        asked = {"prompt": " ".join(f"w{i}" for i in range(400)), "n_predict": count, "temperature": 0, "seed": 1, "cache_prompt": True}
        said = json.loads(http("/completion", asked))
        self.evaluated = said["timings"]["prompt_n"]
        return said["content"].encode()


class Transformers:
    name, monitors = "transformers serve", ("/health", "/v1/models")

    def missing(self, folder):
        lacks = next((name for name in ("transformers", "fastapi", "uvicorn", "openai") if not installed(name)), None)
        if not lacks and not (folder / "transformers").exists():
            self.make(folder / "transformers")
        return lacks

    @staticmethod
    def make(folder):
        import tokenizers
        import torch
        import transformers
        torch.manual_seed(1)
        words = {f"w{i}": i for i in range(4096)}
        plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
        plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="w0", pad_token="w1", eos_token="w2")
        tokenizer.chat_template = "{% for each in messages %}{{ each['content'] }} {% endfor %}"
        tokenizer.save_pretrained(folder)
        config = transformers.LlamaConfig(hidden_size=4096, intermediate_size=11008, num_hidden_layers=12, num_attention_heads=32,
                                          vocab_size=4096, pad_token_id=1, eos_token_id=2, bos_token_id=3)
        with torch.device("cuda"):
            model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        model.save_pretrained(folder)

    def command(self, folder):
        self.model = str(folder / "transformers")
        return [shutil.which("transformers"), "serve", "--port", str(PORT), "--host", "127.0.0.1"]

    def ask(self, count):
        asked = {"model": self.model, "messages": [{"role": "user", "content": " ".join(f"w{i}" for i in range(10, 410))}], "stream": False,
                 "max_tokens": count, "temperature": 0}
        return json.dumps(json.loads(http("/v1/chat/completions", asked))["choices"]).encode()


SERVERS = (Llama(), Transformers(), Program("diffusion", ("torch", "diffusers")), Program("expandable", ("torch", "transformers")),
           Program("xgboost", ("xgboost",)))


class Started:
    """A process and what it prints, in FOLDER/NAME.out and NAME.log. With it: its end. `conf`: under custash, with these options."""

    def __init__(self, args, name, command, conf, **more):
        env = {key: value for key, value in os.environ.items() if not key.startswith("CUSTASH")}
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(args.folder / "llama"), env.get("LD_LIBRARY_PATH")]))
        if conf is not None:
            env["CUSTASH_CONF"] = conf
            command = [args.command, "run", "--", *command]
        self.name, self.out, self.log = name, args.folder / f"{name}.out", args.folder / f"{name}.log"
        self.start = time.monotonic()
        with open(self.out, "wb") as out, open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env={**env, **more}, stdout=out, stderr=log)

    def until_it_answers(self, ask):
        """The seconds from its start."""
        while True:
            try:
                ask()
                return time.monotonic() - self.start
            except (OSError, ValueError, KeyError) as why:
                if self.process.poll() is not None or time.monotonic() - self.start > 120:
                    raise RuntimeError(f"{self.name} does not answer: {why}") from why
                time.sleep(.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def started(server, args, conf):
    (args.folder / "hub").mkdir(exist_ok=True)
    name = f"{server.name.split()[0]}_{'bare' if conf is None else 'with'}"
    return Started(args, name, server.command(args.folder), conf, HF_HUB_OFFLINE="1", HF_HUB_CACHE=str(args.folder / "hub"),
                   CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONDONTWRITEBYTECODE="1")


def timed(ask, *words):
    begin = time.monotonic()
    return ask(*words), (time.monotonic() - begin) * 1000


def bare(server, args):
    with started(server, args, None) as process:
        seconds = process.until_it_answers(lambda: server.ask(1))
        right, said = server.ask(TOKENS), server.ask(TOKENS)
        if said != right:
            raise RuntimeError("does not say the same twice without custash")
        row = {"reload_s": seconds, "awake_mib": used_mib(), "first_token_ms": statistics.median(timed(server.ask, 1)[1] for _ in range(7))}
        if args.checkpoints:
            row["checkpoints"] = checkpoints(server, args.checkpoints, process.process.pid, right)
        return right, row


def checkpoints(server, count, pid, right):
    """Of a process by NVIDIA's functions, and back."""
    by, rows = checkpoint.start("--helper", pid), []
    for _ in range(count):
        calls = {verb: checkpoint.ask(by, verb) for verb in ("Lock", "Checkpoint")}
        row = {"left_mib": used_mib()}
        begin = time.monotonic()
        calls.update((verb, checkpoint.ask(by, verb)) for verb in ("Restore", "Unlock"))
        server.ask(1)
        row["first_token_ms"] = (time.monotonic() - begin) * 1000
        rows.append({**row, "calls": calls, "same": server.ask(TOKENS) == right})
    checkpoint.end(by)
    return rows


def sleep(args):
    """(how long it took, what it said)"""
    done, ms = timed(lambda: subprocess.run([args.command, "sleep", "--all"], capture_output=True, text=True, timeout=120, check=False))
    return ms, done.returncode, (done.stdout + done.stderr).strip()


def kinds(args):
    """The MiB of each kind that custash's programs hold on the device."""
    done = subprocess.run([args.command, "top", "--once", "--json"], capture_output=True, text=True, check=True)
    devices = [each for process in json.loads(done.stdout)["processes"] for each in process["devices"]]
    return {kind: sum(each[f"{kind}_bytes"] or 0 for each in devices) / 2**20 for kind in KINDS}


def asleep(args):
    return kinds(args)["asleep"] > 0


def measured(server, args):
    start = used_mib()
    right, alone = bare(server, args)
    row = {"name": server.name, "bare": alone, "wrong": [], "sleeps": [], "first_token_ms": [], "left_mib": [], "woken_by": []}
    with started(server, args, args.conf) as process:
        row["start_s"] = process.until_it_answers(lambda: server.ask(1))
        for _ in range(3):
            if server.ask(TOKENS) != right:
                row["wrong"].append("awake: another answer")
        row["awake_mib"] = used_mib() - start
        row["kinds_awake"] = kinds(args)
        for cycle in range(args.cycles):
            ms, status, said = sleep(args)
            row["kinds_asleep"] = kinds(args)
            if status or not row["kinds_asleep"]["asleep"]:
                row["wrong"].append(f"cycle {cycle}: not asleep: {said}")
                break
            row["sleeps"].append(ms)
            row["left_mib"].append(used_mib() - start)
            row["first_token_ms"].append(timed(server.ask, 1)[1])
            if getattr(server, "evaluated", 0) > 4:
                row["wrong"].append(f"cycle {cycle}: the cache of the prompt is lost")
            if server.ask(TOKENS) != right:
                row["wrong"].append(f"cycle {cycle}: another answer")
        row["said"] = said
        for path in server.monitors:
            sleep(args)
            try:
                http(path)
            except urllib.error.HTTPError as why:
                row["woken_by"].append(f"{path}: {why}")
            time.sleep(.2)
            if not asleep(args):
                row["woken_by"].append(path)
    alone["awake_mib"] -= start
    for each in alone.get("checkpoints", ()):
        each["left_mib"] -= start
    return row


def line_of(row):
    def middle(values):
        return f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})" if values else "-"
    return (f"{row['name']}: {'; '.join(row['wrong']) or 'same'}, {len(row['sleeps'])} sleeps of {middle(row['sleeps'])} ms; first token "
            f"{middle(row['first_token_ms'])} ms asleep, {row['bare']['first_token_ms']:.0f} awake, reload {row['bare']['reload_s']:.1f} s; "
            f"{row['awake_mib']:.0f} MiB awake (bare {row['bare']['awake_mib']:.0f}), {middle(row['left_mib'])} asleep; "
            f"woken by: {', '.join(row['woken_by']) or 'nothing'}\n  {row['said']}\n"
            + "\n".join(f"  {when}, MiB: " + ", ".join(f"{kind} {mib:.0f}" for kind, mib in row[f"kinds_{when}"].items())
                        for when in ("awake", "asleep")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--checkpoints", default=0, type=int, help="how many checkpoints to take without custash (0)")
    parser.add_argument("--conf", default="sleep_pinned:16G")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.command = f"{args.build}/tools/custash"
    rows, bad = [], False
    for server in SERVERS:
        if args.only and server.name.split()[0] not in args.only:
            continue
        lacks = server.missing(args.folder) if used_mib() is not None else "a GPU"
        if lacks:
            print(f"{server.name}: skip: no {lacks}", flush=True)
            continue
        try:
            rows.append(measured(server, args))
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as why:
            print(f"{server.name}: {why}", flush=True)
            bad = True
            continue
        bad |= bool(rows[-1]["wrong"])
        print(line_of(rows[-1]), flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as out:
                json.dump(rows, out, indent=1)
    return 1 if bad else 0 if rows else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
