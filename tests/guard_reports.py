# SPDX-License-Identifier: MIT
"""What custash reports of wrong uses of memory or of streams, as tests compare it."""
import json
import os

CONF = {"memory": "guard:all,log_file:/dev/null", "streams": "check_streams:true,log_file:/dev/null"}
TWICE, PART, FAULT = "free second_free", "free part_free", "fault"
NO_FILE = "no file of reports"  # it is written where nothing is found, too


def read(path):
    """Each report of a process as its source and kind, in order. Of a kernel's fault the source alone: a GPU may name a kind."""
    if not os.path.exists(path):
        return [NO_FILE]
    with open(path, encoding="utf-8") as file:
        findings = json.load(file)["findings"]
    return [" ".join([each["source"], *(() if each["source"] == FAULT else sorted({s["kind"] for s in each["suspects"]}))])
            for each in findings]
