#!/usr/bin/env python3
"""Data reduction: reproducible data sets written over iSCSI, and the space that they take on the drive.

    scripts/reduction.py [--bin DIR] [--out DIR] [--data DIR] [--small | --slice] [SET...]

  image      a disk of 2 GiB with an unpacked Debian server
  clones     sixteen copies of that disk, each written in full
  releases   the same server in two releases of Debian
  database   a SQLite file after 200 000 transactions
  drift      sixteen clones of a small disk, 2 % of each changed afterwards
  noise      incompressible data

Every set is written by plain WRITE (qemu-img convert) to an array of its own; zeros are left out and not counted. Then
hosts write nothing for at most REST_LIMIT seconds, while the array compresses its data again: the figures at rest. Each
figure of the array must equal that of fsck. Compared in the same run, with the same files: btrfs on a loop device, with zstd
and with lzo, deduplicated by duperemove (as root, if the kernel has both); zstd -1 as one stream (misses distant
repetitions), and zstd -1 --long=31 (finds them up to 2 GiB back). --slice uses a few MiB of generated data of each kind,
for CI, and leaves out the rest. A table goes to the terminal and to DIR/reduction.md, all data to DIR/reduction.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit import datasets, rival
from ibid_tests.kit.array import Array
from ibid_tests.kit.datasets import GIB, MIB
from ibid_tests.kit.procs import Failed, run
from ibid_tests.kit.term import Progress, say, seconds, size, table

CLONES = 16
NAMES = {
    "image": "a server, one disk",
    "clones": "sixteen clones of it",
    "releases": "it and its next release",
    "database": "SQLite after a life",
    "drift": "sixteen clones, 2 % drift",
    "noise": "noise",
}
# Promises of SPECIFICATION.md: the minimum ratio; for clones the maximum bytes, relative to one disk.
RATIO = {"image": 2.0}
# The same at rest, within so many seconds without a write.
RATIO_AT_REST = {"image": 2.5}
REST_LIMIT = 300
# The array begins to compress after 30 s without writes. Without a change for longer than that, it is done.
REST_PAUSE = 45
CLONES_COST = 1.05


@dataclass
class Measured:
    """One data set on an array of its own."""

    name: str
    written: int
    stored: int
    at_rest: int | None
    rest_secs: float
    secs: float
    rivals: dict[str, int]

    @property
    def ratio(self) -> float:
        return self.written / max(self.stored, 1)

    @property
    def ratio_at_rest(self) -> float | None:
        return self.written / max(self.at_rest, 1) if self.at_rest is not None else None


class Sets:
    """Creates the files of each set once."""

    def __init__(self, data: Path, is_slice: bool, is_small: bool):
        self.data, self.is_slice, self.is_small = data, is_slice, is_small
        data.mkdir(parents=True, exist_ok=True)

    def image(self) -> list[Path]:
        return [self.disk("bookworm")]

    def clones(self) -> list[Path]:
        return self.image() * CLONES

    def releases(self) -> list[Path]:
        return [self.disk("bookworm"), self.disk("trixie")]

    def database(self) -> list[Path]:
        return [datasets.database(self.data / "db.sqlite", 10_000 if self.is_slice else 800_000)]

    def drift(self) -> list[Path]:
        original = self.disk("bookworm", small=True)
        # Created one by one and removed after writing, to save space.
        return [original, *(Path(f"{original}#{n}") for n in range(1, CLONES))]

    def noise(self) -> list[Path]:
        return [datasets.noise(self.data / "noise.bin", 8 * MIB if self.is_slice else 512 * MIB)]

    def disk(self, release: str, small: bool = False) -> Path:
        if self.is_slice:
            # Scripts and libraries of this machine: text and code, different on each machine, so the slice promises less.
            path = self.data / f"{release}.slice"
            if not path.exists():
                datasets.image(self.library(release), path, 64 * MIB)
            return path
        wanted, name, bytes_ = (
            (datasets.SMALL, "small", 512 * MIB) if small or self.is_small else (datasets.SERVER, "server", 2 * GIB)
        )
        tree = datasets.Release(release, self.data).tree(wanted, name)
        return datasets.image(tree, self.data / f"{release}-{name}.img", bytes_)

    def library(self, release: str) -> Path:
        """About 20 MiB of Python's library; the second release lacks one file in eight."""
        tree = self.data / f"{release}-library"
        if not tree.exists():
            left = 20 * MIB
            for n, file in enumerate(sorted(Path(os.__file__).parent.rglob("*.py"))):
                if left > 0 and not (release != "bookworm" and n % 8 == 0):
                    place = tree / file.relative_to(Path(os.__file__).parent)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, place)
                    left -= file.stat().st_size
        return tree


