#!/usr/bin/env python3
"""Ageing: throughput of random overwrites of many times the capacity of an array that is 85 % full.

    scripts/ageing.py [--bin DIR] [--out DIR] [--capacity SIZE] [--times N] [--full PERCENT] [--size BYTES]

Fills a volume with incompressible data until the array is that full, then overwrites random pieces until --times its
capacity has been written. SPECIFICATION.md promises that the last quarter has at least 75 % of the rate of the second.
Writes DIR/ageing.json and DIR/ageing.svg.
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
from ibid_tests.kit.figure import Figure
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import Progress, say, seconds, size

MIB, GIB = 1 << 20, 1 << 30
PROMISED = 0.75


def used_percent(array: Array) -> float:
    shown = array.admin("array", "show")["array"]
    return 100 * shown["space"]["total_physical"] / shown["capacity"]


def drawing(points: list[dict], capacity: int, size: str) -> Figure:
    """The curve of MiB/s over capacities written, with the means of the compared quarters."""
    at = [(p["written"] / capacity, p["mib_s"]) for p in points]
    bands = [(at[-1][0] * n / 4, at[-1][0] * (n + 1) / 4, f"mean {quarter(points, n + 1):.0f}") for n in range(4)]
    return Figure(
        f"Random overwrites of {size} to an array that is {points[-1]['used_percent']:.0f} % full",
        "capacities written",
        "MiB/s",
        {"writes": at},
        {"75 % of the second quarter": PROMISED * quarter(points, 2)},
        bands,
    )


def quarter(points: list[dict], n: int) -> float:
    """The mean rate of a quarter (1 to 4) of the written bytes."""
    whole = points[-1]["written"]
    of = [p for p in points if whole * (n - 1) / 4 < p["written"] <= whole * n / 4]
    return statistics.mean(p["mib_s"] for p in of) if of else 0.0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--capacity", default="4", metavar="GIB", help="capacity of the array in GiB (4)")
    options.add_argument("--times", type=float, default=20, help="how many capacities to write (20)")
    options.add_argument("--full", type=float, default=85, metavar="PERCENT", help="how full the array is kept (85)")
    options.add_argument("--memory", metavar="SIZE", help="memory budget of the array (default of ibid serve)")
    options.add_argument("--size", default="16K", help="bytes of a write (16K)")
    options.add_argument(
        "--step", type=float, default=2, metavar="SECONDS", help="seconds of one point of the curve (2)"
    )
    args = options.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    host, capacity = Host(args.bin), int(float(args.capacity) * GIB)
    points: list[dict] = []
    begin = time.monotonic()
    try:
        with Array(
            args.bin,
            capacity=str(capacity),
            args=["--memory", args.memory] if args.memory else [],
            base=args.out / "scratch",
        ) as array:
            array.start()
            url, filled = array.volume("old", str(capacity * 2), 1), 0
            # Small steps near the end, because the share of metadata is not known in advance.
            while used_percent(array) < args.full:
                piece = max(int(capacity * (args.full - used_percent(array)) / 100 * 0.8) & -MIB, 16 * MIB)
                host.verb("fill", url, "--off", str(filled), "--size", str(piece), "--seed", "1")
                filled += piece
                array.settled()
            progress, written, n = Progress(100, " %"), 0, 0
            while written < args.times * capacity:
                n += 1
                r = host.bench(url, "write", size=args.size, qd=32, secs=args.step, span=str(filled), seed=n, warm=0)
                if r["errors"]:
                    raise Failed(f"{r['errors']} writes failed after {size(written)}: {r['first_error']}")
                written += int(r["mib_s"] * r["secs"] * MIB)
                points.append(
                    {
                        "written": written,
                        "mib_s": r["mib_s"],
                        "p99_us": r["lat_us"]["p99"],
                        "used_percent": round(used_percent(array), 1),
                    }
                )
                progress.step(
                    f"{size(written)} written, {r['mib_s']:.0f} MiB/s",
                    by=int(100 * written / (args.times * capacity)) - progress.done,
                )
            progress.finish()
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    second, last = quarter(points, 2), quarter(points, 4)
    met = last >= PROMISED * second
    report = {
        "capacity": capacity,
        "filled": filled,
        "written": written,
        "size": args.size,
        "secs": time.monotonic() - begin,
        "second": second,
        "last": last,
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "points": points,
    }
    (args.out / "ageing.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / "ageing.svg").write_text(drawing(points, capacity, args.size).svg())
    say(
        f"  {size(written)} written to {size(capacity)} at {points[-1]['used_percent']} % full in {seconds(report['secs'])}: second quarter {second:.0f} MiB/s, "
        f"last {last:.0f} MiB/s; promised ≥ {PROMISED:.0%} of it: {'met' if met else 'MISSED'}",
        "green" if met else "red",
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
