#!/usr/bin/env python3
"""Ibid and tgt end to end, in one run on one machine: the same initiator, the same commands, in rounds.

    scripts/bench.py [--bin DIR] [--before DIR] [--profile] [--out DIR] [--rounds N] [--secs S] [--size GIB] [ROW...]

Each round runs every row on every target in turn, so that foreign load affects all of them. Results are medians over
the rounds. tgt is Debian's package with its defaults (write cache on: a write is acknowledged before it is on stable
storage) and thin provisioning, in a sparse file of the LUN's size. Ibid runs durable, its default, and with
--write-cache. A table goes to the terminal and to DIR/end-to-end.txt, all data with the machine's load to
DIR/end-to-end.json. With --before, the programs of an earlier build take part in each round. With --profile, each row of
Ibid is run once more while `perf` takes samples of the array.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.peer import Tgt
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import Progress, count, say, seconds, table
from processor import GROUPS, Samples, has_perf

GIB = 1 << 30
# The name of the earlier build among the targets.
BEFORE = "ibid, before"


@dataclass(frozen=True)
class Row:
    """A row of the table. `goal` is the ratio to tgt that SPECIFICATION.md promises, `floor` an absolute rate of Ibid."""

    name: str
    op: str
    size: str
    qd: int
    goal: float | None = None
    floor: float | None = None
    tgt_has: bool = True
    writes: bool = False
    sequential: bool = False


ROWS = [
    Row("read 4K QD1", "read", "4K", 1),
    Row("read 4K QD8", "read", "4K", 8),
    Row("read 4K QD32", "read", "4K", 32, goal=2),
    Row("read 4K QD128", "read", "4K", 128),
    Row("write 4K QD1", "write", "4K", 1, writes=True),
    Row("write 4K QD8", "write", "4K", 8, writes=True),
    Row("write 4K QD32", "write", "4K", 32, writes=True),
    Row("write 4K QD128", "write", "4K", 128, writes=True),
    # The data do not compress.
    Row("sequential read 1M QD1", "read", "1M", 1, sequential=True),
    Row("sequential read 1M QD8", "read", "1M", 8, goal=1.5, sequential=True),
    Row("sequential read 1M QD32", "read", "1M", 32, sequential=True),
    Row("sequential read 1M QD128", "read", "1M", 128, sequential=True),
    Row("sequential write 1M QD1", "write", "1M", 1, writes=True, sequential=True),
    Row("sequential write 1M QD8", "write", "1M", 8, goal=1.5, writes=True, sequential=True),
    Row("sequential write 1M QD32", "write", "1M", 32, writes=True, sequential=True),
    Row("sequential write 1M QD128", "write", "1M", 128, writes=True, sequential=True),
    Row("write same 1M QD32", "zero", "1M", 32, goal=50, writes=True),
    Row("unmap 1M QD32", "unmap", "1M", 32, goal=1, writes=True),
    Row("xcopy 16M QD32", "xcopy", "16M", 32, floor=10_000, tgt_has=False),
    Row("caw 512 QD32", "caw", "512", 32, tgt_has=False),
    Row("test unit ready QD32", "tur", "4K", 32, goal=1.5),
]


def cpu_times() -> list[int]:
    return [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


class Machine:
    """Foreign load of the machine: load average, and the share of time taken by the hypervisor (steal)."""

    def __init__(self):
        self.begin = cpu_times()

    def report(self) -> dict:
        spent = [now - then for now, then in zip(cpu_times(), self.begin, strict=False)]
        total = max(sum(spent), 1)
        return {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "load": os.getloadavg(),
            "at": time.strftime("%FT%TZ", time.gmtime()),
            "busy_percent": round(100 * (total - spent[3] - spent[4]) / total, 1),
            "steal_percent": round(100 * spent[7] / total, 1),
        }


class Targets:
    """The targets of a run, each with a filled LUN, so that reads return data."""

    def __init__(self, args: argparse.Namespace, host: Host):
        self.host, self.span = host, f"{args.size}G"
        scratch = args.out / "scratch"
        self.tgt = Tgt(args.out.parent / "tgt", base=scratch)
        self.arrays = {
            "ibid": Array(args.bin, capacity=f"{args.size * 8}GiB", base=scratch),
            "ibid, write cache": Array(args.bin, capacity=f"{args.size * 8}GiB", base=scratch, args=["--write-cache"]),
        }
        if args.before:
            self.arrays[BEFORE] = Array(args.before, capacity=f"{args.size * 8}GiB", base=scratch)
        self.urls: dict[str, str] = {}

    def __enter__(self):
        self.tgt.start()
        size = int(self.span[:-1]) * GIB
        self.urls["tgt"] = self.tgt.volume(size, 1)
        for name, array in self.arrays.items():
            array.start()
            self.urls[name] = array.volume("bench", f"{self.span}iB", 1)
        for name in self.urls:
            self.refill(name)
        return self

    def __exit__(self, *_):
        for array in self.arrays.values():
            array.__exit__()
        self.tgt.__exit__()

    def refill(self, name: str) -> None:
        """Restores the data that a previous row removed."""
        self.host.verb("fill", self.urls[name], "--seed", "1")

    def on(self, row: Row) -> list[str]:
        names = ["ibid"] if not row.tgt_has else ["tgt", "ibid"]
        earlier = [BEFORE] if BEFORE in self.arrays else []
        return [*names, *earlier, *(["ibid, write cache"] if row.writes else [])]


def bench(args: argparse.Namespace, targets: Targets, row: Row, name: str, seed: int) -> dict:
    options = {"warm": 0.3, "seed": seed} | ({"seq": True} if row.sequential else {})
    return targets.host.bench(targets.urls[name], row.op, size=row.size, qd=row.qd, secs=args.secs, **options)


def profile(args: argparse.Namespace, targets: Targets, rows: list[Row]) -> list[dict]:
    """Where the array's processor time goes, in each row, for this build and the earlier one."""
    names = [name for name in ("ibid", BEFORE) if name in targets.arrays]
    taken = []
    progress = Progress(len(rows) * len(names), " profiles")
    for row in rows:
        for name in names:
            progress.step(f"{row.name}, {name}")
            samples = Samples(targets.arrays[name].process.pid, args.out / "scratch")
            found = bench(args, targets, row, name, seed=args.rounds + 1)
            taken.append({"row": row.name, "target": name, "ops_s": found["ops_s"], "percent": samples.shares()})
    progress.finish()
    return taken


