# SPDX-License-Identifier: MIT
"""Exceptions and stacks where libc has no _dl_find_object, as before glibc 2.35: in the library, in the command and
in the programs beside it. They are copies that ask for a version of the function that no libc has."""
import os
import pathlib
import sys

import program
from program import PATHS, InFolder, run

THROWS = """
import ctypes
process = ctypes.CDLL(None)
memory = ctypes.c_void_p()
assert process.custash_malloc(ctypes.byref(memory), 0, 5000) == 0
print(process.start_history_without_memory())
"""
STACK = """
import ctypes
process = ctypes.CDLL(None)
memory, size = ctypes.c_void_p(), ctypes.c_size_t(1 << 20)
assert process.custash_history_start(1000, 16) == 0
assert process.custash_malloc(ctypes.byref(memory), 0, 5000) == 0
text = ctypes.create_string_buffer(size.value)
assert process.custash_leaks_text(text, ctypes.byref(size)) == 0
print(text.value.decode())
"""
OUT_OF_MEMORY = "2\n"


class OldGlibc(InFolder):
    def old(self, path):
        """A copy that does not find libc's function."""
        content = pathlib.Path(path).read_bytes()
        if content.count(b"GLIBC_2.35\0") != 1:
            self.fail(f"{path}: not one GLIBC_2.35 in it: does it need that glibc?")
        copy = pathlib.Path(self.folder, os.path.basename(path))
        copy.write_bytes(content.replace(b"GLIBC_2.35\0", b"GLIBC_9.99\0"))
        copy.chmod(0o755)
        return str(copy)

    def old_library(self):
        self.old(os.path.join(os.path.dirname(PATHS.library), "libcustash-check.so"))
        return self.old(PATHS.library)

    def python(self, code, library):
        preload = f"{library}:{os.path.join(PATHS.programs, 'libno_memory.so')}"
        return self.succeed(sys.executable, "-c", code, LD_PRELOAD=preload, CUSTASH_SIM="devices=1")

    def test_the_library_catches_what_it_throws(self):
        for library in (PATHS.library, self.old_library()):
            self.assertEqual(self.python(THROWS, library), OUT_OF_MEMORY)

    def test_a_stack_has_the_same_frames(self):
        said = [self.python(STACK, library) for library in (PATHS.library, self.old_library())]
        frames = [[line for line in text.splitlines() if "ffi" in line or "ctypes" in line] for text in said]
        self.assertGreater(len(frames[0]), 2, said[0])
        self.assertEqual(*frames)

    def test_the_command_and_its_programs_say_what_is_wrong(self):
        beside = os.path.dirname(PATHS.command)
        for name, *words in (("custash", "run", "--no-such-option"), ("custash", "report", "/none.json"),
                             ("custash-replay", "/none.trace")):
            said = []
            for path in (os.path.join(beside, name), self.old(os.path.join(beside, name))):
                done = run(path, *words, preload=False)
                said.append((done.returncode, done.stdout, done.stderr))
            self.assertEqual(*said)
            self.assertGreater(said[0][0], 0, words)
            self.assertIn("custash: ", said[0][2])


program.main()
