#!/usr/bin/env python3
"""A demonstration: a new array, the four offloads compared with the same work without them, and kill -9.

    scripts/demo.py [--bin DIR] [--size GIB] [--kills N] [--keep]

Runs on loopback and in a scratch folder that is removed at the end. Exit code 0: all results were verified. Output is
plain without a terminal or with NO_COLOR.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import Progress, count, heading, paint, say, seconds, size, table

TEMPLATE, VM, VM_BY_HOST, CRASH = 1, 2, 3, 4
SEED = "2026"
GIB = 1 << 30


@dataclass
class Duel:
    """The same work without and with the offload."""

    work: str
    without: str
    offload: str
    slow: dict
    fast: dict
    rate: bool = False

    @property
    def ratio(self) -> float:
        return self.fast["rate"] / self.slow["rate"] if self.rate else self.slow["secs"] / max(self.fast["secs"], 1e-6)

    def row(self) -> list[str]:
        shown = (lambda r: f"{count(r['rate'])} /s") if self.rate else (lambda r: seconds(r["secs"]))
        return [
            self.work,
            self.without,
            shown(self.slow),
            self.offload,
            shown(self.fast),
            f"{count(round(self.ratio, 1))}×",
        ]


class Demo:
    def __init__(self, bin_dir: Path, scratch: Path, gib: float, kills: int):
        self.host, self.kills = Host(bin_dir), kills
        self.bytes = int(gib * GIB)
        self.text_size = f"{int(gib * 1024)}MiB"
        self.array = Array(bin_dir, capacity="32GiB", base=scratch)
        self.scratch = self.array.dir
        self.urls: dict[int, str] = {}

    def step(self, text: str, work, show=lambda result: seconds(result["secs"])):
        """Prints a step, runs it, and prints its result on the same line."""
        live = sys.stdout.isatty()
        if live:
            print(f"  {text} {paint('…', 'dim')}", end="", flush=True)
        begin = time.monotonic()
        result = work()
        if isinstance(result, dict):
            result.setdefault("secs", time.monotonic() - begin)
        print(end="\r\x1b[K" if live else "")
        self.fact(text, show(result))
        return result

    def fact(self, text: str, value: str) -> None:
        print(f"  {text:54} {paint(value, 'cyan')}", flush=True)

    def prepare(self) -> None:
        heading("A fresh array")
        self.step(
            "ibid serve", lambda: self.array.start(), lambda a: f"{a.iqn} on 127.0.0.1:{a.ports[0]} and :{a.ports[1]}"
        )

        def volumes() -> dict:
            for lun, name, volume_size in (
                (TEMPLATE, "template", "1TiB"),
                (VM, "vm-xcopy", "1TiB"),
                (VM_BY_HOST, "vm-by-host", "1TiB"),
                (CRASH, "crash", "4GiB"),
            ):
                self.urls[lun] = self.array.volume(name, volume_size, lun)
            return {}

        self.step("3 volumes of 1 TiB, one of 4 GiB, thin", volumes)
        self.step(
            f"fill the template with {size(self.bytes)} of noise",
            lambda: self.host.verb("fill", self.urls[TEMPLATE], *self.sized()),
            lambda r: f"{seconds(r['secs'])}, {count(r['mib_s'])} MiB/s, all of it flushed",
        )

    def sized(self) -> list[str]:
        return ["--size", str(self.bytes), "--seed", SEED]

    def duels(self) -> list[Duel]:
        heading("The same work, by the host and by the array")
        verb, urls, gib = self.host.verb, self.urls, size(self.bytes)
        area = ["--size", str(self.bytes)]

        def pair(work: str, without: str, offload: str, slow, fast, rate: bool = False) -> Duel:
            shown = (lambda r: f"{count(r['rate'])} /s") if rate else (lambda r: seconds(r["secs"]))
            return Duel(
                work,
                without,
                offload,
                self.step(f"{work}: {without}", slow, shown),
                self.step(f"{work}: {offload}", fast, shown),
                rate,
            )

        def lock(method: str) -> dict:
            r = verb(
                "lock",
                urls[VM_BY_HOST],
                "--method",
                method,
                "--hosts",
                "16",
                "--secs",
                "3",
                "--off",
                str(self.bytes * 2),
            )
            return {**r, "rate": r["locks_s"]}

        stored, grown = self.array.stored, []

        def counting(work) -> dict:
            before = stored()
            result = work()
            grown.append(stored() - before)
            return result

        deploy = pair(
            f"deploy a VM of {gib}",
            "read and write",
            "XCOPY",
            lambda: counting(lambda: verb("deploy", urls[TEMPLATE], urls[VM_BY_HOST], "--method", "readwrite", *area)),
            lambda: counting(
                lambda: verb("deploy", urls[TEMPLATE], urls[VM], "--method", "xcopy", "--chunk", "16M", *area)
            ),
        )
        self.fact("  … new data that the array stores", f"{size(grown[0])} by the host, {size(grown[1])} by XCOPY")
        for lun in (VM, VM_BY_HOST):
            self.step("  … and read the copy back: equal", lambda lun=lun: verb("verify", urls[lun], *self.sized()))
        second = [*area, "--off", str(self.bytes * 4)]
        zero = pair(
            f"zero a disk of {gib}",
            "write zeros",
            "WRITE SAME",
            lambda: verb("zero", urls[VM_BY_HOST], "--method", "write", *second),
            lambda: verb("zero", urls[VM], "--method", "write-same", *second),
        )
        locks = pair(
            "lock files, 16 hosts at once",
            "RESERVE, RELEASE",
            "COMPARE AND WRITE",
            lambda: lock("reserve"),
            lambda: lock("caw"),
            True,
        )
        back = pair(
            f"give {gib} back",
            "write zeros",
            "UNMAP",
            lambda: verb("reclaim", urls[VM_BY_HOST], "--method", "write-zeros", *area),
            lambda: verb("reclaim", urls[VM], "--method", "unmap", *area),
        )
        self.step("  … and the template is still whole", lambda: verb("verify", urls[TEMPLATE], *self.sized()))
        return [deploy, zero, locks, back]

    def crashes(self) -> dict:
        heading("kill -9 under load, and start again")
        # Checked after the kills besides the load's own blocks: a copy that shares every block with the template.
        self.host.verb("deploy", self.urls[TEMPLATE], self.urls[VM], "--chunk", "16M", "--size", str(self.bytes))
        seen = {"acknowledged": 0, "recovery": []}
        for n in range(self.kills):
            journal = self.scratch / f"journal-{n}"
            with self.host.torture(self.urls[CRASH], journal, self.scratch / "torture.log", n + 1) as load:
                progress = Progress(20, " ticks of load")
                for _ in range(20):
                    time.sleep(0.1)
                    progress.step(f"kill {n + 1} of {self.kills} is near")
                if not load.alive():
                    raise Failed(f"the load ended before the kill:\n{load.tail()}")
                self.array.kill()
                progress.finish()
            begin = time.monotonic()
            self.array.start()
            recovery = time.monotonic() - begin
            found = self.host.torture_verify(self.urls[CRASH], journal)
            seen["acknowledged"] += found["acknowledged"]
            seen["recovery"].append(recovery)
            self.fact(
                f"kill {n + 1}: {count(found['acknowledged'])} acknowledged operations, all there",
                f"serving again after {seconds(recovery)}; {found['open']} in flight, whole or not at all",
            )
        for lun, name in ((TEMPLATE, "template"), (VM, "copy made before the kills")):
            self.step(
                f"the {name}, every byte", lambda lun=lun: self.host.verb("verify", self.urls[lun], *self.sized())
            )
        return seen


def summary(duels: list[Duel], crash: dict, demo: Demo) -> int:
    head = ["work", "by the host", "", "by the array", "", "ratio"]
    slower = [d for d in duels if d.ratio <= 1]

    def style(row: int, column: int) -> tuple[str, ...]:
        return ("red" if duels[row] in slower else "green", "bold") if column == 5 else ()

    say()
    print(table(head, [d.row() for d in duels], right={2, 4, 5}, styles=style))
    say()
    say(
        f"  {demo.kills} kills with SIGKILL under load: {count(crash['acknowledged'])} acknowledged operations, 0 lost; "
        f"serving again after {seconds(max(crash['recovery']))} at most",
        "green",
        "bold",
    )
    say(f"  stopped by SIGTERM with exit {demo.array.stop()}", "dim")
    for duel in slower:
        say(f"  {duel.work}: the offload was not faster on this machine", "red")
    return 1 if slower else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--size", type=float, default=1.0, metavar="GIB", help="size of the virtual machine (1)")
    options.add_argument("--kills", type=int, default=3, help="number of kills (3)")
    options.add_argument("--keep", action="store_true", help="keep the array's data")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    args = options.parse_args()
    begin = time.monotonic()
    scratch = args.bin.resolve().parent / "demo"
    say(f"Ibid: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, data in {scratch}", "dim")
    demo = None
    try:
        demo = Demo(args.bin.resolve(), scratch, args.size, args.kills)
        demo.prepare()
        duels = demo.duels()
        crash = demo.crashes()
        code = summary(duels, crash, demo)
        if args.json:
            rows = [{"work": d.work, "without": d.slow, "with": d.fast, "ratio": round(d.ratio, 2)} for d in duels]
            args.json.write_text(json.dumps({"offloads": rows, "crash": crash}, indent=1) + "\n")
        say(f"  {seconds(time.monotonic() - begin)} in all", "dim")
        return code
    except Failed as e:
        say()
        say(f"  the demo failed: {e}", "red")
        if demo and demo.array.process:
            say(f"  the array's last words ({demo.array.log}):\n{demo.array.process.tail()}", "dim")
        return 1
    except KeyboardInterrupt:
        say("\n  stopped", "yellow")
        return 130
    finally:
        if demo:
            demo.array.kill()
            if not args.keep:
                shutil.rmtree(demo.array.dir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
