# SPDX-License-Identifier: MIT
"""Memory shared between processes by cuIpc*: what CUDA promises of it, bare and through custash, on mapped
pages and on plain driver memory."""
import contextlib
import os
import random
import select
import signal
import socket
import struct
import time

import program
from actor import BAD_ARGUMENTS, DONE, HEADER, REFUSED, Actors, ask, connect, machine, packet, services
from program import within

MIB = 1 << 20
SIZES = (1000, 300_000, 5 * MIB, 70 * MIB)  # of a slab; large; of several pages
LARGE, BESIDE = 4 * MIB + MIB // 2, MIB + MIB // 4  # they share 6 MiB
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400


def words_of(handle):
    """Of custash's: the block's number and its address, and the secret."""
    return struct.unpack_from("<QQ", bytes.fromhex(handle), 24) + struct.unpack_from("<QQ", bytes.fromhex(handle), 48)


class Shared(Actors):
    """Actors on one machine, whatever backs their memory."""
    conf = "backing:vmm"
    preload = True

    def setUp(self):
        self.settings = f"devices=2,memory=80g,{machine()}"  # a device with large pages

    def actor(self, *, preload=None, conf=None, **more):
        return super().actor(preload=self.preload if preload is None else preload,
                             CUSTASH_CONF=conf or self.conf, CUSTASH_SIM=self.settings, **more)

    def block_with_neighbour(self, actor):
        """In the same page, or in the same plain segment."""
        block, beside = actor.ok(f"alloc {LARGE}"), actor.ok(f"alloc {BESIDE}")
        self.assertEqual(int(beside[1], 16), int(block[1], 16) + LARGE)
        return block

    def is_back(self, actor, block):
        """Whether its memory serves again. Not for its own size, which gets other pages once it was exported."""
        got = [actor.ok(f"alloc {2 * MIB}") for _ in range(12)]
        for number, _ in got:  # more than the thread keeps for itself
            actor.ok(f"free {number}")
        return block[1] in [at for _, at in got]


class Anywhere:
    """Holds bare as well."""

    def test_the_same_bytes_of_every_size(self):
        a, b = self.actor(), self.actor()
        a.ok("alloc 200")  # what comes next does not begin where the driver's memory does
        for value, size in enumerate(SIZES, 1):
            block = a.ok(f"alloc {size}")[0]
            a.fill(block, value)
            opened = b.opens(a, block, size)
            self.assertTrue(b.holds(opened, value), size)
            b.fill(opened, value + 100)
            self.assertTrue(a.holds(block, value + 100), size)
            b.ok(f"close {opened}")

    def test_a_handle_opened_twice_is_one_address_until_closed_twice(self):
        a, b = self.actor(), self.actor()
        a.filled(5 * MIB, 9)
        handle = a.ok("export 0")[0]
        self.assertEqual(a.ok("export 0")[0], handle)
        first, second = (b.ok(f"open {handle} {5 * MIB}") for _ in range(2))
        self.assertEqual(first[1], second[1])
        b.ok(f"close {first[0]}")
        self.assertTrue(b.holds(first[0], 9))
        b.ok(f"close {first[0]}")
        self.assertEqual(b.code(f"close {first[0]}"), INVALID_VALUE)

    def test_a_handle_of_ones_own_is_refused(self):
        a = self.actor()
        a.ok(f"alloc {5 * MIB}")
        self.assertEqual(a.code(f"open {a.ok('export 0')[0]} 1"), INVALID_CONTEXT)

    def test_what_is_opened_looks_like_an_allocation(self):
        a, b = self.actor(), self.actor()
        a.ok("alloc 4194304")
        opened = b.opens(a, 0, 4194304)
        self.assertEqual(b.ok(f"range {opened} 1000"), ["0", "4194304"])
        self.assertEqual(b.code(f"free {opened}"), INVALID_VALUE)
        b.ok(f"close {opened}")
        self.assertNotEqual(b.code(f"range {opened} 0"), 0)

    def test_garbage_is_refused(self):
        b = self.actor()
        for text in ("00", "ff" * 64, bytes(range(64)).hex()):
            self.assertEqual(b.code(f"open {text} 1"), INVALID_VALUE)
        b.ok("alloc 1000")
        self.assertEqual(b.code("close 0"), INVALID_VALUE)

    def test_another_process_may_open_on_another_device(self):
        a, b = self.actor(), self.actor()
        if b.code("device 1"):
            self.skipTest("one device")
        a.filled(5 * MIB, 3)
        opened = b.opens(a, 0, 5 * MIB)
        self.assertTrue(b.holds(opened, 3))
        b.ok(f"close {opened}")

    def test_the_importer_need_not_see_the_device(self):
        a = self.actor()
        if a.code("device 1"):
            self.skipTest("one device")
        b = self.actor(CUDA_VISIBLE_DEVICES="1")
        a.ok("device 0")
        a.filled(5 * MIB, 3)
        opened = b.opens(a, 0, 5 * MIB)
        self.assertTrue(b.holds(opened, 3))
        b.fill(opened, 4)
        self.assertTrue(a.holds(0, 4))
        b.ok(f"close {opened}")

    def test_a_dma_buf_may_lie_in_several_allocations(self):
        a = self.actor()
        a.ok(f"pieces {2 * MIB} 3")
        if a.code(f"dmabuf 0 {2 * MIB}"):
            self.skipTest("no DMA-BUF")
        a.ok(f"dmabuf 0 {6 * MIB}")
        self.assertNotEqual(a.code(f"dmabuf 0 {8 * MIB}"), 0)


