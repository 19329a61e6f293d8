#!/usr/bin/env python3
"""Cost of cleaning: p99 of random writes to an array that is 80 % full, relative to an array that need not clean.

    scripts/cleaning.py [--bin DIR] [--out DIR] [--capacity GIB] [--full PERCENT] [--rounds N] [--secs S]

Two arrays of the same size and settings hold a volume of the same size, written once. One is filled to 80 % with
incompressible data and overwritten at random until all free space is holes, so that each further write needs cleaning.
The other has free segments for all writes. The same load runs on both in turn; the result is the ratio of the median
p99 over the rounds. The bytes that the process writes per host byte show that the first array cleans. SPECIFICATION.md
promises at most 3 x. Writes DIR/cleaning.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import Progress, count, say, seconds, table

MIB, GIB = 1 << 20, 1 << 30
PROMISED = 3.0


def used_percent(array: Array) -> float:
    shown = array.admin("array", "show")["array"]
    return 100 * shown["space"]["total_physical"] / shown["capacity"]


def age(array: Array, host: Host, load: str, span: int, capacity: int, percent: float, size: str) -> None:
    """Fills the array, then overwrites at random until its free space is all holes."""
    url, filled = array.volume("old", str(2 * capacity), 2), 0
    while used_percent(array) < percent:
        piece = max(int(capacity * (percent - used_percent(array)) / 100 * 0.8) & -MIB, 16 * MIB)
        host.verb("fill", url, "--off", str(filled), "--size", str(piece), "--seed", "2")
        filled += piece
        array.settled()
    written, n = 0, 0
    # Overwrite once in full: the initial free space is then used up, and all free space comes from cleaning.
    while written < capacity:
        n += 1
        for target, part in ((url, filled), (load, span)):
            r = host.bench(target, "write", size=size, qd=32, secs=2, span=str(part), seed=1000 + n, warm=0)
            if r["errors"]:
                raise Failed(f"{r['errors']} writes failed while the array was made old: {r['first_error']}")
            written += int(r["mib_s"] * r["secs"] * MIB)


def measure(array: Array, host: Host, url: str, span: int, args: argparse.Namespace, seed: int) -> dict:
    """Runs the load once; also returns the bytes written by the array per host byte."""
    before = array.process.written()
    r = host.bench(url, "write", size=args.size, qd=args.qd, secs=args.secs, span=str(span), seed=seed, warm=0)
    if r["errors"]:
        raise Failed(f"{r['errors']} writes failed: {r['first_error']}")
    r["amplification"] = (array.process.written() - before) / max(r["mib_s"] * r["secs"] * MIB, 1)
    return r


def whole_run(args: argparse.Namespace, host: Host) -> tuple[list[dict], float]:
    capacity, scratch = int(args.capacity * GIB), args.out / "scratch"
    span = capacity // 8 & -MIB
    progress, rounds = Progress(args.rounds + 2, " rounds"), []
    with (
        Array(args.bin, capacity=str(capacity), base=scratch) as old,
        Array(args.bin, capacity=str(capacity), base=scratch) as new,
    ):
        loads = {}
        for name, array in (("new", new), ("old", old)):
            array.start()
            loads[name] = array.volume("load", str(span), 1)
            host.verb("fill", loads[name], "--seed", "1")
        progress.step("making an array old")
        age(old, host, loads["old"], span, capacity, args.full, args.size)
        full = used_percent(old)
        for n in range(args.rounds):
            progress.step("measuring")
            rounds.append(
                {name: measure(array, host, loads[name], span, args, n) for name, array in (("new", new), ("old", old))}
            )
        progress.finish()
    return rounds, full


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--capacity", type=float, default=6, metavar="GIB", help="capacity of each array (6)")
    options.add_argument(
        "--full", type=float, default=80, metavar="PERCENT", help="percentage of the array that is filled (80)"
    )
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--secs", type=float, default=6, help="seconds of each measurement (6)")
    options.add_argument("--size", default="4K", help="bytes of a write (4K)")
    options.add_argument("--qd", type=int, default=8, help="outstanding writes (8)")
    args = options.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    try:
        rounds, full = whole_run(args, Host(args.bin))
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    p99 = {name: statistics.median(r[name]["lat_us"]["p99"] for r in rounds) for name in ("new", "old")}
    moved = {name: statistics.median(r[name]["amplification"] for r in rounds) for name in ("new", "old")}
    rows = [
        [
            f"{n}",
            *(
                cell
                for name in ("new", "old")
                for cell in (
                    count(r[name]["ops_s"]),
                    seconds(r[name]["lat_us"]["p99"] / 1e6),
                    f"{r[name]['amplification']:.2f}",
                )
            ),
        ]
        for n, r in enumerate(rounds, 1)
    ]
    say()
    print(table(["round", "new /s", "p99", "written", "80 % full /s", "p99", "written"], rows, right=set(range(1, 7))))
    ratio = p99["old"] / p99["new"]
    met, cleaned = ratio <= PROMISED, moved["old"] > moved["new"]
    if not cleaned:
        say(
            "  the array that is full wrote no more than the new one: it did not clean, and nothing was measured", "red"
        )
    say(
        f"  p99 while cleaning at {full:.0f} % full: {ratio:.2f}× that without; promised ≤ {PROMISED:g}× {'met' if met else 'MISSED'}",
        "green" if met else "red",
    )
    report = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "secs": time.monotonic() - begin,
        "full": full,
        "ratio": ratio,
        "rounds": rounds,
    }
    (args.out / "cleaning.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if met and cleaned else 1


if __name__ == "__main__":
    sys.exit(main())
