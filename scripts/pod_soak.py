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
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.ats import Ats
from ibid_tests.kit.host import Host
from ibid_tests.kit.load import Load
from ibid_tests.kit.pair import LUN, Pair
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.soak import FAULTS, Faults, histogram
from ibid_tests.kit.term import count, heading, paint, say, seconds, table

ATS_LBA = 1000 * (1 << 20) // 512
LONGEST = 5.0


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
        self.pair = Pair(bin_dir, base)
        self.faults = Faults(self.pair, Host(bin_dir), seed)
        self.load, self.ats = Load(self.pair.names, LUN, seed=seed), Ats(self.pair.names, LUN, ATS_LBA)

    def round(self, kind: str, where: str, mediator: str) -> Round:
        pair, load, faults, chance = self.pair, self.load, self.faults, self.faults.chance
        pair.wait_sync()
        load.wait_answered(*pair.arrays)
        areas = [faults.fill(chance.choice(pair.arrays))]
        if mediator == "lost before":
            pair.stop_mediator()
            time.sleep(chance.uniform(0, 5))
        down = chance.choice([chance.uniform(0.1, 2), chance.uniform(2, 5)])
        begin = time.monotonic()
        hit, end_fault = faults.hit(kind, where), faults.begin(kind, where)
        try:
            areas += faults.during(hit, begin + down, mediator, load.wait_answered)
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
            faults.verify(area)
        load.check()
        whole = [pause for array, pause in zip(pair.arrays, pauses, strict=True) if array not in hit]
        # Both arrays are whole if the link is cut: one of them continues.
        pause = min(whole) if whole and mediator != "lost before" else None
        return Round(f"{kind} {where}", mediator, ended - begin, pause, max(pauses), sync)


def report(rounds: list[Round], soak: Soak, secs: float) -> int:
    pauses = [r.pause for r in rounds if r.pause is not None]
    waits, syncs = [r.wait for r in rounds], [r.sync for r in rounds]
    heading("Pauses of writes, in seconds")
    rows = histogram([pauses, waits])
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
            done = soak.round(*soak.faults.choose(n))
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