def made(files: list[Path], scratch: Path) -> Iterator[Path]:
    """The files one by one. `FILE#N` is the changed clone N, created on demand and removed afterwards."""
    for path in files:
        original, _, seed = str(path).partition("#")
        if seed:
            clone = datasets.drift(Path(original), scratch / "clone.img", int(seed), 2.0)
            yield clone
            clone.unlink()
        else:
            yield path


def not_zero(path: Path) -> int:
    """Bytes in 4 KiB blocks that are not all zeros."""
    zeros, blocks = bytes(4096), 0
    with path.open("rb") as file:
        while piece := file.read(MIB):
            if piece.count(0) < len(piece):
                blocks += sum(piece[at : at + 4096] != zeros for at in range(0, len(piece), 4096))
    return blocks * 4096


@dataclass
class Stored:
    """What an array stores of a set: bytes written (without zeros), bytes stored, and the same at rest."""

    written: int
    stored: int
    at_rest: int | None = None
    rest_secs: float = 0.0


def stored_bytes(name: str, array: Array) -> int:
    """The bytes of data that the array stores. Restarts it, so that it stores what is in the log or in memory."""
    array.stop()
    array.start()
    array.settled()
    stored = array.stored()
    array.stop()
    if (found := array.fsck()["data_bytes"]) != stored:
        raise Failed(f"{NAMES[name]}: the array says that it stores {stored} bytes, fsck counts {found}")
    array.start()
    return stored


def rest(array: Array) -> float:
    """Waits, at most REST_LIMIT seconds, until the array has stored its data as small as it can; returns the seconds."""
    begin = changed = time.monotonic()
    stored = array.stored()
    while (now := time.monotonic()) < min(begin + REST_LIMIT, changed + REST_PAUSE):
        time.sleep(5)
        if (found := array.stored()) != stored:
            stored, changed = found, now
    return changed - begin


def store(name: str, files: list[Path], args: argparse.Namespace, progress: Progress) -> Stored:
    """Writes the set to a new array."""
    with Array(args.bin, capacity="64GiB", base=args.out / "arrays") as array:
        array.start()
        urls, written, counted = [], 0, {}
        for lun, source in enumerate(made(files, args.out), 1):
            progress.step(f"{NAMES[name]}, disk {lun}")
            urls.append(array.volume(f"disk{lun}", "4GiB", lun))
            # Holes and zeros of 4 KiB or more are skipped.
            run(
                [
                    "qemu-img",
                    "convert",
                    "-n",
                    "--target-is-zero",
                    "-W",
                    "-m",
                    "8",
                    "-f",
                    "raw",
                    "-O",
                    "raw",
                    str(source),
                    urls[-1],
                ],
                limit=3600,
            )
            if "#" in str(files[lun - 1]) or source not in counted:
                counted[source] = not_zero(source)
            written += counted[source]
        measured = Stored(written, stored_bytes(name, array))
        if not args.slice:
            progress.step(f"{NAMES[name]}, at rest")
            measured.rest_secs = rest(array)
            measured.at_rest = stored_bytes(name, array)
        # Verify the data that was measured.
        for source, url in zip(made(files, args.out), urls, strict=False):
            run(["qemu-img", "compare", "-q", "-f", "raw", "-F", "raw", str(source), url], limit=1800)
    return measured


def measure(name: str, sets: Sets, args: argparse.Namespace, progress: Progress) -> Measured:
    files, begin, rivals = getattr(sets, name)(), time.monotonic(), {}
    measured = store(name, files, args, progress)
    secs = time.monotonic() - begin
    for algorithm in [] if args.alone or rival.why_no_btrfs() else ["zstd", "lzo"]:
        progress.step(f"btrfs, {algorithm}")
        with rival.Btrfs(algorithm, args.out, args.out / "tools") as btrfs:
            for n, source in enumerate(made(files, args.out)):
                btrfs.add(source, f"disk{n}.img")
            rivals[f"btrfs {algorithm}"] = btrfs.deduplicated()
    for column, options in [] if args.alone else [("zstd -1", []), ("zstd -1 --long", ["--long=31"])]:
        progress.step(column)
        rivals[column] = rival.zstd(made(files, args.out), options)
    return Measured(name, **asdict(measured), secs=secs, rivals=rivals)


