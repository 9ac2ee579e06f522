# SPDX-License-Identifier: MIT
"""The Debian package: the installed tree below /usr, with its documents."""
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from shared import (LIBRARIES, OTHERS, PROGRAMS, ROOT, SUMMARY, glibc_of, install, moment, options_of, processor_of, run, strip, tool,
                    version_of)

DESCRIPTION = """custash serves cudaMalloc, cudaFree, cudaMallocAsync, cudaMallocHost and
their kin of unchanged CUDA programs from caches: a free does not wait for the
device, a cached allocation makes no driver call, and there are numbers to look
at. The library is preloaded (custash run) or linked in. It needs NVIDIA's
driver, of CUDA 11.2 or later."""
# As Debian's own tools have it.
MAINTAINER = (f"{os.environ.get('DEBFULLNAME', 'The custash maintainers')} "
              f"<{os.environ.get('DEBEMAIL', 'noreply@custash.invalid')}>")
OVERRIDES = """# Preloaded by path and found by dlsym: nothing links with it, and it has no ABI but its C API.
custash: lacks-ldconfig-trigger *
custash: package-name-doesnt-match-sonames libcustash
custash: shared-library-lacks-version *
"""


def stage(build, older, folder):
    """The installed tree under folder/usr. The library to preload and the programs are those of `older`, where it is
    given: the library to link in stays this machine's compiler's."""
    usr = folder / "usr"
    libdir = install(build, usr)
    binaries = [*(usr / "bin" / each for each in PROGRAMS), *(libdir / each for each in LIBRARIES)]
    if older is not None:
        for each in binaries:
            shutil.copy(older / ("tools" if each.parent.name == "bin" else "interpose") / each.name, each)
    for pc in libdir.glob("pkgconfig/custash*.pc"):
        pc.write_text(re.sub(r"^prefix=.*$", "prefix=/usr", pc.read_text(), flags=re.M))
    # Where every python3 of Debian looks.
    for found in usr.glob("lib/python3*/*-packages/custash"):
        target = usr / "lib/python3/dist-packages/custash"
        if found != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            found.rename(target)
            os.removedirs(found.parent)
        where = target / "_where.py"
        where.write_text(re.sub(r'LIBDIR = ".*"', f'LIBDIR = "/usr/{options_of(build)["libdir"]}"', where.read_text()))
    zsh = usr / "share/zsh/site-functions"
    if zsh.exists():
        zsh.rename(usr / "share/zsh/vendor-completions")
    strip(build, *binaries)
    run(tool("strip", build), "--strip-debug", "--enable-deterministic-archives", *libdir.glob("libcustash*.a"))
    return binaries


def compressed(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(data)


def documents(usr, version, when):
    doc = usr / "share/doc/custash"
    doc.mkdir(parents=True)
    licence = (ROOT / "LICENSE").read_text()
    holder = next(line for line in licence.splitlines() if line.startswith("Copyright"))
    indented = "\n".join(" " + (line or ".") for line in licence.split("\n\n", 2)[2].strip().splitlines())
    (doc / "copyright").write_text(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: custash\n\n"
        f"Files: *\n{re.sub('^Copyright [(]c[)]', 'Copyright:', holder)}\nLicense: Expat\n{indented}\n")
    date = run("date", "-u", "-R", "-d", f"@{when}").strip()
    compressed(doc / "changelog.gz", f"custash ({version}) unstable; urgency=medium\n\n  * See NEWS.md.\n\n"
               f" -- {MAINTAINER}  {date}\n".encode())
    shutil.copy(ROOT / "README.md", doc)
    shutil.copy(ROOT / "CHANGELOG.md", doc / "NEWS.md")
    shutil.copytree(ROOT / "docs", doc / "docs")
    overrides = usr / "share/lintian/overrides"
    overrides.mkdir(parents=True)
    (overrides / "custash").write_text(OVERRIDES)
    page = usr / "share/man/man1/custash.1"
    compressed(page.with_suffix(".1.gz"), page.read_bytes())
    page.unlink()


def architecture_of(build):
    other = processor_of(build)
    return OTHERS[other][0] if other else run("dpkg", "--print-architecture").strip()


def dependencies(binaries, architecture):
    """What dpkg-shlibdeps says; without it what the loader will ask for."""
    with tempfile.TemporaryDirectory() as work:
        os.mkdir(f"{work}/debian")
        pathlib.Path(work, "debian/control").write_text("Source: custash\n\nPackage: custash\nArchitecture: any\n")
        try:
            said = run("dpkg-shlibdeps", "-O", "--ignore-missing-info", *[f"-e{each}" for each in binaries], cwd=work,
                       env={**os.environ, "DEB_HOST_ARCH": architecture})
            return said.strip().removeprefix("shlibs:Depends=")
        except (subprocess.CalledProcessError, OSError):
            return "libc6 (>= {}.{})".format(*glibc_of(binaries))


def control(folder, version, binaries, architecture):
    files = sorted(each for each in folder.rglob("*") if each.is_file() and "DEBIAN" not in each.parts)
    size = sum((each.stat().st_size + 1023) // 1024 for each in files)
    debian = folder / "DEBIAN"
    debian.mkdir()
    indented = "\n".join(" " + line for line in DESCRIPTION.splitlines())
    (debian / "control").write_text(
        f"Package: custash\nVersion: {version}\nArchitecture: {architecture}\n"
        f"Maintainer: {MAINTAINER}\nInstalled-Size: {size}\n"
        f"Depends: {dependencies(binaries, architecture)}\n"
        "Recommends: libdw1\nSuggests: python3, nvidia-cuda-toolkit\nSection: devel\nPriority: optional\n"
        f"Description: {SUMMARY}\n{indented}\n")
    (debian / "md5sums").write_text("".join(
        f"{hashlib.md5(each.read_bytes()).hexdigest()}  {each.relative_to(folder)}\n" for each in files))


def normalise(folder, when):
    for each in [folder, *folder.rglob("*")]:
        if each.is_symlink():
            continue
        runs = each.is_dir() or each.parent.name == "bin"
        each.chmod(0o755 if runs else 0o644)
        os.utime(each, (when, when))


def make(build, older, out):
    """Returns the package's path."""
    version, when = version_of(build), moment()
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work, "custash")
        folder.mkdir()
        binaries = stage(build, older, folder)
        documents(folder / "usr", version, when)
        control(folder, version, binaries, architecture_of(build))
        normalise(folder, when)
        out.mkdir(parents=True, exist_ok=True)
        said = run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", folder, out,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(when)})
    return said.split("'")[-2]
