# SPDX-License-Identifier: MIT
"""Draws docs/report-light.png, report-dark.png and report-compare.png anew, from made-up trainings:

  python3 tests/process/report_pictures.py build/tools/custash
"""
import json
import os
import subprocess
import sys
import tempfile

import browser
import made_snapshot

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs")


def main(command):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, cache in (("before", 0), ("after", 390_000)):
            paths.append(os.path.join(folder, name + ".json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                json.dump(made_snapshot.training(3000, name="python3 train.py", cache=cache), file)
        page, both = os.path.join(folder, "report.html"), os.path.join(folder, "both.html")
        subprocess.run([command, "report", paths[1], "-o", page], check=True)
        subprocess.run([command, "report", *paths, "-o", both], check=True)
        shows = browser.Browser()
        try:
            for theme, opened, name, height in (("light", page, "light", 1240), ("dark", page, "dark", 1240), ("light", both, "compare", 1180)):
                shows.look(1180, height, theme)
                shows.open(opened)
                if opened == page:
                    shows.run("choose(1000, 1700)")
                shows.picture(os.path.join(DOCS, f"report-{name}.png"), whole=False)
        finally:
            shows.close()


main(os.path.abspath(sys.argv[1]))
