#!/usr/bin/env python3
"""Random 4 KiB reads over iSCSI of data that is not in the page cache, beside fio on the array's own file.

    scripts/cold.py [--bin DIR] [--out DIR] [--size GIB] [--rounds N] [--secs S] [--qd N] [--serve OPTIONS]

Each round drops the file from the page cache before each measurement, and runs fio (O_DIRECT, libaio; left out if it is
not installed), cold reads, and reads of a part of the volume that was read before. Results are medians. Writes
DIR/cold.json. The goal is 0.8 times the rate of fio.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed, run
from ibid_tests.kit.term import count, say, table

GIB = 1 << 30
PROMISED = 0.8
WARM = 64 << 20


def fio(file: Path, qd: int, secs: float, size: int) -> float | None:
    """Reads per second of fio; None if it is not installed."""
    if not shutil.which("fio"):
        return None
    said = run(
        [
            *("fio", "--name=cold", "--readonly", "--direct=1", "--ioengine=libaio", "--rw=randread", "--bs=4k"),
            *("--norandommap", "--time_based", "--output-format=json", f"--runtime={secs:g}", f"--iodepth={qd}"),
            *(f"--filename={file}", f"--size={size}"),
        ],
        limit=secs + 60,
    ).stdout
    return json.loads(said)["jobs"][0]["read"]["iops"]


def whole_run(args, host: Host) -> list[dict]:
    bytes_ = args.size * GIB
    rounds = []
    with Array(
        args.bin, capacity=f"{args.size * 3 // 2 + 1}GiB", portals=1, base=args.out, args=args.serve.split()
    ) as array:
        array.start()
        url = array.volume("cold", f"{args.size}GiB", 1)
        host.verb("fill", url, "--size", str(bytes_), "--seed", "1")
        array.settled()
        file = max((p for p in array.data.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        for n in range(args.rounds):

            def read(secs: float = args.secs, qd: int = args.qd, seed: int = 10 * n + 1, **more) -> float:
                return host.bench(url, "read", qd=qd, secs=secs, seed=seed, warm=0, **more)["ops_s"]

            def drop() -> None:
                run(["dd", f"if={file}", "iflag=nocache", "count=0", "status=none"])

            one = {"fio": fio(file, args.qd, args.secs, bytes_)}
            drop()
            one["cold"] = read()
            drop()
            one["cold, depth 1"] = read(qd=1, seed=10 * n + 2)
            read(secs=1, size="1M", seq=True, span=str(WARM))
            one["warm"] = read(span=str(WARM))
            rounds.append(one)
            say(f"  round {n + 1}: " + ", ".join(f"{k} {count(v)}/s" for k, v in one.items() if v is not None))
    return rounds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--size", type=int, default=4, metavar="GIB", help="size of the volume (4)")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--secs", type=float, default=4, help="seconds of each measurement (4)")
    options.add_argument("--qd", type=int, default=32, help="outstanding reads (32)")
    options.add_argument("--serve", default="", metavar="OPTIONS", help="options of the array, such as '--io threads'")
    args = options.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        rounds = whole_run(args, Host(args.bin))
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    middle = {name: statistics.median(r[name] for r in rounds) for name, rate in rounds[0].items() if rate is not None}
    say()
    print(table(["reads", "/s"], [[name, count(rate)] for name, rate in middle.items()], right={1}))
    report = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "medians": middle,
        "rounds": rounds,
    }
    (args.out / "cold.json").write_text(json.dumps(report, indent=1) + "\n")
    if "fio" not in middle:
        say("  fio is not installed, so the reads are compared with nothing", "yellow")
        return 0
    ratio = statistics.median(r["cold"] / r["fio"] for r in rounds)
    met = ratio >= PROMISED
    say(
        f"  cold reads: {ratio:.2f}× fio; promised ≥ {PROMISED:g}× {'met' if met else 'MISSED'}",
        "green" if met else "red",
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
