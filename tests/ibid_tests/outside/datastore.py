"""One datastore, many hosts, real iSCSI: they fight for its files and die now and then, and nothing is lost.

`ibid-host datastore-torture` runs the hosts, each with a session of its own, and judges: no file ever had two owners, what was
acknowledged is there, every lock can be had in the end, fsck is clean.
"""

from __future__ import annotations

from collections.abc import Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.term import count
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "datastore"
HOSTS, SECONDS = 6, 20
FULL_HOSTS, FULL_SECONDS = 16, 300


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
            # Dead hosts' locks are waited for when the time is over: a lease and what comes after it.
            said = host.verb("datastore-torture", *args, limit=secs + 240)
            assert said["operations"] > 0, "no host got a lock: nothing was tested"
            assert said["crashes"] > 0, "no host died: nothing was tested"
            return f"{hosts} hosts, {count(said['operations'])} lock operations, {said['crashes']} crashes, fsck clean"

        yield from checks(
            SUITE,
            [
                ("locks by ATS", lambda: torture(array.volume("ats", "64GiB", 1), 4000)),
                ("locks by reservation", lambda: torture(array.volume("reserve", "64GiB", 2), 8000, "--no-ats")),
            ],
        )
