#!/usr/bin/env python3
"""A campaign: a pod on two arrays with a mediator under a verifying load, and one fault after the other.

    scripts/pod_soak.py [--bin DIR] [--rounds N] [--seed N] [--keep]

A round is one fault: SIGKILL of an array or of both, SIGSTOP, a cut of the link, each with the mediator there, lost before or
lost after. The first rounds have every fault once, all others any. Times are random: an array may be back before the other
one has noticed. Exit code 0: every block and every number was right, and both arrays were in step after each round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.ats import Ats
from ibid_tests.kit.host import Host
from ibid_tests.kit.load import Load
from ibid_tests.kit.pair import LUN, Pair
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import count, heading, paint, say, seconds, table

MIB = 1 << 20
AREA, AREA_SIZE, AREAS = 512 * MIB, 4 * MIB, 16
ATS_LBA = 1000 * MIB // 512
LONGEST = 5.0
"""Upper ends of the classes of pauses, in seconds."""
CLASSES = [0.25, 0.5, 1, 2, 3, 5, 10, 30]
FAULTS = [
    ("kill", "alpha", "there"),
    ("stop", "beta", "there"),
    ("cut", "both", "there"),
    ("kill", "beta", "lost before"),
    ("kill", "alpha", "lost after"),
    ("stop", "alpha", "there"),
    ("kill", "beta", "there"),
    ("cut", "in", "there"),
    ("kill", "both", "there"),
    ("stop", "beta", "lost before"),
    ("cut", "out", "lost after"),
    ("stop", "alpha", "lost before"),
    ("kill", "alpha", "lost before"),
    ("kill", "both", "lost before"),
    ("stop", "beta", "lost after"),
    ("cut", "both", "lost before"),
]


@dataclass
class Round:
    """The times of one fault, in seconds. `pause` is that of the array without a fault, `wait` the longest of any session."""

    fault: str
    mediator: str
    down: float
    pause: float | None
    wait: float
    sync: float


class Soak:
    def __init__(self, bin_dir: Path, base: Path, seed: int):
        self.pair, self.host, self.chance = Pair(bin_dir, base), Host(bin_dir), random.Random(seed)
        self.load, self.ats = Load(self.pair.names, LUN, seed=seed), Ats(self.pair.names, LUN, ATS_LBA)
        self.seed = seed * 1_000_000

    def fill(self, array: Array) -> list[str]:
        """Writes the next range through an array; returns the range, for `verify`."""
        self.seed += 1
        off = AREA + self.seed % AREAS * AREA_SIZE
        area = ["--off", str(off), "--size", str(AREA_SIZE), "--seed", str(self.seed)]
        self.host.verb("fill", self.pair.url(array), *area)
        return area

    def verify(self, area: list[str]) -> None:
        for array in self.pair.arrays:
            self.host.verb("verify", self.pair.url(array), *area)

    def round(self, kind: str, where: str, mediator: str) -> Round:
        pair, load, chance = self.pair, self.load, self.chance
        pair.wait_sync()
        load.wait_answered(*pair.arrays)
        areas = [self.fill(chance.choice(pair.arrays))]
        if mediator == "lost before":
            pair.stop_mediator()
            time.sleep(chance.uniform(0, 5))
        down = chance.choice([chance.uniform(0.1, 2), chance.uniform(2, 5)])
        begin = time.monotonic()
        end_fault, hit = self.begin_fault(kind, where)
        try:
            areas += self.during(hit, begin + down, mediator)
        finally:
            end_fault()
        ended = time.monotonic()
        pair.wait_sync(mediator="lost" not in mediator, limit=60)
        sync = time.monotonic() - ended
        load.wait_answered(*pair.arrays)
        pauses = [load.pause(array, begin) for array in pair.arrays]
        if "lost" in mediator:
            pair.start_mediator()
        for area in areas:
            self.verify(area)
        load.check()
        whole = [pause for array, pause in zip(pair.arrays, pauses, strict=True) if array not in hit]
        # Both arrays are whole if the link is cut: one of them continues.
        pause = min(whole) if whole and mediator != "lost before" else None
        return Round(f"{kind} {where}", mediator, ended - begin, pause, max(pauses), sync)

    def begin_fault(self, kind: str, where: str) -> tuple[Callable[[], None], list[Array]]:
        """Begins a fault; returns its end, and the arrays that it hits."""
        pair = self.pair
        hit = [] if kind == "cut" else [pair.names[where]] if where in pair.names else list(pair.arrays)

        def each(work: Callable[[Array], object]) -> Callable[[], None]:
            return lambda: [work(array) for array in hit] and None

        if kind == "cut":
            pair.cut(where)
            return lambda: pair.cut("none"), hit
        if kind == "stop":
            each(pair.freeze)()
            return each(pair.thaw), hit
        each(Array.kill)()
        self.chance.shuffle(hit)
        return each(Array.start), hit

    def during(self, hit: list[Array], until: float, mediator: str) -> list[list[str]]:
        """Writes ranges through an array that serves alone, if one does, until the time has come."""
        pair, areas, decided = self.pair, [], False
        while time.monotonic() < until or (mediator == "lost after" and not decided):
            for array in pair.arrays:
                if array not in hit and (pair.state(array) or {}).get("state") == "solo":
                    self.load.wait_answered(array)
                    if len(areas) < AREAS // 2:
                        areas.append(self.fill(array))
                    if mediator == "lost after" and not decided:
                        pair.stop_mediator()
                    decided = True
            if time.monotonic() > until + 30:
                raise Failed(f"no array serves alone: {'; '.join(pair.why(a) for a in pair.arrays if a not in hit)}")
            time.sleep(0.05)
        return areas


def report(rounds: list[Round], soak: Soak, secs: float) -> int:
    pauses = [r.pause for r in rounds if r.pause is not None]
    waits, syncs = [r.wait for r in rounds], [r.sync for r in rounds]
    heading("Pauses of writes, in seconds")
    rows, begin = [], 0.0
    for end in CLASSES:
        row = [f"{begin:g} to {end:g}"]
        row += [str(sum(begin <= n < end for n in found)) for found in (pauses, waits)]
        rows, begin = [*rows, row], end
    for name, work in (("median", statistics.median), ("max", max)):
        rows.append([name, *(f"{work(found):.2f}" if found else "-" for found in (pauses, waits))])
    print(table(["", "an array without a fault", "any session"], rows, right={1, 2}))
    load = soak.load
    say()
    say(f"  {len(rounds)} rounds in {seconds(secs)}; in step after {max(syncs):.1f} s at most")
    say(f"  {count(load.writes)} writes and {count(load.reads)} reads, 0 miscompares, 0 errors", "green", "bold")
    say(f"  repeated commands: {load.told()}", "dim")
    if pauses and max(pauses) > LONGEST:
        say(f"  a pause of {max(pauses):.1f} s is longer than {LONGEST:.0f} s", "red")
        return 1
    return 0


def run(soak: Soak, number: int) -> tuple[list[Round], float]:
    begin, rounds = time.monotonic(), []
    soak.pair.start().create()
    say(f"  in step after {seconds(soak.pair.stretch())}", "dim")
    with soak.load, soak.ats:
        for n in range(number):
            fault = FAULTS[n] if n < len(FAULTS) else soak.chance.choice(FAULTS)
            done = soak.round(*fault)
            rounds.append(done)
            paused = "" if done.pause is None else f"pause {done.pause:.1f} s, "
            said = f"{done.down:4.1f} s, mediator {done.mediator:11}  {paused}in step after {done.sync:.1f} s"
            print(f"  {n + 1:4}  {done.fault:10} {paint(said, 'cyan')}", flush=True)
    say()
    for array in soak.pair.arrays:
        blocks = soak.load.verify(array)
        said = f"{blocks} blocks; COMPARE AND WRITE: {soak.ats.check(array)}"
        say(f"  {soak.pair.name(array)}: {said}", "dim")
    for array in soak.pair.arrays:
        if (code := array.stop()) != 0:
            raise Failed(f"exit {code} of {soak.pair.name(array)} after SIGTERM")
        array.fsck()
    return rounds, time.monotonic() - begin


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--rounds", type=int, default=len(FAULTS), help=f"number of faults ({len(FAULTS)})")
    options.add_argument(
        "--seed", type=int, default=1, help="seed of the times, and of the faults after the first ones"
    )
    options.add_argument("--keep", action="store_true", help="keep the data of the arrays")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the rounds as JSON")
    args = options.parse_args()
    scratch = args.bin.resolve().parent / "pod-soak"
    say(f"Ibid: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, seed {args.seed}, data in {scratch}", "dim")
    soak, code = Soak(args.bin.resolve(), scratch, args.seed), 1
    try:
        rounds, secs = run(soak, args.rounds)
        if args.json:
            args.json.write_text(json.dumps([vars(r) for r in rounds], indent=1) + "\n")
        code = report(rounds, soak, secs)
    except Failed as e:
        say(f"\n  the campaign failed (seed {args.seed}): {e}", "red")
        say(f"  repeated commands: {soak.load.told()}; logs and data are in {soak.pair.dir}", "dim")
    except KeyboardInterrupt:
        say("\n  stopped", "yellow")
        code = 130
    finally:
        soak.load.ending.set()
        soak.ats.ending.set()
        soak.pair.close(keep=args.keep or code == 1)
    return code


if __name__ == "__main__":
    sys.exit(main())
