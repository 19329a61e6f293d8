"""Hosts on one datastore, with paths to both arrays of a pod, while one array after the other is killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .array import Array
from .pair import POD, Pair
from .procs import Failed, Process, run

"""Mean time between crashes of hosts, in milliseconds."""
CRASHES = 4000
"""Seconds for the last check: locks of dead hosts take a lease time and recovery."""
CHECK = 300


@dataclass
class Kill:
    """A kill of an array: seconds until the other one served alone, until its own start, and from there until both
    served again. `alone` is none if the array was back before."""

    array: str
    at: float
    alone: float | None
    down: float
    sync: float


class PairTorture:
    """`ibid-host datastore-torture` on the volume of a pod, which both arrays serve."""

    def __init__(self, pair: Pair, program: Path, hosts: int, secs: int, seed: int = 1):
        self.pair, self.secs, self.chance = pair, secs, random.Random(seed)
        self.log = pair.dir / "torture.log"
        urls = [word for array in pair.arrays for word in ("--url", pair.url(array))]
        options = ["--hosts", str(hosts), "--seconds", str(secs), "--crash-interval", str(CRASHES)]
        self.command = [str(program), "datastore-torture", *urls, *options, "--seed", str(seed), "--json"]
        self.hosts: Process | None = None
        self.kills: list[Kill] = []

    def run(self, every: float, note: Callable[[Kill], None] = lambda _: None) -> dict:
        """Runs the hosts, and kills the arrays in turn, one each `every` seconds if both are in step. Returns what the
        hosts report."""
        begin = time.monotonic()
        self.hosts = Process(self.command, self.log)
        due, turn = begin + every, 0
        # The last kill leaves time for the array's return before the hosts stop.
        while due < begin + self.secs - every / 4:
            self.sleep(due)
            self.kills.append(self.kill(self.pair.arrays[turn % 2], begin))
            note(self.kills[-1])
            turn += 1
            due = max(due + every, time.monotonic())
        return self.result(begin + self.secs + CHECK)

    def sleep(self, until: float) -> None:
        while time.monotonic() < until:
            self.check_alive()
            time.sleep(min(0.5, max(0.0, until - time.monotonic())))

    def check_alive(self) -> None:
        if not self.hosts.alive():
            raise Failed(f"the hosts ended with {self.hosts.child.returncode}:\n{self.hosts.tail()}")

    def kill(self, array: Array, begin: float) -> Kill:
        """Kills an array and starts it again after a random time, also before the other one has noticed."""
        pair, other = self.pair, self.pair.other(array)
        at = time.monotonic()
        array.kill()
        until, alone = at + self.chance.choice([self.chance.uniform(0.1, 2), self.chance.uniform(2, 6)]), None
        while time.monotonic() < until:
            self.check_alive()
            if alone is None and (pair.state(other) or {}).get("state") == "solo":
                alone = time.monotonic() - at
            time.sleep(0.1)
        array.start()
        started = time.monotonic()
        sync = pair.wait_sync(limit=90)
        return Kill(pair.name(array), at - begin, alone, started - at, sync)

    def result(self, limit: float) -> dict:
        while self.hosts.alive():
            if time.monotonic() > limit:
                raise Failed(f"the hosts do not end:\n{self.hosts.tail()}")
            time.sleep(0.2)
        if (code := self.hosts.child.returncode) != 0:
            raise Failed(f"the hosts ended with {code}:\n{self.hosts.tail()}")
        return json.loads(self.log.read_text().strip().splitlines()[-1])

    def close(self) -> None:
        if self.hosts:
            self.hosts.kill()


def compare(pair: Pair) -> dict:
    """Compares the content of both arrays, byte by byte through their iSCSI ports and by `ibid pod verify`, then stops
    and checks both. Returns the report of the verification."""
    pair.wait_sync(limit=90)
    run(["qemu-img", "compare", "-f", "raw", "-F", "raw", *(pair.url(a) for a in pair.arrays)], limit=900)
    found = pair.sequencer().admin("pod", "verify", POD)
    if found["state"] != "complete" or found["different_bytes"] or found.get("unreadable_bytes"):
        raise Failed(f"verification: {found}")
    for array in pair.arrays:
        if (code := array.stop()) != 0:
            raise Failed(f"exit {code} of {pair.name(array)} after SIGTERM")
        array.fsck()
    return found