def measure(args: argparse.Namespace, targets: Targets, rows: list[Row]) -> list[dict]:
    taken = []
    progress = Progress(args.rounds * sum(len(targets.on(row)) for row in rows), " measurements")
    for n in range(args.rounds):
        for row in rows:
            for name in targets.on(row):
                progress.step(f"{row.name}, {name}")
                found = bench(args, targets, row, name, seed=n + 1)
                if found["errors"]:
                    raise Failed(f"{row.name} on {name}: {found['errors']} errors, first: {found['first_error']}")
                taken.append({"round": n + 1, "row": row.name, "target": name, **found})
        for name in targets.urls if n + 1 < args.rounds else ():
            targets.refill(name)
    progress.finish()
    return taken


def medians(taken: list[dict], row: Row, name: str) -> dict | None:
    of = [t for t in taken if t["row"] == row.name and t["target"] == name]
    if not of:
        return None
    rates = sorted(t["ops_s"] for t in of)
    return {
        "ops_s": statistics.median(rates),
        "min": rates[0],
        "max": rates[-1],
        "p50_us": statistics.median(t["lat_us"]["p50"] for t in of),
        "p99_us": statistics.median(t["lat_us"]["p99"] for t in of),
        "runs": len(of),
    }


def judge(row: Row, found: dict[str, dict | None]) -> dict:
    """Ratios to tgt, and whether what is promised was reached. What changes data is compared like with like: tgt acknowledges
    before the data are on stable storage, so it is Ibid's write cache that counts beside it; durable is shown as well."""
    like = found["ibid, write cache"] if row.writes else found["ibid"]
    # A loaded tgt may answer nothing in the time of a measurement.
    peer = found["tgt"]["ops_s"] if found["tgt"] else 0
    ratio = like["ops_s"] / peer if peer else None
    durable = found["ibid"]["ops_s"] / peer if row.writes and peer else None
    met = None
    if row.goal and ratio:
        met = ratio >= row.goal
    elif row.floor:
        met = like["ops_s"] >= row.floor
    return {
        "row": row.name,
        "medians": found,
        "ratio": ratio,
        "durable_ratio": durable,
        "goal": row.goal,
        "floor": row.floor,
        "met": met,
    }


