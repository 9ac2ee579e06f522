# SPDX-License-Identifier: MIT
"""The service of a process: when it is there, what it answers, and what it makes of hostile input."""
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time

import program
from actor import (BAD_ARGUMENTS, DONE, REFUSED, UNKNOWN_VERB, Actor, answer, ask, connect, open_files, packet, processor_seconds,
                   services)
from program import PATHS, Case, read

MIB = 1 << 20
WITHOUT_MEMORY = """
import ctypes, pathlib, time
process = ctypes.CDLL(None)
memory = ctypes.c_void_p()
process.only_this_thread_has_memory()
assert process.custash_malloc(ctypes.byref(memory), 0, 5000) == 0
until = time.monotonic() + 20
while not any(name.read_text() == "custash\\n" for name in pathlib.Path("/proc/self/task").glob("*/comm")):
    assert time.monotonic() < until, "the service's thread does not run"
print("alive")
"""
# The numbers of all descriptors from 100 on are closed; the last of the service's is used again.
REUSES = """
import ctypes, os, socket, sys, time
process = ctypes.CDLL(None)
memory = ctypes.c_void_p()
assert process.custash_malloc(ctypes.byref(memory), 0, 5000) == 0
of_service = lambda: [n for n in map(int, os.listdir("/proc/self/fd")) if n >= 100 and os.path.lexists(f"/proc/self/fd/{n}")
                      and os.readlink(f"/proc/self/fd/{n}").startswith("socket:")]
until = time.monotonic() + 20
while not of_service():
    assert time.monotonic() < until, "there is no service"
(number,) = of_service()
mine = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
mine.bind(b"\\0" + b"custash-test-" + os.urandom(8).hex().encode())
mine.listen()
os.closerange(100, 4096)
os.dup2(mine.fileno(), number)
mine.settimeout(5)
for _ in range(20):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(mine.getsockname())
        time.sleep(0.005)
        mine.accept()[0].close()
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def only_service(actor):
    names = services(actor.pid)
    assert len(names) == 1, names
    return names[0]


class WhenItIsThere(Case):
    def test_from_the_first_memory_on(self):
        with Actor() as actor:
            self.assertEqual(services(actor.pid), [])
            before = actor.number("threads")
            actor.ok("alloc 1000")
            self.assertEqual(len(services(actor.pid)), 1)
            self.assertEqual(actor.number("threads"), before + 1)
            actor.ok("alloc 100000000")
            self.assertEqual(actor.number("threads"), before + 1)

    def test_not_where_it_is_switched_off(self):
        with Actor(CUSTASH_CONF="neighbours:off,control:off") as actor:
            before = actor.number("threads")
            actor.ok("alloc 1000")
            self.assertEqual(services(actor.pid), [])
            self.assertEqual(actor.number("threads"), before)

    def test_with_control_off_peers_alone_are_answered(self):
        with Actor(CUSTASH_CONF="control:off") as actor:
            actor.ok("alloc 1000")
            with connect(only_service(actor)) as link:
                for request in ("trim all", "stat", "sleep -1 0", "wake", "deep_trim -1 0", "snapshot json", "leaks", "history 10 4"):
                    self.assertEqual(ask(link, request), (REFUSED, "it has the option control:false"))
                self.assertEqual(ask(link, "ping")[0], DONE)
            self.assertNotIn("libcustash-check", read(f"/proc/{actor.pid}/maps"))

    def test_on_plain_driver_memory_too(self):
        with Actor(CUSTASH_CONF="backing:driver") as actor:
            actor.ok("alloc 1000")
            self.assertEqual(len(services(actor.pid)), 1)

    def test_a_service_without_memory_does_not_end_the_program(self):
        preload = f"{PATHS.library}:{os.path.join(PATHS.programs, 'libno_memory.so')}"
        said = self.succeed(sys.executable, "-c", WITHOUT_MEMORY, LD_PRELOAD=preload, CUSTASH_SIM="devices=1")
        self.assertEqual(said, "alive\n")

    def test_it_does_not_hold_up_the_end_of_a_process(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            with connect(only_service(actor)) as link:
                self.assertEqual(ask(link, "ping")[0], DONE)
                self.assertEqual(actor.quit(), 0)
            self.assertEqual(services(actor.pid), [])

    def test_a_forked_child_has_nothing_of_it(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            with connect(only_service(actor)) as link:
                ask(link, "ping")
                self.assertEqual(actor.number("fork"), 0)
                self.assertEqual(ask(link, "ping")[0], DONE)  # the parent's goes on
                actor.process.kill()
                actor.process.wait()
                with self.assertRaises((EOFError, ConnectionError)):
                    ask(link, "ping")
            self.assertEqual(services(actor.pid), [])


    def test_nothing_of_it_is_left_by_an_exec(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            with connect(only_service(actor)) as link:
                ask(link, "ping")
                sockets = [fd for fd, to in open_files(actor.pid).items() if to.startswith("socket:")]
                self.assertEqual(len(sockets), 2)
                for fd in sockets:
                    with open(f"/proc/{actor.pid}/fdinfo/{fd}", encoding="ascii") as info:
                        flags = next(line.split()[1] for line in info if line.startswith("flags:"))
                    self.assertTrue(int(flags, 8) & os.O_CLOEXEC, fd)


class ClosedDescriptors(Case):
    """Daemons close what they do not know, and use the numbers again."""

    def is_answered(self, pid):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                with connect(services(pid)[0]) as link:
                    return ask(link, "ping")[0] == DONE
            except (IndexError, EOFError, ConnectionError):
                time.sleep(0.05)
        return False

    def test_it_listens_again_and_does_not_spin(self):
        for over in (False, True):
            with self.subTest(over=over), Actor() as actor:
                actor.ok("alloc 1000")
                with connect(only_service(actor)) as link:
                    ask(link, "ping")
                    numbers = [number for number, to in open_files(actor.pid).items() if to.startswith("socket:")]
                    self.assertEqual(len(numbers), 2)
                    actor.ok("close_from 100")
                    if over:
                        for number in numbers:
                            actor.ok(f"over {number} /dev/zero")  # which can always be read
                    used = processor_seconds(actor.pid)
                    with contextlib.suppress(ConnectionError):  # it may have noticed already
                        link.send(packet("ping"))
                    time.sleep(1.5)
                    self.assertLess(processor_seconds(actor.pid) - used, 0.5)
                    self.assertTrue(self.is_answered(actor.pid))
                if over:
                    files = open_files(actor.pid)
                    self.assertEqual([files.get(number) for number in numbers], ["/dev/zero"] * 2)
                actor.ok("alloc 1000")
                self.assertEqual(actor.quit(), 0)

    def test_files_are_opened_again_and_signals_need_none(self):
        with tempfile.TemporaryDirectory() as folder:
            log, trace, snapshot = (os.path.join(folder, name) for name in ("log", "trace", "s.json"))
            with Actor(CUSTASH_CONF=f"log:info,log_file:{log},record:{trace},snapshot:{snapshot},snapshot_signal:12") as actor:
                actor.ok("alloc 1000")
                opened = [number for number, to in open_files(actor.pid).items() if to.startswith(folder)]
                self.assertEqual(len(opened), 2)
                actor.ok("close_from 100")
                for number in opened:
                    actor.ok(f"over {number} /dev/null")
                before = os.path.getsize(log)
                actor.ok("alloc 2000")
                self.assertNotEqual(actor.code(f"alloc {1 << 50}"), 0)  # which the log tells of
                self.assertGreater(os.path.getsize(log), before)
                os.kill(actor.pid, 12)
                until = time.monotonic() + 20
                while not os.path.exists(snapshot) and time.monotonic() < until:
                    time.sleep(0.02)
                self.assertTrue(os.path.exists(snapshot))
                self.assertEqual(actor.quit(), 0)
            with open(trace, "rb") as file:
                recorded = file.read()
            self.assertNotIn(b"\0", recorded)  # it was cut to its length
            self.assertIn(b" 2000 ", recorded)

    def test_a_socket_of_the_program_under_its_number_gets_all_its_connections(self):
        with subprocess.Popen([sys.executable, "-c", REUSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=program.environment(True, CUSTASH_SIM="devices=1")) as process:
            self.assertEqual(process.stdout.readline(), f"{process.pid}\n")
            self.assertTrue(self.is_answered(process.pid))
            process.stdin.close()
            self.assertEqual(process.wait(timeout=20), 0)


class Answers(Case):
    def setUp(self):
        self.actor = Actor()
        self.addCleanup(self.actor.__exit__)
        self.actor.ok("alloc 1000")
        self.name = only_service(self.actor)
        self.link = connect(self.name)
        self.addCleanup(self.link.close)

    def test_who_it_is(self):
        self.assertEqual(ask(self.link, "ping"), (DONE, f"{self.actor.pid} 1"))

    def test_an_unknown_verb_is_named_so(self):
        for text in ("", " ", "pong", "ping2", "trimx 1"):
            self.assertEqual(ask(self.link, text), (UNKNOWN_VERB, ""), text)


    def test_trim_wants_a_number(self):
        for text in ("trim", "trim ", "trim x", "trim -1", "trim 1 2", "trim 99999999999999999999999"):
            self.assertEqual(ask(self.link, text), (BAD_ARGUMENTS, ""), text)

    def test_thousands_of_requests_and_many_clients(self):
        links = [connect(self.name) for _ in range(100)]
        for turn in range(30):
            for link in links:
                link.send(packet("ping"))
            for link in links:
                self.assertEqual(answer(link)[0], DONE, turn)
        for link in links:
            link.close()
        self.assertEqual(ask(self.link, "ping")[0], DONE)

    def test_more_clients_than_it_takes_are_turned_away_and_the_old_ones_served(self):
        links = []
        for _ in range(600):
            links.append(connect(self.name))
            try:
                ask(links[-1], "ping")
            except (EOFError, ConnectionError):
                break
        self.assertLess(len(links), 600)
        self.assertEqual(ask(self.link, "ping")[0], DONE)
        for link in links:
            link.close()
        with connect(self.name) as link:
            self.assertEqual(ask(link, "ping")[0], DONE)

    def test_garbage_ends_its_connection_and_nothing_else(self):
        chance = random.Random(int(os.environ.get("CUSTASH_SEED", "1")))
        whole = packet("trim 4096")
        hostile = [b"", b"x", packet("ping", magic=1), packet("ping", version=2), packet("ping", size=5),
                   packet("ping", size=0xffffffff), packet(b"a" * 5000), whole[:-1], whole[:10]]
        for _ in range(300):
            damaged = bytearray(whole)
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(12)] = chance.randrange(256)
            hostile.append(bytes(damaged))
            hostile.append(packet(bytes(chance.randrange(256) for _ in range(chance.randrange(200)))))
        for data in hostile:
            with connect(self.name) as link:
                link.send(data)
                try:
                    answer(link)
                except (EOFError, ConnectionError):
                    pass
        self.assertEqual(ask(self.link, "ping")[0], DONE)

    def test_a_client_that_does_not_read_does_not_hold_up_others(self):
        deaf = connect(self.name)
        deaf.setblocking(False)
        try:
            for _ in range(20000):
                deaf.send(packet("ping"))
        except OSError:
            pass
        self.assertEqual(ask(self.link, "ping")[0], DONE)
        deaf.close()

    @program.unittest.skipUnless(os.geteuid() == 0, "takes another user's name: needs root")
    def test_another_user_is_not_heard(self):
        script = ("import os,socket,sys\nos.setresgid(65534,65534,65534)\nos.setresuid(65534,65534,65534)\n"
                  "s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.settimeout(10)\n"
                  "s.connect('\\0'+sys.argv[1])\n"
                  "try:\n  s.send(bytes.fromhex(sys.argv[2]))\n  print(len(s.recv(100)))\n"
                  "except ConnectionError:\n  print(0)\n")
        done = subprocess.run([sys.executable, "-c", script, self.name, packet("ping").hex()],
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual((done.stdout, done.stderr), ("0\n", ""))


program.main()
