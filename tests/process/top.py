# SPDX-License-Identifier: MIT
"""custash top on a terminal: what it shows at which width, what its keys do, and that the terminal is put back."""
import contextlib
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time

import program
from actor import Actor
from program import PATHS, Case

MIB = 1 << 20
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
SGR = re.compile(r"\x1b\[[0-9;]*m")
OTHER = re.compile(r"\x1b\[\??[0-9;]*[A-Za-z]")


class Screen:
    """A terminal in which a command runs, and what it shows."""

    def __init__(self, *words, width=80, height=24, user=None, cwd=None, **more):
        settings = {"TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": None, "NO_COLOR": None, **more}
        env = program.environment(False, **settings)
        for name, value in settings.items():
            if value is None:
                env.pop(name, None)
        self.fd, self.slave = os.openpty()
        self.resize(width, height)
        self.first_modes = self.modes()
        self.pid, self.status, self.text = os.fork(), None, ""
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
                for number in range(3):
                    os.dup2(self.slave, number)
                os.closerange(3, 256)
                if cwd:
                    os.chdir(cwd)
                if user is not None:
                    os.setuid(user)
                os.execve(words[0], words, env)
            finally:
                os._exit(127)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.slave)
        os.close(self.fd)

    def resize(self, width, height):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def modes(self):
        return termios.tcgetattr(self.slave)[:4]

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if ready:
            with contextlib.suppress(OSError):
                self.text += os.read(self.fd, 65536).decode(errors="replace")

    def frame(self):
        """The lines of the last whole picture, without colour."""
        pictures = self.text.split("\x1b[H")
        whole = [each for each in pictures if each.rstrip().endswith("\x1b[J")]
        return [OTHER.sub("", line).rstrip("\r") for line in whole[-1].split("\r\n")] if whole else []

    def until(self, wanted, seconds=20):
        """Waits until the screen (all text, where it is a function) shows it; returns the lines."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shown = self.frame()
            if wanted(self.text) if callable(wanted) else re.search(wanted, "\n".join(shown), re.M):
                return shown
            self.read(0.2)
        raise AssertionError(f"never shown: {wanted}\n" + "\n".join(self.frame()) + "\n" + repr(self.text[-500:]))

    def end(self, seconds=20):
        """The exit status as wait() has it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = status
                self.read(0.1)
                return status
            self.read(0.05)
        raise AssertionError("it does not end:\n" + "\n".join(self.frame()))


def top(*words, **more):
    return Screen(PATHS.command, "top", "--delay", "0.2", *words, **more)


@contextlib.contextmanager
def ranks(count=4):
    """As torchrun starts them: a process for each device."""
    with contextlib.ExitStack() as stack:
        sim = f"devices={count},machine={stack.enter_context(tempfile.TemporaryDirectory())}/machine"
        actors = [stack.enter_context(Actor(device=i, RANK=str(i), CUSTASH_SIM=sim)) for i in range(count)]
        for i, actor in enumerate(actors):
            actor.ok(f"alloc {(i + 1) * 100 * MIB}")
            actor.ok(f"alloc {200 * MIB}")
            actor.ok("free 1")
        yield actors, sim


