#!/usr/bin/env python3
"""A campaign: many hosts on one datastore, with paths to both arrays of a pod, while the arrays are killed in turn.

    scripts/pod_torture.py [--bin DIR] [--hosts N] [--secs N] [--every N] [--seed N] [--keep] [--json FILE]

The hosts compete for files by COMPARE AND WRITE through both arrays, and crash at random (`ibid-host datastore-torture`).
Exit code 0: no lock had two owners, no acknowledged write or name was lost, the check of the datastore found nothing, both
arrays have the same bytes, also by `ibid pod verify`, and `ibid fsck` finds no problem at either.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.pair import Pair
from ibid_tests.kit.pair_torture import Kill, PairTorture, compare
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import count, heading, paint, say, seconds

SIZE = "64GiB"


def show(kill: Kill) -> None:
    alone = (
        "back before the other array noticed" if kill.alone is None else f"the other one alone after {kill.alone:.1f} s"
    )
    said = f"{alone}; started after {kill.down:.1f} s; in step {kill.sync:.1f} s later"
    print(f"  {kill.at:6.0f} s  kill -9 {kill.array:6} {paint(said, 'cyan')}", flush=True)


def run(pair: Pair, torture: PairTorture, every: float) -> dict:
    heading(f"{torture.secs} s, an array killed every {every:g} s")
    begin = time.monotonic()
    said = torture.run(every, show)
    took, begin = time.monotonic() - begin, time.monotonic()
    rate = said["operations"] / torture.secs
    operations = (
        f"{count(said['operations'])} lock operations ({count(round(rate))}/s), {count(said['refused'])} refused"
    )
    hosts = f"{count(said['crashes'])} crashes of hosts, {count(said['incarnations'])} starts"
    syncs = [kill.sync for kill in torture.kills]
    heading(f"{said['hosts']} hosts, {seconds(took)}")
    say(f"  {operations}; {hosts}")
    say(f"  {len(syncs)} kills of arrays; in step again after {max(syncs, default=0):.1f} s at most")
    found = compare(pair)
    say(f"  both arrays compared byte by byte, verified and checked in {seconds(time.monotonic() - begin)}", "dim")
    say("  0 miscompares, 0 errors, 0 differences; fsck clean at both", "green", "bold")
    return {"hosts": said, "kills": [vars(kill) for kill in torture.kills], "verification": found}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument(
        "--hosts", type=int, default=64, help="number of hosts, each with sessions to both arrays (64)"
    )
    options.add_argument("--secs", type=int, default=600, help="seconds of the load (600)")
    options.add_argument("--every", type=float, default=20, help="seconds between kills (20)")
    options.add_argument("--seed", type=int, default=1, help="seed of the hosts and of the times")
    options.add_argument("--keep", action="store_true", help="keep the data of the arrays")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    args = options.parse_args()
    scratch = args.bin.resolve().parent / "pod-torture"
    load = [round(n, 1) for n in os.getloadavg()]
    say(f"Ibid: {os.cpu_count()} cores, load {load[0]}, seed {args.seed}, data in {scratch}", "dim")
    pair, torture, code = Pair(args.bin.resolve(), scratch, capacity="8GiB"), None, 1
    try:
        pair.start().create(SIZE)
        say(f"  in step after {seconds(pair.stretch())}", "dim")
        torture = PairTorture(pair, args.bin.resolve() / "ibid-host", args.hosts, args.secs, args.seed)
        found = {"cpus": os.cpu_count(), "load": load, **run(pair, torture, args.every)}
        if args.json:
            args.json.write_text(json.dumps(found, indent=1) + "\n")
        code = 0
    except Failed as e:
        say(f"\n  the campaign failed (seed {args.seed}): {e}", "red")
        say(f"  logs and data are in {pair.dir}", "dim")
    except KeyboardInterrupt:
        say("\n  stopped", "yellow")
        code = 130
    finally:
        if torture:
            torture.close()
        pair.close(keep=args.keep or code == 1)
    return code


if __name__ == "__main__":
    sys.exit(main())