def lines(judged: list[dict]) -> str:
    head = ["", "tgt /s", "ibid /s", "p50", "p99", "ratio", "promised", "write cache /s", "ratio"]
    rows = []
    for j in judged:
        m = j["medians"]
        tgt, ours, cached = m["tgt"], m["ibid"], m["ibid, write cache"]
        times = lambda n: f"{count(round(n, 2))}×" if n else ""  # noqa: E731
        promised = f"≥ {count(j['goal'])}×" if j["goal"] else f"≥ {count(j['floor'])} /s" if j["floor"] else ""
        promised += {True: " met", False: " MISSED", None: ""}[j["met"]]
        rows.append(
            [
                j["row"],
                count(tgt["ops_s"]) if tgt else "has none",
                count(ours["ops_s"]),
                seconds(ours["p50_us"] / 1e6),
                seconds(ours["p99_us"] / 1e6),
                times(j["durable_ratio"] or j["ratio"]),
                promised,
                count(cached["ops_s"]) if cached else "",
                times(j["ratio"]) if cached else "",
            ]
        )

    def style(row: int, column: int) -> tuple[str, ...]:
        return {True: ("green",), False: ("red",), None: ()}[judged[row]["met"]] if column == 6 else ()

    return table(head, rows, right={1, 2, 3, 4, 5, 7, 8}, styles=style)


def before_lines(judged: list[dict]) -> str:
    """This build beside the earlier one."""
    rows = []
    for j in judged:
        now, then = j["medians"]["ibid"], j["medians"][BEFORE]
        if now and then:
            p99 = [seconds(m["p99_us"] / 1e6) for m in (then, now)]
            ratio = f"{count(round(now['ops_s'] / then['ops_s'], 2))}×" if then["ops_s"] else ""
            rows.append([j["row"], count(then["ops_s"]), count(now["ops_s"]), ratio, *p99])
    head = ["", "before /s", "now /s", "ratio", "p99 before", "p99 now"]
    return table(head, rows, right={1, 2, 3, 4, 5})


def profile_lines(profiles: list[dict]) -> str:
    """Percent of the array's processor time by kind of work."""
    kinds = [kind for kind in GROUPS if any(p["percent"].get(kind, 0) >= 1 for p in profiles)]
    rows = [
        [
            p["row"],
            "before" if p["target"] == BEFORE else "now",
            *(f"{p['percent'].get(kind, 0):.0f}" for kind in kinds),
        ]
        for p in profiles
    ]
    return table(["percent of the array's processor time", "", *kinds], rows, right=set(range(2, 2 + len(kinds))))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows", nargs="*", metavar="ROW", help="only rows whose name contains one of these words")
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument(
        "--before", type=Path, metavar="DIR", help="folder of the ibid of an earlier build, to compare"
    )
    options.add_argument(
        "--profile", action="store_true", help="show where the array's processor time goes (needs perf)"
    )
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--secs", type=float, default=2.0, help="seconds for each measurement (2)")
    options.add_argument("--size", type=int, default=1, metavar="GIB", help="size of each LUN (1)")
    args = options.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.before = args.before.resolve() if args.before else None
    if args.profile and not has_perf():
        options.error(
            "--profile needs perf; Debian has it in linux-perf, and root or kernel.perf_event_paranoid below 2 may use it"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [r for r in ROWS if not args.rows or any(word in r.name for word in args.rows)]
    machine = Machine()
    try:
        with Targets(args, Host(args.bin)) as targets:
            taken = measure(args, targets, rows)
            profiles = profile(args, targets, rows) if args.profile else []
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    names = ["tgt", "ibid", "ibid, write cache", BEFORE]
    judged = [judge(row, {name: medians(taken, row, name) for name in names}) for row in rows]
    report = {"machine": machine.report(), "rounds": args.rounds, "secs": args.secs, "rows": judged, "runs": taken}
    report |= {"profiles": profiles} if profiles else {}
    (args.out / "end-to-end.json").write_text(json.dumps(report, indent=1) + "\n")
    m = report["machine"]
    foot = (
        f"  medians of {args.rounds} rounds of {args.secs:g} s; {m['cpus']} CPUs, load {m['load'][0]:.1f}, busy {m['busy_percent']} %, "
        f"steal {m['steal_percent']} %; the targets and the initiator share them\n"
        "  tgt acknowledges from its cache; promises about commands that change data compare it with the write cache column"
    )
    parts = [lambda: f"{lines(judged)}\n{foot}"]
    parts += [lambda: before_lines(judged)] if args.before else []
    parts += [lambda: profile_lines(profiles)] if profiles else []
    for part in parts:
        say()
        print(part())
    os.environ["NO_COLOR"] = "1"
    (args.out / "end-to-end.txt").write_text("\n\n".join(part() for part in parts) + "\n")
    missed = [j["row"] for j in judged if j["met"] is False]
    if missed:
        say(f"  missed: {', '.join(missed)}", "red")
    return 0


if __name__ == "__main__":
    sys.exit(main())
