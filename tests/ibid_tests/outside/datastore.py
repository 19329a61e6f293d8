"""One datastore, many hosts, real iSCSI: hosts compete for its files and crash at random; nothing is lost."""

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
            # After the end of the load, locks of dead hosts take a lease time and recovery.
            said = host.verb("datastore-torture", *args, limit=secs + 240)
            assert said["operations"] > 0, "no host got a lock: nothing was tested"
            assert said["crashes"] > 0, "no host crashed: nothing was tested"
            return f"{hosts} hosts, {count(said['operations'])} lock operations, {said['crashes']} crashes, fsck clean"

        yield from checks(
            SUITE,
            [
                ("locks by ATS", lambda: torture(array.volume("ats", "64GiB", 1), 4000)),
                ("locks by reservation", lambda: torture(array.volume("reserve", "64GiB", 2), 8000, "--no-ats")),
            ],
        )
