"""Debian packages that are unpacked beside the build, not installed: a machine stays as it was."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .procs import Failed, run


def unpack(names: list[str], into: Path, only: str = ".*") -> Path:
    """Downloads packages and what they need that this machine lacks, and unpacks those whose name matches `only`.

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
    # A simulated installation names what is missing; what is installed here already is fetched by name all the same.
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
    """Downloads what can be had; one call for all, and one by one where that fails. Returns the names that came."""
    # As root apt-get drops to a user of its own, who may not write here; it says so and goes on, and that is fine.
    quiet = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download"]
    if run([*quiet, *names], limit=600, check=False, cwd=debs).returncode != 0:
        for name in names:
            run([*quiet, name], limit=300, check=False, cwd=debs)
    return {deb.name.split("_")[0] for deb in debs.glob("*.deb")}


def library_path(root: Path) -> str:
    """LD_LIBRARY_PATH for programs of an unpacked tree."""
    found = [d for pattern in ("usr/lib", "lib", "usr/lib/*-linux-gnu", "lib/*-linux-gnu") for d in root.glob(pattern)]
    return os.pathsep.join(str(d) for d in found if d.is_dir())
