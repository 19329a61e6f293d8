"""SIGKILL under a verifying load, in cycles: no acknowledged operation is lost, and `ibid fsck` finds no damage.

The load (`ibid-host torture`) writes, zeroes, unmaps, copies and compares-and-writes, and keeps a journal of requests and
answers. After each kill the array is restarted on the same data, and every block is compared with what the journal allows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import Progress, count, seconds
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "crash"
CYCLES, FULL_CYCLES = 20, 200
STILL = ["--size", "128MiB", "--seed", "3"]


def kill(array: Array, host: Host, url: str, scratch: Path, seed: int, chance: random.Random) -> tuple[float, int]:
    """Kills the array under load, and verifies it. Returns the seconds until it serves again, and the acknowledged operations."""
    journal = scratch / f"journal-{seed}"
    journal.unlink(missing_ok=True)
    with host.torture(url, journal, scratch / "torture.log", seed) as load:
        # The kill comes at a random time, from start-up to well into destaging and checkpoints.
        time.sleep(chance.uniform(0.2, 2.5))
        if not load.alive():
            raise Failed(f"the load ended before the kill:\n{load.tail()}")
        array.kill()
    array.fsck()
    started = time.monotonic()
    array.start()
    recovery = time.monotonic() - started
    try:
        found = host.torture_verify(url, journal)["acknowledged"]
    except Failed as e:
        raise Failed(f"{e}; journal {journal}") from e
    journal.unlink()
    return recovery, found


def run(lab: Lab) -> Iterator[Result]:
    host, chance = Host(lab.bin), random.Random(1)
    cycles = FULL_CYCLES if lab.full else CYCLES
    scratch = lab.scratch("crash")
    recoveries, acknowledged, idle, begin = [], 0, 0, time.monotonic()
    progress = Progress(cycles, " kills")
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        url = array.volume("crash", "2GiB", 1)
        # An idle volume beside the load, and a copy of it: both must survive all kills.
        still, copy = array.volume("still", "1GiB", 2), array.volume("copy", "1GiB", 3)
        host.verb("fill", still, *STILL)
        host.verb("deploy", still, copy, "--size", STILL[1])
        for n in range(cycles):
            try:
                recovery, found = kill(array, host, url, scratch, n + 1, chance)
            except Failed as e:
                progress.finish()
                yield Result(SUITE, f"kill {n + 1} (seed {n + 1})", "fail", time.monotonic() - begin, f"{e}")
                return
            recoveries.append(recovery)
            acknowledged, idle = acknowledged + found, idle + (found == 0)
            progress.step()
        progress.finish()
        yield from checks(
            SUITE,
            [
                (f"the {name} after all kills", lambda u=u: host.verb("verify", u, *STILL) and "every byte")
                for name, u in (("idle volume", still), ("copy of the idle volume", copy))
            ],
        )
    # A kill may precede the first answer, but not most of them.
    if idle > cycles // 4:
        said = f"before {idle} of {cycles} kills nothing was acknowledged: they tested nothing"
        yield Result(SUITE, f"{cycles} kills", "error", time.monotonic() - begin, said)
        return
    detail = f"{count(acknowledged)} acknowledged operations, 0 lost; fsck clean each time; serving again after {seconds(max(recoveries))} at most"
    yield Result(SUITE, f"{cycles} kills", "pass", time.monotonic() - begin, detail, {"recovery": recoveries})
