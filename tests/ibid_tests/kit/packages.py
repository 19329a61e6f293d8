"""Debian packages that are unpacked below the build folder and not installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from .procs import Failed, run


def unpack(names: list[str], into: Path, only: str = ".*") -> Path:
    """Downloads packages and their missing dependencies, and unpacks those whose name matches `only`.

    A second call with the same names finds the work done. Returns the root of the unpacked tree.
    """
    root, done = into / "root", into / ".done"
    wanted = " ".join(sorted(names)) + "\n" + only
    if done.exists() and done.read_text() == wanted:
        return root
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise Failed("this needs Debian's packages, and there is no apt-get here")
    shutil.rmtree(into, ignore_errors=True)
    debs = into / "debs"
    debs.mkdir(parents=True)
    # A simulated installation lists missing packages; installed ones are fetched by name as well.
    plan = run(["apt-get", "install", "-s", "--no-install-recommends", *names], check=False).stdout
    missing = re.findall(r"^Inst (\S+)", plan, re.M)
    fetched = fetch(sorted({*names, *missing}), debs)
    for deb in sorted(debs.glob("*.deb")):
        if re.fullmatch(only, deb.name.split("_")[0]):
            run(["dpkg-deb", "-x", str(deb), str(root)])
    if lost := [n for n in names if n not in fetched]:
        raise Failed(f"cannot download {' '.join(lost)}; try apt-get update")
    shutil.rmtree(debs)
    done.write_text(wanted)
    return root


def fetch(names: list[str], debs: Path) -> set[str]:
    """Downloads available packages: in one call, or one by one if that fails. Returns the names of those downloaded."""
    # As root, apt-get switches to its own user, which may not write here; it warns and continues.
    quiet = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download"]
    if run([*quiet, *names], limit=600, check=False, cwd=debs).returncode != 0:
        for name in names:
            run([*quiet, name], limit=300, check=False, cwd=debs)
    return {deb.name.split("_")[0] for deb in debs.glob("*.deb")}


# Dependencies that a test guest does not need.
UNWANTED = (
    r"(python|libpython|perl|libperl|debconf|cdebconf|adduser|dpkg|usrmerge|usr-is-merged|mailcap|media-types"
    r"|mime-support|install-info|libicu|systemd(?!.*lib)|original-awk|gawk|.*-perl|passwd|libpam"
    r"|dracut|initramfs-tools|tiny-initramfs|klibc|libklibc|cpio|linux-base|libelogind).*"
)


def system(names: list[str], into: Path, unwanted: str = UNWANTED) -> Path:
    """Downloads packages and all their dependencies and makes a root folder of them. `into` must be empty."""
    root, debs = into / "root", into / "debs"
    debs.mkdir(parents=True)
    no = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    closure = run(["apt-cache", "depends", "--recurse", *no, *names]).stdout
    every = sorted({n for n in re.findall(r"^(\w\S*)$", closure, re.M) if not re.fullmatch(unwanted, n)} | set(names))
    if lost := set(names) - fetch(every, debs):
        raise Failed(f"apt-get cannot download {' '.join(sorted(lost))}; try apt-get update")
    for folder in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / folder).mkdir(parents=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for deb in sorted(debs.glob("*.deb")):
        archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", str(root)], stdin=archive.stdout, check=True)
        archive.wait()
    shutil.rmtree(debs)
    for folder in ("proc", "sys", "dev", "run", "tmp", "mnt", "root"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("passwd", "root:x:0:0:root:/tmp:/bin/bash\n"),
        ("group", "root:x:0:\n"),
        ("nsswitch.conf", "passwd: files\n"),
    ):
        (root / "etc" / name).write_text(text)
    return root


def library_path(root: Path) -> str:
    """LD_LIBRARY_PATH for programs in an unpacked tree."""
    found = [d for pattern in ("usr/lib", "lib", "usr/lib/*-linux-gnu", "lib/*-linux-gnu") for d in root.glob(pattern)]
    return os.pathsep.join(str(d) for d in found if d.is_dir())
