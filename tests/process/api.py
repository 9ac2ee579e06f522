# SPDX-License-Identifier: MIT
"""custash.h from C11: by dlsym in a preloaded program, and linked."""
import program
from program import Case, run


class Api(Case):
    def test_found_by_dlsym(self):
        self.assertEqual(self.succeed("api"), "all right\n")

    def test_found_by_dlsym_on_plain_driver_memory(self):
        self.assertEqual(self.succeed("api", CUSTASH_CONF="backing:driver"), "all right\n")

    def test_not_there_without_custash(self):
        self.assertEqual(run("api", preload=False).returncode, 1)

    def test_linked(self):
        self.assertEqual(self.succeed("api_static", preload=False), "all right\n")


program.main()