class Bare(Anywhere, Shared):
    preload = False


class Served(Anywhere):
    """What custash adds."""

    def test_every_block_of_a_slab_has_its_own_bytes(self):
        a, b = self.actor(), self.actor()
        for value in range(20):
            a.ok("alloc 700")
            a.ok(f"fill {value} {value}")
        a.ok("sync")
        for value in range(20):
            opened = b.opens(a, value, 700)
            self.assertTrue(b.holds(opened, value))

    def test_an_address_inside_a_block_stands_for_the_block(self):
        a = self.actor()
        a.ok(f"alloc {5 * MIB}")
        self.assertEqual(a.ok("export 0 1000"), a.ok("export 0"))

    def test_an_open_block_keeps_its_contents_after_its_free(self):
        for beside in (False, True):  # with pages of its own, and with a neighbour in its page
            a, b = self.actor(), self.actor()
            block = a.ok(f"alloc {LARGE}")
            if beside:
                a.ok(f"alloc {BESIDE}")
            a.fill(block[0], 7)
            opened = b.opens(a, block[0], LARGE)
            a.ok(f"free {block[0]}")
            self.assertEqual(a.code(f"free {block[0]}"), INVALID_VALUE)
            for size in (LARGE, LARGE, 2 * MIB, 2 * MIB):
                other = a.ok(f"alloc {size}")
                a.ok(f"fill {other[0]} 8")
            a.ok("sync")
            a.ok("empty")
            self.assertTrue(b.holds(opened, 7), beside)
            b.ok(f"close {opened}")

    def test_a_page_with_neighbours_serves_again_once_the_block_is_closed(self):
        a, b = self.actor(), self.actor()
        block = self.block_with_neighbour(a)
        opened = b.opens(a, block[0], LARGE)
        a.ok(f"free {block[0]}")
        self.assertFalse(self.is_back(a, block))
        b.ok(f"close {opened}")
        self.assertTrue(self.is_back(a, block))

    def test_an_importer_may_keep_all_that_it_opened(self):
        """As UCX does: by the owner's address, until another handle comes for it."""
        self.settings = self.settings.replace("80g", "1g")
        a, b = self.actor(), self.actor()
        cache = {}
        for turn in range(300):
            number, at = a.ok(f"alloc {4 * MIB}")
            a.fill(number, turn % 250)
            handle = a.ok(f"export {number}")[0]
            if at in cache and cache[at][0] != handle:
                b.ok(f"close {cache.pop(at)[1]}")
            if at not in cache:
                cache[at] = (handle, b.ok(f"open {handle} {4 * MIB}")[0])
            self.assertTrue(b.holds(cache[at][1], turn % 250), turn)
            a.ok(f"free {number}")
        if "vmm" in self.conf:
            self.assertLess(len(cache), 4)
    def test_what_an_importer_that_died_had_open_comes_back(self):
        a, b = self.actor(), self.actor()
        block = self.block_with_neighbour(a)
        b.ok(f"open {a.ok(f'export {block[0]}')[0]} {LARGE}")
        a.ok(f"free {block[0]}")
        b.process.send_signal(signal.SIGKILL)
        b.process.wait()
        self.assertIsNotNone(within(10, lambda: self.is_back(a, block)))
    def test_memory_outlives_its_exporter(self):
        if "vmm" not in self.conf:
            self.skipTest("CUDA does not promise it of plain memory")
        a, b = self.actor(), self.actor()
        a.filled(5 * MIB, 5)
        opened = b.opens(a, 0, 5 * MIB)
        a.process.kill()
        a.process.wait()
        self.assertTrue(b.holds(opened, 5))
        b.ok(f"close {opened}")

    def test_stale_handles_are_refused(self):
        a, b = self.actor(), self.actor()
        a.ok(f"alloc {5 * MIB}")
        handle = a.ok("export 0")[0]
        a.ok("free 0")
        self.assertEqual(b.code(f"open {handle} 1"), INVALID_VALUE)  # freed
        a.ok(f"alloc {5 * MIB}")
        self.assertEqual(b.code(f"open {handle} 1"), INVALID_VALUE)  # and its place taken
        self.assertNotEqual(a.ok("export 1")[0], handle)
        handle = a.ok("export 1")[0]
        a.process.kill()
        a.process.wait()
        self.assertEqual(b.code(f"open {handle} 1"), INVALID_VALUE)  # its process is gone

    def test_hostile_handles_are_refused(self):
        a, b = self.actor(), self.actor()
        a.ok(f"alloc {5 * MIB}")
        a.ok("alloc 1000")
        chance = random.Random(int(os.environ.get("CUSTASH_SEED", "1")))
        whole = bytes.fromhex(a.ok("export 0")[0])
        for turn in range(300):
            damaged = bytearray(whole)
            at = chance.randrange(8, 64)
            damaged[at] ^= 1 << chance.randrange(8)
            if 40 <= at < 48:  # the size, which the exporter tells
                continue
            self.assertEqual(b.code(f"open {damaged.hex()} 1"), INVALID_VALUE, (turn, damaged.hex()))
        self.assertEqual(b.code(f"open {whole.hex()} {5 * MIB} 2"), INVALID_VALUE)  # unknown flags
        self.assertEqual(b.code(f"open {whole.hex()} {5 * MIB}"), 0)

    def test_a_bare_process_gets_an_error(self):
        a, b = self.actor(), self.actor(preload=False)
        a.ok(f"alloc {5 * MIB}")
        self.assertIn(b.code(f"open {a.ok('export 0')[0]} {5 * MIB}"), (INVALID_VALUE, INVALID_HANDLE))

    def test_a_bare_process_s_handle_is_opened_as_before(self):
        a, b = self.actor(preload=False), self.actor()
        a.filled(5 * MIB, 4)
        opened = b.opens(a, 0, 5 * MIB)
        self.assertTrue(b.holds(opened, 4))
        b.ok(f"close {opened}")

    def test_ends_of_contexts_close_what_is_open(self):
        a, b = self.actor(), self.actor()
        a.ok(f"alloc {5 * MIB}")
        handle = a.ok("export 0")[0]
        b.ok("context 0")
        first = b.ok(f"open {handle} 1")
        b.ok("destroy 0")
        self.assertEqual(b.code(f"close {first[0]}"), INVALID_VALUE)
        b.ok("device 0")
        second = b.ok(f"open {handle} 1")
        b.ok("reset 0")
        self.assertNotEqual(b.code(f"close {second[0]}"), 0)
        a.ok("free 0")
        number, at = a.ok(f"alloc {5 * MIB}")
        self.assertEqual(number, "1")
        del at
        # The exporter's own context ends while a block is open: it is the importer's still.
        b.ok("device 0")
        a.ok("fill 1 6")
        a.ok("sync")
        opened = b.opens(a, 1, 5 * MIB)
        a.ok("reset 0")
        if "vmm" in self.conf:
            self.assertTrue(b.holds(opened, 6))
        b.ok(f"close {opened}")
        a.ok("device 0")
        a.ok("alloc 1000")

    def sockets_of_the_driver(self):
        """NVIDIA's driver has one of its own."""
        bare = self.actor(preload=False)
        bare.ok("alloc 1000")
        return bare.number("sockets")

    def test_a_fork_of_either_side_keeps_nothing_open(self):
        a, b = self.actor(), self.actor()
        theirs = self.sockets_of_the_driver()
        block = self.block_with_neighbour(a)
        opened = b.opens(a, block[0], LARGE)
        self.assertEqual((a.number("fork"), b.number("fork")), (theirs, theirs))
        a.ok(f"free {block[0]}")
        b.ok(f"close {opened}")
        self.assertTrue(self.is_back(a, block))
    def test_no_thread_before_it_is_needed(self):
        a, b = (self.actor(conf=self.conf + ",neighbours:off,control:off") for _ in range(2))
        before = a.number("threads"), b.number("threads")
        a.ok(f"alloc {5 * MIB}")
        self.assertEqual(a.number("threads"), before[0])
        opened = b.opens(a, 0, 5 * MIB)
        self.assertEqual((a.number("threads"), b.number("threads")), (before[0] + 1, before[1]))
        b.ok(f"close {opened}")
        self.assertEqual(b.number("sockets"), self.sockets_of_the_driver())  # nor a connection that nobody needs

    def test_exports_say_that_they_are_possible(self):
        a = self.actor()
        a.ok("alloc 1000")
        self.assertEqual(a.ok("attribute 0 10"), ["1"])

    def test_buffers_for_other_hardware_leave_nothing_behind(self):
        self.settings = self.settings.replace("80g", "1g")
        a = self.actor()
        for _ in range(600):
            number = a.ok(f"alloc {4 * MIB}")[0]
            a.ok(f"dmabuf {number} {2 * MIB}")
            a.ok(f"free {number}")
            self.assertEqual(a.code(f"dmabuf {number} {2 * MIB}"), INVALID_VALUE)
    def test_the_verbs_of_importers_bear_nonsense(self):
        a = self.actor()
        a.ok(f"alloc {5 * MIB}")
        a.ok("export 0")
        with connect(services(a.pid)[0]) as link:
            for text in ("share", "share 1", "share x y", "share 1 2 3", "share 1 2 3 4 5", "pages", "pages 0",
                         "unshare z 1"):
                self.assertEqual(ask(link, text)[0], BAD_ARGUMENTS, text)
            for text in ("share 0 0 0 0", "share 1 2 3 4", "pages 0 0", "unshare 0 0",
                         "pages ffffffffffffffff 1"):
                self.assertEqual(ask(link, text)[0], REFUSED, text)
            self.assertEqual(ask(link, "bye")[0], DONE)
        a.ok("free 0")

    def test_only_who_has_a_handle_gets_the_block(self):
        a = self.actor()
        for _ in range(2):
            a.ok(f"alloc {5 * MIB}")
        number, base, first, second = words_of(a.ok("export 0")[0])
        beside = base + 5 * MIB  # the other block, of which nobody has a handle
        with connect(services(a.pid)[0]) as link:
            for words in ((number, base, 0, 0), (number, base, first ^ 1, second), (number, base, first, second ^ 1),
                          *((number + n, beside, first, second) for n in range(1, 10))):
                self.assertEqual(ask(link, "share " + " ".join(f"{word:x}" for word in words))[0], REFUSED, words)
            link.send(packet(f"share {number:x} {base:x} {first:x} {second:x}"))
            self.assertEqual(HEADER.unpack_from(link.recv(65536))[2], DONE)

    def test_an_importer_waits_for_its_turn_while_many_connect(self):
        b = self.actor()
        handle = bytearray(64)
        handle[:8] = b"custash1"
        handle[8:12] = os.getpid().to_bytes(4, "little")
        handle[16:24] = (4711).to_bytes(8, "little")
        with contextlib.ExitStack() as stack:
            def end_point():
                return stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
            exporter = end_point()
            name = f"\0custash/{os.geteuid()}/{os.getpid()}/{4711:016x}"
            exporter.bind(name)
            exporter.listen(1)
            with self.assertRaises(BlockingIOError):
                while True:
                    end_point().connect(name)
            b.tell(f"open {handle.hex()} 1")
            time.sleep(0.3)
            came = os.getpid()
            while came != b.pid:  # the others had come before
                self.assertTrue(select.select([exporter], [], [], 5)[0])
                one = stack.enter_context(exporter.accept()[0])
                came, = struct.unpack_from("i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            exporter.close()
        self.assertEqual(int(b.hear()[0]), INVALID_VALUE)

    def test_a_block_stays_with_an_importer_that_lives_whatever_became_of_its_connection(self):
        a = self.actor()
        block = self.block_with_neighbour(a)
        words = " ".join(f"{word:x}" for word in words_of(a.ok(f"export {block[0]}")[0]))
        with connect(services(a.pid)[0]) as link:  # this process plays the importer
            link.send(packet(f"share {words}"))
            self.assertEqual(HEADER.unpack_from(link.recv(65536))[2], DONE)
        a.ok(f"free {block[0]}")
        time.sleep(2.5)
        self.assertFalse(self.is_back(a, block))

    def test_either_side_may_close_its_descriptors(self):
        a, b = self.actor(), self.actor()
        block = self.block_with_neighbour(a)
        first = b.opens(a, 0, LARGE)
        for closes in (a, b):
            closes.ok("close_from 100")
            handle = a.ok("export 1")[0]
            self.assertIsNotNone(within(10, lambda: services(a.pid)))
            opened = []
            self.assertIsNotNone(within(10, lambda: opened.append(b.do(f"open {handle} {BESIDE}")) or opened[-1][0] == 0))
            b.ok(f"close {opened[-1][1][0]}")
        a.ok("free 0")
        self.assertFalse(self.is_back(a, block))  # b still has it
        b.ok(f"close {first}")


class OnPages(Served, Shared):
    pass


class OnPlainMemory(Served, Shared):
    conf = "backing:driver"


program.main()
