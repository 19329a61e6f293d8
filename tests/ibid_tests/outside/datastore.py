"""One datastore, many hosts, real iSCSI: hosts compete for its files and crash at random; nothing is lost.

Also through both arrays of a pod, of which each is killed while the hosts run."""

from __future__ import annotations

from collections.abc import Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.pair import Pair
from ibid_tests.kit.pair_torture import PairTorture, compare
from ibid_tests.kit.term import count
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "datastore"
HOSTS, SECONDS = 6, 20
FULL_HOSTS, FULL_SECONDS = 16, 300
"""Seconds between kills of the arrays of a pod."""
EVERY, FULL_EVERY = 8, 20


def run(lab: Lab) -> Iterator[Result]:
    host = Host(lab.bin)
    hosts, secs = (FULL_HOSTS, FULL_SECONDS) if lab.full else (HOSTS, SECONDS)
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()

        def torture(url: str, crash_interval: int, *more: str) -> str:
            args = [
                "--url",
                url,
                "--hosts",
                str(hosts),
                "--seconds",
                str(secs),
                "--crash-interval",
                str(crash_interval),
                *more,
            ]
            # After the end of the load, locks of dead hosts take a lease time and recovery.
            said = host.verb("datastore-torture", *args, limit=secs + 240)
            assert said["operations"] > 0, "no host got a lock: nothing was tested"
            assert said["crashes"] > 0, "no host crashed: nothing was tested"
            return f"{hosts} hosts, {count(said['operations'])} lock operations, {said['crashes']} crashes, fsck clean"

        def through_two_arrays() -> str:
            with Pair(lab.bin, lab.scratch("arrays")) as pair:
                pair.start().create("16GiB")
                pair.stretch()
                torture = PairTorture(pair, lab.bin / "ibid-host", hosts, secs)
                try:
                    said = torture.run(FULL_EVERY if lab.full else EVERY)
                finally:
                    torture.close()
                assert said["operations"] > 0, "no host got a lock: nothing was tested"
                killed = {kill.array for kill in torture.kills}
                assert killed == {"alpha", "beta"}, f"killed: {killed}"
                compare(pair)
            kills = f"{len(torture.kills)} kills of arrays, {said['crashes']} of hosts"
            return f"{hosts} hosts, {count(said['operations'])} lock operations, {kills}; both arrays equal, fsck clean"

        yield from checks(
            SUITE,
            [
                ("locks by ATS through two arrays", through_two_arrays),
                ("locks by ATS", lambda: torture(array.volume("ats", "64GiB", 1), 4000)),
                ("locks by reservation", lambda: torture(array.volume("reserve", "64GiB", 2), 8000, "--no-ats")),
            ],
        )
