#!/usr/bin/env python3
"""Cost of a deletion: latency of 4 KiB writes while a fully mapped 1 TiB volume is eradicated.

    scripts/deletion.py [--bin DIR] [--out DIR] [--rounds N] [--secs S] [--size TIB]

The volume is mapped by EXTENDED COPY of a few GiB, doubled until it is full. Each round measures the load alone, then
with a deletion in its middle. SPECIFICATION.md promises a p99 of at most 2 x. A table goes to the terminal, all data to
DIR/deletion.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import count, say, seconds, table

GIB = 1 << 30
PROMISED = 2.0


def map_whole(host: Host, url: str, first: int, total: int) -> float:
    """Fills the first bytes and copies them, doubling, until all is mapped; returns the seconds of the copies."""
    host.verb("fill", url, "--size", str(first), "--seed", "1")
    begin, done = time.monotonic(), first
    while done < total:
        step = min(done, total - done)
        host.verb(
            "deploy",
            url,
            url,
            "--destination-off",
            str(done),
            "--size",
            str(step),
            "--chunk",
            "16M",
            "--qd",
            "32",
            limit=1800,
        )
        done += step
    return time.monotonic() - begin


class Deletion(threading.Thread):
    """Destroys and eradicates a volume after a delay; returns the duration of the command."""

    def __init__(self, array: Array, name: str, after: float):
        super().__init__(daemon=True)
        self.array, self.name_, self.after, self.secs, self.error = array, name, after, 0.0, None

    def run(self) -> None:
        time.sleep(self.after)
        begin = time.monotonic()
        try:
            self.array.admin("volume", "destroy", self.name_)
            self.array.admin("volume", "eradicate", self.name_)
        except Failed as e:
            self.error = e
        self.secs = time.monotonic() - begin


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--secs", type=float, default=10, help="seconds of each measurement (10)")
    options.add_argument("--size", type=float, default=1.0, metavar="TIB", help="size of the deleted volume (1)")
    args = options.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    host, total = Host(args.bin), int(args.size * 1024) * GIB
    rounds: list[dict] = []
    try:
        with Array(args.bin, capacity="64GiB", base=args.out / "scratch") as array:
            array.start()
            load = array.volume("load", "1GiB", 1)
            host.verb("fill", load, "--seed", "5")
            for n in range(args.rounds):
                name = f"huge{n}"
                url = array.volume(name, str(total), 10 + n)
                mapped = map_whole(host, url, 2 * GIB, total)
                array.admin("host", "disconnect", "any", name)
                array.settled()
                measure = lambda seed: host.bench(load, "write", qd=8, secs=args.secs, warm=1, seed=seed)  # noqa: E731
                alone = measure(2 * n + 1)
                deletion = Deletion(array, name, 1 + args.secs / 4)
                deletion.start()
                beside = measure(2 * n + 2)
                deletion.join()
                if deletion.error:
                    raise deletion.error
                begin = time.monotonic()
                array.settled(limit=1200)
                rounds.append(
                    {
                        "mapped_secs": mapped,
                        "delete_secs": deletion.secs,
                        "freed_secs": time.monotonic() - begin,
                        "alone": alone,
                        "beside": beside,
                    }
                )
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    p99 = {which: statistics.median(r[which]["lat_us"]["p99"] for r in rounds) for which in ("alone", "beside")}
    ratio = p99["beside"] / p99["alone"]
    rows = [
        [
            f"{n}",
            count(r["alone"]["ops_s"]),
            seconds(r["alone"]["lat_us"]["p99"] / 1e6),
            count(r["beside"]["ops_s"]),
            seconds(r["beside"]["lat_us"]["p99"] / 1e6),
            seconds(r["delete_secs"]),
            seconds(r["mapped_secs"]),
        ]
        for n, r in enumerate(rounds, 1)
    ]
    say()
    print(
        table(
            ["round", "alone /s", "p99", "while deleting /s", "p99", "command", "mapped in"],
            rows,
            right={1, 2, 3, 4, 5, 6},
        )
    )
    met = ratio <= PROMISED
    say(
        f"  p99 while {args.size:g} TiB goes away: {ratio:.2f}× the load's own; promised ≤ {PROMISED:g}× {'met' if met else 'MISSED'}",
        "green" if met else "red",
    )
    report = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "ratio": ratio,
        "rounds": rounds,
    }
    (args.out / "deletion.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