def judge(found: dict[str, Measured], is_slice: bool) -> list[str]:
    """The promises that were missed."""
    missed = []
    for name, least in RATIO.items():
        if name in found and not is_slice and found[name].ratio < least:
            missed.append(f"{NAMES[name]}: {found[name].ratio:.2f}, promised {least}")
    for name, least in RATIO_AT_REST.items():
        if name in found and (ratio := found[name].ratio_at_rest) is not None and ratio < least:
            missed.append(f"{NAMES[name]} at rest: {ratio:.2f}, promised {least}")
    for cost in clones_costs(found):
        if cost > CLONES_COST:
            missed.append(f"{NAMES['clones']}: {cost:.3f} times one disk, promised {CLONES_COST}")
    return missed


def clones_costs(found: dict[str, Measured]) -> list[float]:
    """The bytes of the clones relative to one disk: as written, and at rest if that was measured."""
    if not {"image", "clones"} <= set(found):
        return []
    image, clones = found["image"], found["clones"]
    costs = [clones.stored / max(image.stored, 1)]
    return costs + ([clones.at_rest / max(image.at_rest, 1)] if image.at_rest is not None else [])


RIVALS = ["btrfs zstd", "btrfs lzo", "zstd -1", "zstd -1 --long"]
HEAD = ["data", "written", "stored", "Ibid", "at rest", "after", *RIVALS, "time"]


def rows(found: dict[str, Measured]) -> list[list[str]]:
    out = []
    for m in found.values():
        by = [f"{m.written / m.rivals[column]:.2f}" if column in m.rivals else "–" for column in RIVALS]
        rested = ["–", "–"]
        if m.ratio_at_rest is not None:
            rested = [f"{m.ratio_at_rest:.2f}", seconds(m.rest_secs)]
        out.append([NAMES[m.name], size(m.written), size(m.stored), f"{m.ratio:.2f}", *rested, *by, seconds(m.secs)])
    return out


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sets", nargs="*", metavar="SET", help=", ".join(NAMES))
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid")
    options.add_argument(
        "--out", type=Path, default=ROOT / "target/reduction", help="folder for results and scratch files"
    )
    options.add_argument("--data", type=Path, help="folder of the data sets (OUT/data)")
    options.add_argument("--slice", action="store_true", help="a few MiB of each kind, without packages")
    options.add_argument("--small", action="store_true", help="disks of 512 MiB instead of 2 GiB")
    options.add_argument("--alone", action="store_true", help="skip the comparisons")
    args = options.parse_args()
    if unknown := set(args.sets) - set(NAMES):
        options.error(f"no such set: {', '.join(sorted(unknown))} (there are {', '.join(NAMES)})")
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    sets = Sets((args.data or args.out / ("slice" if args.slice else "data")).resolve(), args.slice, args.small)
    names = [name for name in NAMES if not args.sets or name in args.sets]
    found: dict[str, Measured] = {}
    progress = Progress(
        sum({"clones": CLONES, "drift": CLONES, "releases": 2}.get(name, 1) + 5 for name in names), " steps"
    )
    if not args.alone and (reason := rival.why_no_btrfs()):
        say(f"  no comparison with btrfs: {reason}", "yellow")
    try:
        for name in names:
            found[name] = measure(name, sets, args, progress)
    except Failed as e:
        progress.finish()
        say(f"  {e}", "red")
        return 1
    progress.finish()
    say()
    print(table(HEAD, rows(found), right=set(range(1, len(HEAD)))))
    lines = ["| " + " | ".join(row) + " |" for row in (HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows(found))]
    (args.out / "reduction.md").write_text("\n".join(lines) + "\n")
    report = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "slice": args.slice,
        "sets": [{**asdict(m), "ratio": round(m.ratio, 3)} for m in found.values()],
    }
    (args.out / "reduction.json").write_text(json.dumps(report, indent=1) + "\n")
    if missed := judge(found, args.slice):
        say(f"  missed: {'; '.join(missed)}", "red")
        return 1
    for cost in clones_costs(found):
        say(f"  sixteen clones cost {cost:.3f} times one disk", "dim")
    return 0


if __name__ == "__main__":
    sys.exit(main())
