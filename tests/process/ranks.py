# SPDX-License-Identifier: MIT
"""Names of files with %r, %h and %p: each rank of a launcher writes a file of its own."""
import os
import re
import socket

import program
from program import PATHS, InFolder, read

LINES = r"device 0\nalloc 100000\nquit\n"


class Names(InFolder):
    def launch(self, *options, ranks=("RANK=0", "RANK=1", "RANK=2"), code=0, **more):
        """One `custash run` of a launcher that starts a process for each rank; its standard error."""
        each = "".join(f"printf '{LINES}' | env {rank} {PATHS.programs}/actor >/dev/null & " for rank in ranks)
        done = program.launch(*options, "--", "sh", "-c", each + "wait", cwd=self.folder, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def files(self):
        return sorted(os.listdir(self.folder))

    def test_one_report_a_rank(self):
        said = self.launch("--record-history", "report-%r.html")
        self.assertEqual(self.files(), ["report-0.html", "report-1.html", "report-2.html"])
        self.assertIn("report-1.html", said)
        self.launch("--record-history", "report-%r.html")  # its own reports are replaced
        self.assertEqual(self.files(), ["report-0.html", "report-1.html", "report-2.html"])

    def test_one_recording_a_rank(self):
        self.launch("--record", "%r-of-%h.trace")
        host = socket.gethostname()
        self.assertEqual(self.files(), [f"{rank}-of-{host}.trace" for rank in range(3)])
        for name in self.files():
            self.assertTrue(read(os.path.join(self.folder, name)).startswith("# custash trace 1\n"))
        self.launch("--record", "p%p.trace.xz")
        packed = [name for name in self.files() if name.startswith("p")]
        self.assertEqual(len(packed), 3)
        for name in packed:
            self.assertRegex(name, r"^p\d+\.trace\.xz$")

    def test_the_library_alone(self):
        self.launch(CUSTASH_CONF="snapshot:s%r.json,log:info,log_file:log-%r.txt,record:100%%-%r.trace")
        self.assertEqual(self.files(), sorted(f"{name}" for rank in range(3)
                                              for name in (f"s{rank}.json", f"log-{rank}.txt", f"100%-{rank}.trace")))

    def test_without_a_rank(self):
        self.launch("--record-history", "x%r.json", "--record", "y%r.trace", ranks=["RANK=none"])
        self.assertEqual(self.files(), ["xnone.json", "ynone.trace"])

    def test_two_of_one_rank_do_not_overwrite_each_other(self):
        self.launch("--record-history", "x%r.json", ranks=["RANK=1", "RANK=1", "SLURM_PROCID=4"])
        first, second, third = self.files()
        self.assertRegex(first, r"^x1\.\d+\.json$")
        self.assertEqual((second, third), ("x1.json", "x4.json"))

    def test_a_folder_has_no_marks(self):
        os.mkdir(os.path.join(self.folder, "%r"))
        for option in ("--record-history", "--record"):
            said = self.launch(option, "%r/x.html", code=125)
            self.assertTrue(re.search("in a name, not in a folder", said), said)


program.main()