class Pictures(Case):
    def test_four_ranks_are_one_table(self):
        with ranks() as (actors, sim), top("--sort", "rank", CUSTASH_SIM=sim) as screen:
            lines = screen.until(rf"(?m)^ +{actors[3].pid} +3 +3 ")
            self.assertLessEqual(max(map(len, lines)), 80)
            self.assertEqual(len(lines), 24)
            pids = [int(line.split()[0]) for line in lines if re.match(r" +\d+ +[0-3] +[0-3] ", line)]
            self.assertEqual([pid for pid in pids if pid in [a.pid for a in actors]], [a.pid for a in actors])
            bars = [line for line in lines if re.match(r" +[0-3] ▕", line)]  # other tests may have more devices
            self.assertEqual(len(bars), 4)
            self.assertEqual(len({bar.index("▏") for bar in bars}), 1)

    def test_others_are_told_from_custash(self):
        # The sixth device: the processes of other tests have the first ones.
        with tempfile.TemporaryDirectory() as folder:
            sim = f"devices=6,machine={folder}/machine"
            with Actor(device=5, CUSTASH_SIM=sim) as ours, Actor(device=5, CUSTASH_SIM=sim, preload=False) as other:
                ours.ok(f"alloc {512 * MIB}")
                other.ok(f"alloc {1024 * MIB}")
                done = program.custash("top", "--once", "--json", "--delay", "0.05", CUSTASH_SIM=sim)
                (device,) = [each for each in json.loads(done.stdout)["devices"] if each["number"] == 5]
                self.assertEqual(device["others_bytes"], 1024 * MIB)
                self.assertGreaterEqual(device["in_use_bytes"], 512 * MIB)
                with top(width=200, CUSTASH_SIM=sim) as screen:
                    screen.until(r"5 ▕█+▓*▒+·*▏ .* ▒ 1.00 GiB others")
                with top(width=200, CUSTASH_SIM=sim, CUSTASH_SIM_NVML="off") as screen:
                    lines = screen.until(r"5 ▕█+")
                    self.assertNotIn("others", "\n".join(lines))

    def test_script_and_rank_in_place_of_python(self):
        script = ("import ctypes, sys; d = ctypes.CDLL('libcuda.so.1'); c = ctypes.c_void_p(); p = ctypes.c_uint64(); "
                  "d.cuInit(0); d.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0); d.cuCtxSetCurrent(c); "
                  "print(d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)), flush=True); sys.stdin.read()")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "my_training.py")
            with open(path, "w", encoding="ascii") as file:
                file.write(script)
            child = subprocess.Popen(["python3", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                     env=program.environment(True, SLURM_PROCID="11"))
            self.assertEqual(child.stdout.readline(), "0\n")
            with top(width=100) as screen:
                screen.until(rf"^ +{child.pid} +11 .*  my_training\.py$")
            child.communicate("")

    def test_no_colour_where_it_is_not_wanted(self):
        with ranks(1) as (actors, sim):
            with top(CUSTASH_SIM=sim) as screen:
                screen.until(rf" {actors[0].pid} ")
                self.assertRegex(screen.text, r"\x1b\[32m█")
            with top(CUSTASH_SIM=sim, NO_COLOR="1") as screen:
                screen.until(rf" {actors[0].pid} ")
                screen.press("j")
                screen.until(r"^> +\d")
                self.assertIsNone(SGR.search(screen.text))
            with top(CUSTASH_SIM=sim, LC_ALL="C") as screen:
                lines = screen.until(rf" {actors[0].pid} ")
                self.assertTrue("".join(lines).isascii())
                self.assertRegex(lines[1], r"0 \[#+\++")
            with top(CUSTASH_SIM=sim, TERM="dumb") as screen:
                screen.until(lambda text: text.count("PROGRAM") > 1)
                self.assertNotIn("\x1b", screen.text)

    def test_another_size_is_another_picture(self):
        with ranks(1) as (actors, sim):
            with top(width=120, CUSTASH_SIM=sim) as screen:
                screen.until("LIMBO")
                screen.text = ""
                screen.resize(40, 10)
                lines = screen.until("(?s)PROGRAM(?!.*LIMBO)")
                self.assertLessEqual(max(map(len, lines)), 40)
                self.assertEqual(len(lines), 10)
                screen.text = ""
                screen.resize(120, 30)
                self.assertEqual(len(screen.until("LIMBO")), 30)
                self.assertTrue(actors)

    @program.unittest.skipUnless(os.geteuid() == 0, "becomes another user: needs root")
    def test_nobody_there_is_told_with_what_to_do(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            with top(user=65534) as screen:
                lines = screen.until("custash run -- PROGRAM")
                self.assertNotIn(str(actor.pid), "\n".join(lines))
                screen.press("t")
                screen.until("there is no process")


class Keys(Case):
    def test_sorting_and_choosing(self):
        with ranks(3) as (actors, sim):
            mine = {actor.pid for actor in actors}

            def order(screen):
                found = (re.match(r"^[> ] +(\d+) ", line) for line in screen.frame())
                return [int(each[1]) for each in found if each and int(each[1]) in mine]

            with top("--sort", "pid", width=100, CUSTASH_SIM=sim, NO_COLOR="1") as screen:
                screen.until(r"▲PID")
                screen.until(lambda _: len(order(screen)) == len(mine))  # one that is slow to answer comes with a later look
                rising = order(screen)
                self.assertEqual(rising, sorted(mine))
                screen.press("r")
                screen.until("▼PID")
                self.assertEqual(order(screen), rising[::-1])
                screen.press("s")
                screen.until(r"▲RANK(.|\n)*sorted by RANK")
                screen.press("SS")
                screen.until(r"sorted by PROGRAM")
                screen.press("h")
                screen.until("custash trim PID")
                screen.press("h")
                screen.until("PROGRAM")
                screen.press("?")
                screen.until("custash trim PID")
                screen.press("\x1b")
                screen.until("PROGRAM")
                for keys in ("j", "\x1b[B", "\x1bOB", "\x1b[A", "k"):
                    screen.press(keys)
                screen.until(r"^> +\d+ ")

    @staticmethod
    def ask_to_trim(screen, actor):
        """Processes of other tests come and go, so the mark may be on another one by then."""
        while True:
            while not re.search(rf"^> +{actor.pid} ", "\n".join(screen.frame()), re.M):
                screen.press("j")
                screen.read(0.3)
            screen.press("t")
            shown = "\n".join(screen.until(r"Return the free memory of process \d+ \([^)]+\)\?\n.*y yes"))
            if f"of process {actor.pid} (actor)?" in shown:
                return
            screen.press("n")
            screen.until("nothing done")

    def test_trim_asks_and_says_what_it_did(self):
        with ranks(1) as (actors, sim), top(CUSTASH_SIM=sim, NO_COLOR="1") as screen:
            actor = actors[0]
            screen.until(rf" {actor.pid} ")
            self.ask_to_trim(screen, actor)
            screen.press("n")
            screen.until("nothing done")
            held = self.reserved(actor, sim)
            self.assertGreaterEqual(held, 300 * MIB)
            self.ask_to_trim(screen, actor)
            screen.press("y")
            screen.until(rf"custash trim {actor.pid}: [0-9.]+ [KMG]?i?B returned")
            self.assertLess(self.reserved(actor, sim), held)

    def test_a_report_is_written_where_it_was_started(self):
        with ranks(1) as (actors, sim), tempfile.TemporaryDirectory() as folder:
            with top("--sort", "pid", CUSTASH_SIM=sim, NO_COLOR="1", cwd=folder) as screen:
                actor = actors[0]
                screen.until(rf" {actor.pid} ")
                while not re.search(rf"^> +{actor.pid} ", "\n".join(screen.frame()), re.M):
                    screen.press("j")
                    screen.read(0.3)
                screen.press("w")
                screen.until(rf"Write custash-{actor.pid}.html, a report of process {actor.pid}")
                screen.press("y")
                screen.until(rf"custash snapshot {actor.pid}: custash-{actor.pid}.html")
                self.assertEqual(os.listdir(folder), [f"custash-{actor.pid}.html"])
                actor.process.kill()
                actor.process.wait()
                screen.press("w")
                screen.press("y")
                screen.until(r"there is no process|nothing done|Write")

    def reserved(self, actor, sim):
        return program.processes(CUSTASH_SIM=sim)[actor.pid]["devices"][0]["reserved_bytes"]


class Ends(Case):
    """Whatever ends it, the terminal is as it was."""

    def ended(self, act):
        with top() as screen:
            screen.until("q quit")
            self.assertNotEqual(screen.modes(), screen.first_modes)
            self.assertIn(ENTER, screen.text)
            self.assertNotIn(LEAVE, screen.text)
            act(screen)
            status = screen.end()
            self.assertEqual(screen.text.count(LEAVE), 1)
            self.assertEqual(screen.text.rpartition("\x1b[?7h")[2], "\x1b[?25h" + LEAVE)
            self.assertEqual(screen.modes(), screen.first_modes)
            return status

    def test_by_keys(self):
        self.assertEqual(self.ended(lambda screen: screen.press("q")), 0)
        self.assertEqual(self.ended(lambda screen: screen.press("\x03")), 0)

    def test_by_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            self.assertEqual(self.ended(lambda screen, number=number: os.kill(screen.pid, number)), 0, number)

    def test_by_a_fault(self):
        for number in (signal.SIGSEGV, signal.SIGABRT):
            status = self.ended(lambda screen, number=number: os.kill(screen.pid, number))
            self.assertEqual(os.WTERMSIG(status), number)

    def test_by_its_terminal(self):
        with top() as screen:
            screen.until("q quit")
            os.close(screen.slave)
            os.close(screen.fd)
            screen.slave, screen.fd = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
            self.assertEqual(screen.end(), 0)

    def test_stopped_and_continued(self):
        with Screen("/bin/bash", "--norc", "--noprofile", "--noediting", "-i", PS1="$ ") as screen:
            screen.until(lambda text: "$ " in text)
            screen.press(f"{PATHS.command} top --delay 0.2\n")
            screen.until("q quit")
            screen.press("\x1a")
            screen.until(lambda text: "Stopped" in text.rpartition(LEAVE)[2])
            self.assertTrue(self.is_sane(screen))
            screen.press("fg\n")
            screen.until(lambda text: ENTER in text.rpartition("fg")[2])
            screen.text = ""
            screen.until("q quit")
            self.assertFalse(self.is_sane(screen))
            screen.press("q")
            screen.until(lambda text: LEAVE in text)
            screen.press("exit\n")
            screen.end()

    def is_sane(self, screen):
        wanted = termios.ICANON | termios.ECHO
        return screen.modes()[3] & wanted == wanted


program.main()
