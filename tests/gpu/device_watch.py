# SPDX-License-Identifier: MIT
"""The device memory of several GPUs, watched by a process of its own: NVML does not survive a fork, and NCCL uses it, too.

  with Watch(range(4)) as watch: ...; most, now = watch.read()   # MiB above what was in use at the start, of each;
                                                                 # the most since the reading before
"""
import json
import os
import select
import subprocess
import sys

INTERVAL_S = 0.02


class Watch:
    def __init__(self, devices):
        self.devices = devices

    def __enter__(self):
        env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__), *map(str, self.devices)], env=env,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.start = json.loads(self.child.stdout.readline())
        return self

    def read(self):
        """(the most, now), a list each. A GPU that NVML does not know has None."""
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def __exit__(self, *_):
        self.child.communicate()


def main():
    from device_memory import used_mib  # pylint: disable=import-outside-toplevel
    devices = [int(word) for word in sys.argv[1:]]
    start = [used_mib(device) for device in devices]
    print(json.dumps(start), flush=True)

    def above():
        return [None if then is None else round(used_mib(device) - then, 1) for device, then in zip(devices, start)]

    most = above()
    while True:
        now = above()
        most = [None if each is None else max(each, there) for each, there in zip(most, now)]
        if select.select([sys.stdin], [], [], INTERVAL_S)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps([most, now]), flush=True)
            most = now


if __name__ == "__main__":
    main()
