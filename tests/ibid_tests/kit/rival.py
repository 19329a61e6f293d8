"""Comparison of data reduction: btrfs with compression, deduplicated by duperemove; and zstd over all data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from . import packages
from .procs import Failed, run

GIB = 1 << 30
TOOLS = {"mkfs.btrfs": "btrfs-progs", "btrfs": "btrfs-progs", "duperemove": "duperemove"}


def why_no_btrfs() -> str:
    """The reason why this machine cannot mount btrfs, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "there is no loop device"
    if (
        not re.search(r"\bbtrfs$", Path("/proc/filesystems").read_text(), re.M)
        and run(["modprobe", "-q", "btrfs"], check=False).returncode != 0
    ):
        return "this kernel has no btrfs"
    return ""


class Btrfs:
    """A file system in a sparse file, mounted within the context. `algorithm` is an argument of `compress-force`: zstd, lzo.

    Disk images are files in it, as under a virtual machine. It compresses extents of up to 128 KiB, and duplicates are found afterwards by
    reading everything, down to single blocks of 4 KiB.
    """

    def __init__(self, algorithm: str, scratch: Path, tools: Path):
        self.dir, self.image, self.algorithm = scratch / "btrfs", scratch / "btrfs.img", algorithm
        self.env = dict(os.environ)
        self.env["PATH"] += ":/usr/sbin:/sbin"
        if any(not shutil.which(tool, path=self.env["PATH"]) for tool in TOOLS):
            root = packages.unpack(sorted(set(TOOLS.values())), tools)
            found = [root / folder for folder in ("usr/bin", "usr/sbin", "bin", "sbin")]
            self.env |= {
                "PATH": os.pathsep.join([*map(str, found), self.env["PATH"]]),
                "LD_LIBRARY_PATH": packages.library_path(root),
            }

    def __enter__(self) -> Btrfs:
        self.dir.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as disk:
            disk.truncate(64 * GIB)
        self.run("mkfs.btrfs", "-q", "-f", str(self.image))
        self.run("mount", "-o", f"loop,noatime,compress-force={self.algorithm}", str(self.image), str(self.dir))
        return self

    def __exit__(self, *_) -> None:
        self.run("umount", str(self.dir), check=False)
        self.image.unlink(missing_ok=True)
        self.dir.rmdir()

    def run(self, *command: str, limit: float = 600, check: bool = True) -> str:
        # The tools are looked up in the PATH of the unpacked packages, not in that of this process.
        tool = shutil.which(command[0], path=self.env["PATH"]) or command[0]
        return run([tool, *command[1:]], limit=limit, check=check, env=self.env).stdout

    def add(self, source: Path, name: str) -> None:
        """Copies a file; its holes, and zeros of 4 KiB or more, stay holes."""
        self.run("cp", "--sparse=always", "--reflink=never", str(source), str(self.dir / name), limit=3600)

    def deduplicated(self) -> int:
        """Bytes of data stored after duplicates are shared. Metadata is not counted, as for Ibid."""
        hashes = self.image.with_suffix(".hashes")
        hashes.unlink(missing_ok=True)
        self.run(
            "duperemove",
            "-rd",
            "-b",
            "4k",
            "--dedupe-options=partial",
            f"--hashfile={hashes}",
            str(self.dir),
            limit=7200,
        )
        hashes.unlink()
        self.run("btrfs", "filesystem", "sync", str(self.dir))
        found = re.search(
            r"^Data, single: .*used=(\d+)", self.run("btrfs", "filesystem", "df", "-b", str(self.dir)), re.M
        )
        if not found:
            raise Failed("btrfs does not say how much it stores")
        return int(found[1])


def zstd(files: Iterable[Path], options: list[str]) -> int:
    """Bytes of all files compressed by zstd as one stream."""
    packer = subprocess.Popen(
        ["zstd", "-q", "-1", "-T2", "-c", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    counter = subprocess.Popen(["wc", "-c"], stdin=packer.stdout, stdout=subprocess.PIPE, text=True)
    packer.stdout.close()
    for path in files:
        with path.open("rb") as file:
            shutil.copyfileobj(file, packer.stdin, 4 << 20)
    packer.stdin.close()
    made = int(counter.communicate()[0])
    if packer.wait() != 0:
        raise Failed(f"zstd ended with {packer.returncode}")
    return made
