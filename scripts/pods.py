#!/usr/bin/env python3
"""A demonstration: two arrays serve one volume at the same time, and one of them is killed while hosts use both.

    scripts/pods.py [--bin DIR] [--size MIB] [--keep]

Runs on loopback and in a scratch folder that is removed at the end. With --keep, the arrays and the mediator go on running,
and the last lines are commands to try. Exit code 0: every block was right. Output is plain without a terminal or with
NO_COLOR.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.ats import Ats
from ibid_tests.kit.host import Host
from ibid_tests.kit.load import Load
from ibid_tests.kit.pair import LUN, POD, VOLUME, Pair
from ibid_tests.kit.procs import Failed, run
from ibid_tests.kit.term import count, heading, paint, say, seconds

MIB = 1 << 20
"""The volume: the load and the lock are below this address, the content that the demonstration compares is above."""
CONTENT = 512 * MIB
ATS_LBA = 500 * MIB // 512
ALONE = 3.0


class Demo:
    def __init__(self, bin_dir: Path, scratch: Path, mib: int):
        self.bin, self.host, self.mib = bin_dir, Host(bin_dir), mib
        self.pair = Pair(bin_dir, scratch, capacity="8GiB")
        self.load, self.ats = Load(self.pair.names, LUN), Ats(self.pair.names, LUN, ATS_LBA)
        self.pauses: list[float] = []

    def step(self, text: str, work, show=seconds):
        """Prints a step, runs it, and prints its result (without one, its time) on the same line."""
        live = sys.stdout.isatty()
        if live:
            print(f"  {text} {paint('…', 'dim')}", end="", flush=True)
        begin = time.monotonic()
        result = work()
        shown = time.monotonic() - begin if result is None else result
        print(end="\r\x1b[K" if live else "")
        self.fact(text, shown if isinstance(shown, str) else show(shown))
        return result

    def fact(self, text: str, value: str) -> None:
        print(f"  {text:58} {paint(value, 'cyan')}", flush=True)

    def command(self, array: Array, *words: str) -> None:
        """Runs a command of `ibid` for an administrator and prints both."""
        say(f"  {self.pair.name(array)}$ ibid {' '.join(words)}", "bold")
        for line in run([self.pair.ibid, *words, "--data", str(array.data)]).stdout.splitlines():
            say(f"    {line}", "dim")

    def area(self, seed: int) -> list[str]:
        return ["--off", str(CONTENT), "--size", str(self.mib * MIB), "--seed", str(seed)]

    def fill(self, array: Array, seed: int) -> None:
        self.step(
            f"write {self.mib} MiB through {self.pair.name(array)}",
            lambda: self.host.verb("fill", self.pair.url(array), *self.area(seed))["mib_s"],
            lambda rate: f"{count(rate)} MiB/s",
        )

    def verify(self, array: Array, seed: int) -> None:
        self.step(
            f"read them through {self.pair.name(array)}",
            lambda: self.host.verb("verify", self.pair.url(array), *self.area(seed)) and "equal",
        )

    def prepare(self) -> None:
        pair = self.pair
        heading("Two arrays, and a mediator on a third machine (here: three processes)")
        self.step("start both, allow them at the mediator, connect them", lambda: pair.start() and None)
        for array in pair.arrays:
            self.fact(f"  {pair.name(array)}", f"{array.iqn} on 127.0.0.1:{array.ports[0]}")
        self.fact("  mediator", pair.mediator_address)
        heading("A pod with a volume, brought to the second array")
        self.step(f"pod {POD} with volume {VOLUME} on alpha", lambda: pair.create())
        self.fill(pair.alpha, 1)
        self.step("ibid pod stretch: until both serve it", lambda: pair.stretch())
        self.verify(pair.beta, 1)
        self.fill(pair.beta, 2)
        self.verify(pair.alpha, 2)
        self.command(pair.alpha, "pod", "list", "--replication")

    def use(self) -> None:
        heading("Hosts use both arrays: every read is compared with what a host was told before")
        writes, reads, begin = self.load.writes, self.load.reads, time.monotonic()
        time.sleep(ALONE)
        secs = time.monotonic() - begin
        self.load.check()
        rates = f"{count(round((self.load.writes - writes) / secs))} writes/s, {count(round((self.load.reads - reads) / secs))} reads/s"
        self.fact("2 hosts at each array, on the same blocks", rates)
        steps = ", ".join(f"{count(n)} through {name}" for name, n in sorted(self.ats.done.items()))
        self.fact("1 host at each counts one number with COMPARE AND WRITE", steps)

    def alone(self, array: Array, begin: float, seed: int) -> None:
        """Shows how an array goes on without the other one."""
        pair = self.pair
        pair.wait_state(array, "solo")
        self.load.wait_answered(array)
        self.pauses.append(self.load.pause(array, begin))
        self.fact(f"  … pause of the hosts at {pair.name(array)}", seconds(self.pauses[-1]))
        self.fill(array, seed)
        self.command(array, "pod", "list", "--replication")
        self.command(array, "pod", "why", POD)

    def together(self, came: Array, seed: int) -> None:
        pair = self.pair
        self.step("  … both arrays serve again, without a command", lambda: pair.wait_sync())
        self.load.wait_answered(*pair.arrays)
        self.load.check()
        self.verify(came, seed)
        self.command(came, "pod", "list", "--replication")

    def kill(self) -> None:
        pair = self.pair
        gone = pair.sequencer()
        stays = pair.other(gone)
        heading(f"kill -9 of {pair.name(gone)}, which orders the changes of both")
        begin = time.monotonic()
        gone.kill()
        self.fact(f"kill -9 {gone.process.pid}", f"{pair.name(gone)} is gone")
        self.alone(stays, begin, 3)
        heading(f"{pair.name(gone)} is started again")
        self.step("ibid serve", lambda: gone.start() and None)
        self.together(gone, 3)

    def cut(self) -> None:
        pair = self.pair
        heading("The link between the arrays is cut, and both run")
        begin = time.monotonic()
        self.step("ibid array distance beta --cut both", lambda: pair.cut())
        self.alone(pair.alpha, begin, 4)
        self.command(pair.beta, "pod", "why", POD)
        heading("The link is back")
        self.step("ibid array distance beta --cut none", lambda: pair.cut("none"))
        self.together(pair.beta, 4)

    def summary(self) -> None:
        heading("Every block of the load, through both arrays")
        for array in self.pair.arrays:
            self.step(
                f"through {self.pair.name(array)}",
                lambda array=array: f"{self.load.verify(array)} blocks, equal; the number: {self.ats.check(array)}",
            )
        say()
        load = self.load
        say(
            f"  {count(load.writes)} writes and {count(load.reads)} reads through both arrays: 0 lost, 0 old; "
            f"pauses of {' and '.join(seconds(pause) for pause in self.pauses)}",
            "green",
            "bold",
        )

    def by_hand(self) -> None:
        """Prints commands for the arrays that go on running."""
        pair = self.pair
        heading("To try by hand (the arrays and the mediator run)")
        alpha, beta = pair.arrays
        path, a, b = (shlex.quote(str(path)) for path in (self.bin, alpha.data, beta.data))
        lines = [
            (f"export PATH={path}:$PATH A={a} B={b}", ""),
            ("ibid pod list --replication --data $A", ""),
            (f"ibid pod why {POD} --data $B", ""),
            (f"ibid-host fill {pair.url(alpha)} --size 64M --seed 5", "writes through alpha"),
            (f"ibid-host verify {pair.url(beta)} --size 64M --seed 5", "reads through beta"),
            ("ibid array distance beta --rtt 4ms --data $A", "or --cut both, then --off"),
            (f"ibid pod resign {POD} --data $A", "beta orders the changes then"),
            (f"ibid pod prefer {POD} beta --data $A", "beta continues if they lose each other"),
            (f"kill -9 {alpha.process.pid}", "alpha; to start it again:"),
            (f"{shlex.join(alpha.process.child.args)} >> {shlex.quote(str(alpha.log))} 2>&1 &", ""),
            (f"kill -9 {pair.mediator.pid}", "the mediator; to start it again:"),
            (f"{shlex.join(pair.mediator.child.args)} >> {shlex.quote(str(pair.mediator.log))} 2>&1 &", ""),
            (f"kill {alpha.process.pid} {beta.process.pid} {pair.mediator.pid}", "the end of all; then:"),
            (f"rm -r {shlex.quote(str(pair.dir))}", ""),
        ]
        for line, why in lines:
            print(f"  {line}{paint(f'   # {why}', 'dim') if why else ''}")

    def run(self) -> None:
        self.prepare()
        with self.load, self.ats:
            self.use()
            self.kill()
            self.cut()
        self.summary()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--size", type=int, default=128, metavar="MIB", help="size of the content (128, at most 512)")
    options.add_argument("--keep", action="store_true", help="leave the arrays running, and print commands to try")
    args = options.parse_args()
    begin, keep = time.monotonic(), False
    scratch = args.bin.resolve().parent / "pods-demo"
    say(f"Ibid: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, data in {scratch}", "dim")
    demo = Demo(args.bin.resolve(), scratch, min(args.size, 512))
    try:
        demo.run()
        say(f"  {seconds(time.monotonic() - begin)} in all", "dim")
        if args.keep:
            demo.by_hand()
            keep = True
        else:
            say("  scripts/pods.py --keep leaves the arrays running, and prints commands to try", "dim")
        return 0
    except Failed as e:
        say()
        say(f"  the demonstration failed: {e}", "red")
        for array in demo.pair.arrays:
            if array.process:
                say(f"  the last words of {demo.pair.name(array)}:\n{array.process.tail()}", "dim")
        return 1
    except KeyboardInterrupt:
        say("\n  stopped", "yellow")
        return 130
    finally:
        demo.load.ending.set()
        demo.ats.ending.set()
        if not keep:
            demo.pair.close()


if __name__ == "__main__":
    sys.exit(main())
