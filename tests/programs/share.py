# SPDX-License-Identifier: MIT
"""llama-servers that together need more than the device has, and one beside a training that wants all of it.

  share.py --build build --folder FOLDER [--only servers|training] [--json FILE]

FOLDER holds llama/llama-server and model.gguf, as for servers.py. Each server sleeps when another process lacks memory
(yield_after:1). Requests come at random times, whether or not earlier ones have been answered, with one of five prompts of 400 words
and no prompt cache. Printed are the times to the first token and what the logs say was copied. With --only training the server has a
priority, and train_gpt2.py runs twice: alone, and beside the requests. The status is 1 where a request has no answer, or another one
than a server without custash gives, or where a loss of the training differs; 77 where the parts are missing.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import sys
import time

from servers import HERE, SKIPPED, Llama, Started, opened, used_mib

PORT = 8100
TOKENS = 8
PROMPTS = [" ".join(f"w{word * 7 % 3000 + first}" for word in range(400)) for first in range(5)]
Answer = collections.namedtuple("Answer", "text first_s")


def ask(port, prompt):
    """Its text and the seconds to the first token."""
    begin, first, text = time.monotonic(), None, ""
    with opened("/completion", {"prompt": PROMPTS[prompt], "n_predict": TOKENS, "temperature": 0, "seed": 1, "cache_prompt": False,
                                "stream": True}, 120, port) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                first = first or time.monotonic() - begin
                text += json.loads(line[6:])["content"]
    return Answer(text, first)


def sleeps_of(process):
    """Of each: (MiB copied out, MiB to copy in again, ms)."""
    found = re.findall(r"of which (\d+) MiB are in host memory.* after (\d+) ms(?:; unchanged since the last sleep: (\d+))?",
                       process.log.read_text(errors="replace"))
    return [(int(saved) - int(kept or 0), int(saved), int(ms)) for saved, ms, kept in found]


class Server(Started):
    def __init__(self, number, args, conf):
        self.port = PORT + number
        command = Llama.command(args.folder, self.port, args.context)
        super().__init__(args, f"share_server{number}", [*command, "--log-disable"], conf and f"log:info,{conf}")

    def __enter__(self):
        try:
            self.until_it_answers(lambda: ask(self.port, 0))
        except RuntimeError:
            self.__exit__()
            raise
        return self


def answered(server, prompt):
    try:
        return server.name, prompt, ask(server.port, prompt)
    except (OSError, ValueError, KeyError) as why:
        return server.name, prompt, str(why)


def answers_to(servers, times, rng):
    """What the servers answer, asked at these seconds from now."""
    begin, asked = time.monotonic(), []
    with concurrent.futures.ThreadPoolExecutor(64) as threads:
        for at in times:
            time.sleep(max(0, begin + at - time.monotonic()))
            asked.append(threads.submit(answered, rng.choice(servers), rng.randrange(len(PROMPTS))))
    return [each.result() for each in asked]


def wrong(answers, right):
    return [f"{name}: {answer if isinstance(answer, str) else 'another answer'}" for name, prompt, answer in answers
            if isinstance(answer, str) or answer.text != right[prompt]]


def spread(values, digits=2):
    if not values:
        return "-"
    inner = sorted(values)
    return f"{statistics.median(inner):.{digits}f} (p90 {inner[int(len(inner) * .9)]:.{digits}f}, {inner[0]:.{digits}f}-{inner[-1]:.{digits}f})"


def bare(args):
    start = used_mib()
    with Server(0, args, None):
        right = [ask(PORT, prompt).text for prompt in range(len(PROMPTS))]
        times = [ask(PORT, prompt).first_s for prompt in range(len(PROMPTS))]
        print(f"alone, without custash: {used_mib() - start:.0f} MiB, first token after {spread(times)} s", flush=True)
    return right


def with_servers(args, right, rng):
    with contextlib.ExitStack() as all_of_them:
        running = [all_of_them.enter_context(Server(number, args, f"yield_after:1,sleep_pinned:{args.pinned}"))
                   for number in range(args.servers)]
        times = list(itertools.accumulate(rng.expovariate(1 / args.between) for _ in range(args.requests)))
        answers = answers_to(running, times, rng)
    sleeps = [sleep for each in running for sleep in sleeps_of(each)[1:]]  # the first pins memory
    moved = statistics.median(out for out, _, _ in sleeps) + statistics.median(back for _, back, _ in sleeps) if sleeps else 0
    bad = wrong(answers, right)
    row = {"answers": len(answers) - len(bad), "wrong": bad, "first_s": [answer.first_s for _, _, answer in answers if not isinstance(answer, str)],
           "sleeps": sleeps, "goal_s": 1.5 * moved / 1024 / (50 / 1.073741824) + .3}
    print(f"{args.servers} servers, {len(answers)} requests {args.between} s apart: {len(bad)} wrong {bad[:3]}; first token after "
          f"{spread(row['first_s'])} s (goal: {row['goal_s']:.2f}); {len(sleeps)} sleeps of {spread([ms for *_, ms in sleeps], 0)} ms; MiB out "
          f"{spread([out for out, *_ in sleeps], 0)}, in {spread([back for _, back, _ in sleeps], 0)}", flush=True)
    return row


def training(args, conf, name="training"):
    command = [sys.executable, str(HERE.parent / "gpu/train_gpt2.py"), "--steps", str(args.steps), "--batch", str(args.batch),
               "--layers", "24", "--width", "1536"]
    return Started(args, f"share_{name}", command, f"log:info,{conf}", PYTORCH_NO_CUDA_MEMORY_CACHING="1")


def ended(process):
    if process.process.wait(570):
        raise RuntimeError(f"{process.name} ended with {process.process.returncode}")
    return json.loads(process.out.read_text().splitlines()[-1])


def with_training(args, right, rng):
    conf = f"yield_after:1,sleep_pinned:{args.training_pinned}"
    with training(args, conf, "alone") as process:
        alone = ended(process)
    with Server(0, args, f"yield_after:1,priority:1,sleep_pinned:{args.pinned}") as server, training(args, conf) as process:
        answers = []
        time.sleep(args.between)
        while process.process.poll() is None:
            answers += answers_to([server], [rng.uniform(.7, 1.3) * args.between], rng)
            if time.monotonic() > args.until:
                process.process.kill()
        together = ended(process)
        sleeps = sleeps_of(process)
    bad = wrong(answers, right)
    if alone["losses"] != together["losses"]:
        bad.append("training: another loss")
    lost = (sum(together["step_ms"]) - sum(alone["step_ms"])) / 1000 / len(answers)
    row = {"wrong": bad, "first_s": [answer.first_s for _, _, answer in answers if not isinstance(answer, str)], "sleeps": sleeps,
           "lost_s": lost, "alone": alone, "together": together}
    print(f"training of {alone['device_after_steps_mib']:.0f} MiB, {args.steps} steps of {alone['step_ms_median']:.0f} ms beside {len(answers)} requests: "
          f"{len(bad)} wrong {bad[:3]}; first token after {spread(row['first_s'])} s, the first {row['first_s'][0]:.2f}; a request costs the "
          f"training {lost:.2f} s, so at one a minute it keeps {100 - lost / .6:.0f} %; {len(sleeps)} sleeps of "
          f"{spread([ms for *_, ms in sleeps], 0)} ms; MiB out {spread([out for out, *_ in sleeps], 0)}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=("servers", "training"))
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--between", type=float, default=6, help="seconds from one request to the next, on average")
    parser.add_argument("--context", type=int, default=163840, help="tokens: with 6 GiB of weights, 60 %% of 80 GB")
    parser.add_argument("--pinned", default="12G")
    parser.add_argument("--training-pinned", default="64G")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=34)
    parser.add_argument("--seconds", type=int, default=500, help="after which the training is stopped")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.command = f"{args.build}/tools/custash"
    args.until = time.monotonic() + args.seconds
    if used_mib() is None or Llama().missing(args.folder):
        print(f"skip: no {'GPU' if used_mib() is None else Llama().missing(args.folder)}")
        return SKIPPED
    rng = random.Random(1)
    right = bare(args)
    rows = {}
    if args.only != "training":
        rows["servers"] = with_servers(args, right, rng)
    if args.only != "servers":
        rows["training"] = with_training(args, right, rng)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    return 1 if any(row["wrong"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
