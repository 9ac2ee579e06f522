# SPDX-License-Identifier: MIT
"""A process that a test tells what to do (actor.c), and its service as another process sees it."""
import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import uuid

import program

HEADER = struct.Struct("<IHhII")
MAGIC = 0x68737563
DONE, UNKNOWN_VERB, BAD_ARGUMENTS, NOT_NOW, REFUSED = range(5)
CRASHES = [-number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)]
MACHINES = tempfile.TemporaryDirectory(prefix="custash-machines-")


class Actor:
    """Starts with device 0 current. `preload=False`: bare. `user`: its number, where the test is root's."""

    def __init__(self, *, preload=True, device=0, name="actor", user=None, stderr=None, **more):
        self.process = subprocess.Popen(
            [os.path.join(program.PATHS.programs, name)], env=program.environment(preload, **more), user=user,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.pid = int(self.hear()[1])
        self.ok(f"device {device}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        if code in CRASHES:
            raise AssertionError(f"the actor has crashed: {code}")

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the actor has ended: {self.process.wait()}")
        return line.split()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line):
        """The driver's code and the words after it."""
        self.tell(line)
        code, *rest = self.hear()
        return int(code), rest

    def code(self, line):
        return self.do(line)[0]

    def ok(self, line):
        code, rest = self.do(line)
        if code:
            raise AssertionError(f"{line}: {code}")
        return rest

    def number(self, line):
        return int(self.ok(line)[0])

    def fill(self, number, value):
        """And waits for that."""
        self.ok(f"fill {number} {value}")
        self.ok("sync")

    def filled(self, size, value):
        """The number of an allocation that was filled."""
        number = self.number(f"alloc {size}")
        self.fill(number, value)
        return number

    def holds(self, number, value):
        """Whether all bytes of it have this value."""
        return self.ok(f"check {number} {value}") == ["0"]

    def opens(self, owner, number, size):
        """The number of what another actor exports."""
        return self.number(f"open {owner.ok(f'export {number}')[0]} {size}")

    def quit(self):
        self.ok("quit")
        return self.process.wait(timeout=20)


class Actors(program.Case):
    """Has actors, which end with the test."""

    def actor(self, **more):
        return self.enterContext(Actor(**more))


def machine_file():
    """Simulated processes that name the same file take each other's devices for their own, and no others'."""
    return os.path.join(MACHINES.name, uuid.uuid4().hex)


def machine():
    """Settings with a file of its own."""
    return f"machine={machine_file()}"


def services(pid):
    """The names that a process's service listens on."""
    with open("/proc/net/unix", encoding="ascii") as table:
        return sorted(set(re.findall(rf"@(custash/{os.geteuid()}/{pid}/[0-9a-f]{{16}})$", table.read(), re.M)))


def open_files(pid):
    """What each descriptor of a process stands for. It may close some meanwhile."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[number] = os.readlink(f"/proc/{pid}/fd/{number}")
    return found


def processor_seconds(pid):
    """Processor time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def connect(name, timeout=10):
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(timeout)
    link.connect("\0" + name)
    return link


def packet(text, magic=MAGIC, version=1, size=None):
    data = text if isinstance(text, bytes) else text.encode()
    return HEADER.pack(magic, version, 0, len(data) if size is None else size, 1) + data


def answer(link):
    """(status, text) of one reply."""
    text = b""
    while True:
        data = link.recv(65536)
        if not data:
            raise EOFError("hung up")
        magic, version, status, size, last = HEADER.unpack_from(data)
        assert (magic, version, size) == (MAGIC, 1, len(data) - HEADER.size), data[:64]
        text += data[HEADER.size:]
        if last:
            return status, text.decode()


def ask(link, text):
    link.send(packet(text))
    return answer(link)
