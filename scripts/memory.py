#!/usr/bin/env python3
"""Memory use: unique, incompressible data written over iSCSI under a fixed --memory.

    scripts/memory.py [--bin DIR] [--out DIR] [--memory SIZE] [GIB...]

Samples the process's own memory (anonymous pages: heap and stacks, without program and page cache) while 8, 16 and
32 GiB are written. Part of the data is then read back; 4 KiB blocks are read and overwritten at random over all of it;
during the overwrites the array is killed. It restarts with the same budget, and the part is read back again.

Results: *slope*, the memory for each additional TiB of unique data between two sizes; *total*, the whole process at one
size, including the part that does not grow. SPECIFICATION.md promises at most 6 GiB per TiB. Writes DIR/memory.json and
DIR/memory.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.figure import Figure
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import Progress, count, say, seconds, size, table

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
PROMISED = 6 * GIB
# Memory allowed beyond the budget: code, stacks, sessions, free memory of the allocator.
BEYOND = 48 * MIB
# Number and size of the pieces that are read back and compared.
PIECES, PIECE = 16, 256 * MIB
SEED = 11


class Memory(threading.Thread):
    """Samples the array's memory twice a second, across restarts."""

    def __init__(self, array: Array):
        super().__init__(daemon=True)
        self.array, self.over, self.begin = array, threading.Event(), time.monotonic()
        self.phase, self.phases = "", []
        self.points: list[tuple[float, int, str]] = []
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.5):
            self.note()

    def note(self) -> int:
        try:
            now = self.array.process.memory()
        except OSError:  # between a kill and the next start
            return 0
        if now:  # a process that is ending has none
            self.points.append((time.monotonic() - self.begin, now, self.phase))
        return now

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Samples taken inside belong to this phase."""
        begin, self.phase = time.monotonic() - self.begin, phase
        try:
            yield
            self.note()
        finally:
            self.phases.append((begin, time.monotonic() - self.begin, phase))

    def most(self, phase: str) -> int:
        return max((at for _, at, of in self.points if of == phase), default=0)

    def stop(self) -> None:
        self.over.set()
        self.join()


def read_back(host: Host, url: str, total: int) -> int:
    """Compares pieces spread over the data, including the first and the last; returns their bytes."""
    pieces = min(PIECES, total // PIECE)
    for n in range(pieces):
        at = (total - PIECE) * n // max(pieces - 1, 1) & -MIB
        host.verb(
            "verify", url, "--seed", str(SEED), "--off", str(at), "--from", str(at), "--size", str(PIECE), limit=1200
        )
    return pieces * PIECE


def fill(array: Array, host: Host, memory: Memory, url: str, sizes: list[int]) -> list[dict]:
    """Writes the data in steps; records memory and stored bytes after each step."""
    held, rows = 0, []
    for gib in sizes:
        phase = f"to {gib} GiB"
        with memory.during(phase):
            r = host.verb(
                "fill",
                url,
                "--seed",
                str(SEED),
                "--off",
                str(held),
                "--from",
                str(held),
                "--size",
                str(gib * GIB - held),
                limit=7200,
            )
            array.settled(limit=1200)
        held = gib * GIB
        rows.append(
            {
                "held": held,
                "most": memory.most(phase),
                "now": memory.note(),
                "mib_s": r["mib_s"],
                "stored": array.stored(),
            }
        )
        if rows[-1]["stored"] < held:
            raise Failed(
                f"{size(held)} were written and {size(rows[-1]['stored'])} are stored: the data are not unique"
            )
    return rows


def crash(array: Array, host: Host, memory: Memory, url: str, scratch: Path) -> dict:
    """SIGKILL under a verifying load on a separate volume; returns restart time and acknowledged operations."""
    journal = scratch / "journal"
    journal.unlink(missing_ok=True)
    with host.torture(url, journal, scratch / "torture.log", SEED) as load:
        time.sleep(5)
        if not load.alive():
            raise Failed(f"the load ended before the kill:\n{load.tail()}")
        array.kill()
    begin = time.monotonic()
    with memory.during("restart"):
        array.start(limit=300)
        back = time.monotonic() - begin
        checked = host.torture_verify(url, journal)
        array.settled(limit=600)
    return {"secs": back, "acknowledged": checked["acknowledged"], "most": memory.most("restart")}


def whole_run(args: argparse.Namespace, host: Host, scratch: Path) -> dict:
    total, progress = max(args.sizes) * GIB, Progress(len(args.sizes) + 5, " steps")
    # A sparse file; the additional space is for cleaning and metadata.
    with Array(args.bin, capacity=str(total * 9 // 8 + 2 * GIB), args=["--memory", args.memory], base=scratch) as array:
        array.start()
        memory = Memory(array)
        try:
            url, load = array.volume("unique", str(total), 1), array.volume("load", "1GiB", 2)
            progress.step("filling")
            rows = fill(array, host, memory, url, args.sizes)
            progress.step("reading back", by=len(args.sizes))
            with memory.during("compare"):
                compared = read_back(host, url, total)
            progress.step("at random")
            with memory.during("random reads"):
                reads = host.bench(url, "read", secs=args.secs, seed=1)
            progress.step("SIGKILL")
            again = crash(array, host, memory, load, array.dir)
            with memory.during("compare again"):
                read_back(host, url, total)
            progress.step("overwriting at random")
            with memory.during("random writes"):
                writes = host.bench(url, "write", secs=args.secs, seed=2)
                array.settled(limit=1200)
            progress.step("fsck")
            array.stop()
            checked = array.fsck()
        finally:
            memory.stop()
            progress.finish()
    if reads["errors"] or writes["errors"]:
        raise Failed(
            f"random reads: {reads['errors']} errors, writes: {writes['errors']} ({writes['first_error'] or reads['first_error']})"
        )
    return {
        "rows": rows,
        "compared": compared,
        "crash": again,
        "reads": reads["ops_s"],
        "writes": writes["ops_s"],
        "fsck": checked,
        "most": max(at for _, at, _ in memory.points),
        "phases": {name: memory.most(name) for _, _, name in memory.phases},
        "points": memory.points,
        "bands": memory.phases,
    }


def show(found: dict, budget: int) -> bool:
    """Prints the results; returns whether both goals are met with this budget."""
    rows, before = [], None
    for r in found["rows"]:
        slope = (r["most"] - before["most"]) / (r["held"] - before["held"]) * TIB if before else None
        rows.append(
            [
                size(r["held"]),
                size(r["most"]),
                size(r["now"]),
                f"{slope / GIB:.2f} GiB" if slope is not None else "–",
                f"{r['most'] / r['held'] * TIB / GIB:.2f} GiB",
                count(r["mib_s"]),
            ]
        )
        before = r
    say()
    print(table(["unique", "most", "at rest", "slope a TiB", "in all a TiB", "MiB/s"], rows, right=set(range(6))))
    for name, most in found["phases"].items():
        say(f"  {name}: {size(most)} at most", "dim")
    again = found["crash"]
    say(
        f"  {size(found['compared'])} compared, twice; after SIGKILL serving again in {seconds(again['secs'])}, {count(again['acknowledged'])} acknowledged, 0 lost; "
        f"random 4 KiB reads {count(found['reads'])} /s, writes {count(found['writes'])} /s; fsck clean",
        "dim",
    )
    last = found["rows"][-1]
    bounded, slim = found["most"] <= budget + BEYOND, last["most"] / last["held"] * TIB <= PROMISED
    mark = lambda met: ("met", "green") if met else ("MISSED", "red")  # noqa: E731
    say(
        f"  {size(found['most'])} at most with --memory {size(budget)}; promised at most {size(BEYOND)} beyond it: {mark(bounded)[0]}",
        mark(bounded)[1],
    )
    if budget <= last["held"] * PROMISED // TIB:
        say(
            f"  the whole process at {size(last['held'])}: {last['most'] / last['held'] * TIB / GIB:.2f} GiB a TiB; promised at most {PROMISED / GIB:g}: {mark(slim)[0]}",
            mark(slim)[1],
        )
        return bounded and slim
    return bounded


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "sizes",
        nargs="*",
        type=int,
        default=[8, 16, 32],
        metavar="GIB",
        help="GiB of data, in steps (8 16 32)",
    )
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--memory", default="256M", help="memory budget of the array (256M)")
    options.add_argument("--secs", type=float, default=10, help="seconds of each random load (10)")
    args = options.parse_args()
    args.bin, args.out, args.sizes = args.bin.resolve(), args.out.resolve(), sorted(set(args.sizes))
    args.out.mkdir(parents=True, exist_ok=True)
    units = {"M": MIB, "G": GIB}
    if args.memory[-1:] not in units or not args.memory[:-1].isdigit():
        options.error("--memory takes a number of M or G")
    budget, begin = int(args.memory[:-1]) * units[args.memory[-1]], time.monotonic()
    try:
        found = whole_run(args, Host(args.bin), args.out / "scratch")
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    met = show(found, budget)
    points, bands = found.pop("points"), found.pop("bands")
    figure = Figure(
        f"Memory of the array under --memory {args.memory}, with up to {max(args.sizes)} GiB of unique data",
        "seconds",
        "MiB",
        {"anonymous memory": [(at, taken / MIB) for at, taken, _ in points]},
        {f"--memory {args.memory}": budget / MIB},
        bands,
    )
    (args.out / f"memory-{args.memory}.svg").write_text(figure.svg())
    report = {
        "memory": budget,
        "secs": time.monotonic() - begin,
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "met": met,
        "at": time.strftime("%FT%TZ", time.gmtime()),
        **found,
    }
    (args.out / f"memory-{args.memory}.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
