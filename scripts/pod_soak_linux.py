#!/usr/bin/env python3
"""A campaign: a Linux guest with multipath on two arrays, under a verifying load, and one fault after the other.

    scripts/pod_soak_linux.py [--bin DIR] [--rounds N] [--minutes N] [--seed N] [--keep] [--json FILE]

The faults are those of scripts/pod_soak.py. The load runs in the guest, on the device that its multipath makes of the paths
to both arrays, with the settings of docs/guides/two-arrays.md. A round begins when both arrays are in step and the guest
uses all paths, and counts the longest command of the guest. Exit code 0: no command of the guest failed, every block was
right, both arrays were in step after each round and equal at the end, and no command took longer than 5 s where one array
or the link was lost and the mediator decided.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.guest import Guest, Image, why_not
from ibid_tests.kit.guest_load import GuestLoad, program
from ibid_tests.kit.host import Host
from ibid_tests.kit.multipath_host import DEVICE, MultipathHost
from ibid_tests.kit.pair import Pair
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.kit.soak import Faults, histogram
from ibid_tests.kit.term import count, heading, paint, say, seconds, table

LONGEST = 5.0


@dataclass
class Round:
    """The times of one fault, in seconds: of the longest command in the guest, until both arrays were in step after the
    end of the fault, and until the guest used all paths. `is_single`: one array or the link, and the mediator decided."""

    fault: str
    mediator: str
    down: float
    pause: float
    sync: float
    paths: float
    is_single: bool


class Soak:
    def __init__(self, bin_dir: Path, base: Path, cache: Path, seed: int):
        self.pair, self.seed = Pair(bin_dir, base), seed
        self.faults = Faults(self.pair, Host(bin_dir), seed)
        scratch = self.pair.dir / "guest"
        self.guest = Guest(Image(cache).build(), scratch, {"load": program(scratch)})
        self.host = MultipathHost(self.guest)
        self.load = GuestLoad(self.guest, DEVICE, seed=seed)
        self.rounds: list[Round] = []

    def start(self) -> None:
        self.pair.start().create()
        say(f"  in step after {seconds(self.pair.stretch())}", "dim")
        begin = time.monotonic()
        self.guest.start()
        self.host.start()
        for array in self.pair.arrays:
            self.host.login(array.iqn, array.ports[0])
        self.wait_paths()
        said = f"Linux {self.guest.kernel_version} with two paths after {seconds(time.monotonic() - begin)}"
        say(f"  {said}", "dim")
        self.load.start()

    def wait_paths(self) -> float:
        return self.host.wait_used(*(array.ports[0] for array in self.pair.arrays))

    def round(self, kind: str, where: str, mediator: str) -> Round:
        pair, load, faults, chance = self.pair, self.load, self.faults, self.faults.chance
        pair.wait_sync(limit=60)
        areas = [faults.fill(chance.choice(pair.arrays))]
        load.wait_answered()
        if mediator == "lost before":
            pair.stop_mediator()
            time.sleep(chance.uniform(0, 5))
        down = chance.choice([chance.uniform(0.1, 2), chance.uniform(2, 5), chance.uniform(5, 10)])
        load.mark()
        begin = time.monotonic()
        hit, end_fault = faults.hit(kind, where), faults.begin(kind, where)
        try:
            areas += faults.during(hit, begin + down, mediator, lambda _: load.wait_answered())
        finally:
            end_fault()
        ended = time.monotonic()
        pair.wait_sync(mediator="lost" not in mediator, limit=60)
        sync = time.monotonic() - ended
        load.wait_answered()
        paths = self.wait_paths()
        pause = load.check().longest
        if "lost" in mediator:
            pair.start_mediator()
        for area in areas:
            faults.verify(area)
        # An array that is lost after the mediator has decided does not need it again.
        single = mediator != "lost before" and (kind == "cut" or where != "both")
        return Round(f"{kind} {where}", mediator, ended - begin, pause, sync, paths, single)

    def run(self, number: int, secs: float) -> None:
        end = time.monotonic() + secs
        for n in range(number):
            if time.monotonic() > end:
                break
            done = self.round(*self.faults.choose(n))
            self.rounds.append(done)
            said = f"{done.down:4.1f} s, mediator {done.mediator:11}  longest command {done.pause:4.1f} s, "
            said += f"in step after {done.sync:.1f} s"
            print(f"  {n + 1:4}  {done.fault:10} {paint(said, 'cyan')}", flush=True)

    def finish(self) -> None:
        """Every block of the load through the guest, both sides byte by byte, and fsck of both."""
        pair, load = self.pair, self.load
        pair.wait_sync(limit=60)
        blocks, report = load.verify(), load.check()
        load.stop()
        self.host.logout()
        say()
        say(
            f"  {count(report.writes)} writes and {count(report.reads)} reads of the guest; {blocks} blocks verified",
            "dim",
        )
        urls = [pair.url(array) for array in pair.arrays]
        run_command(["qemu-img", "compare", "-f", "raw", "-F", "raw", *urls], limit=600)
        for array in pair.arrays:
            if (code := array.stop()) != 0:
                raise Failed(f"exit {code} of {pair.name(array)} after SIGTERM")
            array.fsck()
        say("  both sides equal; fsck of both clean", "dim")

    def close(self, keep: bool) -> None:
        self.guest.close()
        self.pair.close(keep=keep)


def report(rounds: list[Round], secs: float) -> int:
    singles = [r.pause for r in rounds if r.is_single]
    others, syncs = [r.pause for r in rounds if not r.is_single], [r.sync for r in rounds]
    heading("Longest command of the guest in a round, in seconds")
    print(table(["", "one array or the link", "more than that"], histogram([singles, others]), right={1, 2}))
    say()
    say(f"  {len(rounds)} rounds in {seconds(secs)}, 0 miscompares, 0 I/O errors", "green", "bold")
    say(f"  in step after {statistics.median(syncs):.1f} s in the median, {max(syncs):.1f} s at most")
    if late := [r for r in rounds if r.is_single and r.pause > LONGEST]:
        say(
            f"  {len(late)} commands took longer than {LONGEST:.0f} s, {max(r.pause for r in late):.1f} s at most",
            "red",
        )
        return 1
    return 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--rounds", type=int, default=100, help="number of faults (100)")
    options.add_argument("--minutes", type=float, default=1e6, help="begin no round after this time")
    options.add_argument(
        "--seed", type=int, default=1, help="seed of the times, and of the faults after the first ones"
    )
    options.add_argument("--keep", action="store_true", help="keep the data of the arrays")
    options.add_argument("--cache", type=Path, help="folder of the guest's image (guest-multipath beside --bin)")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the rounds as JSON, also after a failure")
    args = options.parse_args()
    if reason := why_not():
        options.error(f"the guest cannot run here: {reason}")
    scratch = args.bin.resolve().parent / "pod-soak"
    say(f"Ibid: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, seed {args.seed}, data in {scratch}", "dim")
    cache = args.cache or args.bin.resolve().parent / "guest-multipath"
    soak, code, begin = Soak(args.bin.resolve(), scratch, cache, args.seed), 1, time.monotonic()
    try:
        soak.start()
        soak.run(args.rounds, args.minutes * 60)
        soak.finish()
        code = report(soak.rounds, time.monotonic() - begin)
    except Failed as e:
        say(f"\n  the campaign failed (seed {args.seed}): {e}", "red")
        say(f"  {len(soak.rounds)} rounds were good; logs and data are in {soak.pair.dir}", "dim")
    except KeyboardInterrupt:
        say("\n  stopped", "yellow")
        code = 130
    finally:
        if args.json:
            args.json.write_text(json.dumps([vars(r) for r in soak.rounds], indent=1) + "\n")
        soak.close(keep=args.keep or code == 1)
    return code


if __name__ == "__main__":
    sys.exit(main())
