#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tools/demo on a fresh Debian, made by debootstrap: first as root, who lacks every package, then as
an ordinary user. Prints how long each took. Needs root, debootstrap and the network.

  tests/setup/chroot.py bookworm|trixie
  tests/setup/chroot.py bookworm --arch aarch64

With --arch: tools/setup --arch aarch64 there, as root, and what continuous integration runs under QEMU. The kernel must
start programs for aarch64 by QEMU already: a chroot has no kernel of its own.
"""
import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 77
USER = 65534
INSIDE = "CUSTASH_IN_NAMESPACE"
MOUNTED = ("dev/shm", "dev/pts", "dev", "proc/sys/fs/binfmt_misc", "proc")  # the inner ones first


def skip(why):
    print(why)
    sys.exit(SKIP)


def call(*command, **more):
    return subprocess.run([str(word) for word in command], check=False, **more)


def require(*command):
    done = call(*command, capture_output=True, text=True)
    if done.returncode:
        skip(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")


def enter_namespace():
    """The program begins again in a mount namespace of its own."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        skip("needs root and debootstrap")
    if INSIDE not in os.environ:
        require("unshare", "--mount", "true")
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, os.path.abspath(sys.argv[0]),
                               *sys.argv[1:]], {**os.environ, INSIDE: "1"})


@contextlib.contextmanager
def system_of(suite):
    """The folder of a fresh Debian, which goes again."""
    folder = tempfile.mkdtemp(prefix="custash-chroot-")
    try:
        os.chmod(folder, 0o755)  # an ordinary user reaches it, too
        make_system(suite, folder)
        yield folder
    finally:
        for mounted in (*MOUNTED, "usr/local/cuda"):
            call("umount", os.path.join(folder, mounted), capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def make_system(suite, folder):
    require("debootstrap", "--variant=minbase", suite, folder)
    cuda = os.path.realpath(call(os.path.join(ROOT, "tools/find-cuda"), capture_output=True, text=True).stdout.strip())
    mounts = [(cuda, "usr/local/cuda"), *((f"/{each}", each) for each in reversed(MOUNTED))]
    for source, target in mounts:
        if not os.path.exists(source):
            continue
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        require("mount", "--bind", source, os.path.join(folder, target))
    require("mount", "-o", "remount,ro,bind", os.path.join(folder, "usr/local/cuda"))
    shutil.copy("/etc/resolv.conf", os.path.join(folder, "etc/resolv.conf"))


def copy_sources(folder, owner):
    """What git tracks, as it is in the working tree."""
    os.makedirs(folder)
    names = call("git", "-C", ROOT, "ls-files", "-z", capture_output=True).stdout
    packed = call("tar", "-C", ROOT, "--null", "-T", "-", "-c", input=names, capture_output=True).stdout
    assert call("tar", "-x", "-C", folder, f"--owner={owner}", input=packed).returncode == 0
    call("chown", "-R", f"{owner}:{owner}", folder)


def run(system, who, user, script):
    """Runs `script` as `user` in /src. Only tools/demo is timed, so only it compiles everything anew."""
    cache = "CCACHE_DISABLE=1" if script == "tools/demo" else "CCACHE_DIR=/ccache"
    begun = time.monotonic()
    done = call("chroot", f"--userspec={user}:{user}", system, "env", "-i",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/src", "LC_ALL=C.UTF-8",
                cache, "CCACHE_UMASK=000", "sh", "-c", f"cd /src && {script} 2>&1", stdout=subprocess.PIPE, text=True,
                stdin=subprocess.DEVNULL)
    print(done.stdout, flush=True)
    print(f"{script} as {who}: {time.monotonic() - begun:.0f} s, exit status {done.returncode}", flush=True)
    assert done.returncode == 0, f"{script} as {who} failed"
    return (done.stdout.rstrip() or "nothing was said").splitlines()[-1]


def main():
    parser = argparse.ArgumentParser("chroot.py", description=__doc__)
    parser.add_argument("suite")
    parser.add_argument("--arch", choices=["aarch64"], help="in place of tools/demo: builds for it, and tests under QEMU")
    options = parser.parse_args()
    enter_namespace()
    with system_of(options.suite) as system:
        os.makedirs(os.path.join(system, "ccache"), mode=0o777, exist_ok=True)
        os.chmod(os.path.join(system, "ccache"), 0o777)
        if options.arch:
            copy_sources(os.path.join(system, "src"), 0)
            for script in ("tools/setup --arch aarch64", "python3 tests/aarch64/check.py build-aarch64"):
                last = run(system, "root", 0, script)
            assert " 0 failed" in last and " passed" in last, last
            print(f"Debian {options.suite}: tools/setup --arch aarch64 is enough")
            return
        for who, user in (("root", 0), ("nobody", USER)):
            shutil.rmtree(os.path.join(system, "src"), ignore_errors=True)
            copy_sources(os.path.join(system, "src"), user)
            last = run(system, who, user, "tools/demo")
            assert last.startswith("demo: without custash "), last
    print(f"Debian {options.suite}: tools/demo runs")


if __name__ == "__main__":
    main()
