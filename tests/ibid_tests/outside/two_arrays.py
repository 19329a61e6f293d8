"""Stretched volumes: libiscsi's suite by either array and by both.

The expected results of each libiscsi test are those of the suite `conformance`, and the table of docs/outside-tests.md
for stretched volumes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from ibid_tests.kit.pair import POD, Pair, wait
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.outside import conformance
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "two-arrays"
WORKERS = 3
BUSY = "failed with status 8 /"
SKIPS = "Skips on stretched volumes"


def run(lab: Lab) -> Iterator[Result]:
    with Pair(lab.bin, lab.scratch("arrays"), capacity="16GiB", portals=2) as pair:
        pair.start().create()
        pair.stretch()
        yield from libiscsi(pair)
        yield from checks(
            SUITE,
            [
                ("both sides are equal", lambda: equal(pair, range(1, WORKERS + 1))),
                ("fsck", lambda: fsck(pair)),
            ],
        )


def stretched_volume(pair: Pair, name: str, size: str, lun: int) -> None:
    """Creates a volume of the pod and connects it at both arrays."""
    one = pair.sequencer()
    other = pair.other(one)
    one.admin("volume", "create", name, "--size", size)
    wait("at the other array", lambda: name in {found["name"] for found in other.admin("volume", "list")})
    for array in pair.arrays:
        array.connect(name, lun)


def libiscsi(pair: Pair) -> Iterator[Result]:
    """The whole suite three times: through two portals of either array, and with the second path at the other array."""
    names, (alpha, beta) = conformance.tests(), pair.arrays
    for lun in range(2, WORKERS + 1):
        stretched_volume(pair, f"{POD}::libiscsi-{lun}", conformance.LUN_SIZE, lun)
    ways = {
        "alpha": ((alpha, 0), (alpha, 1)),
        "beta": ((beta, 0), (beta, 1)),
        "both": ((alpha, 0), (beta, 0)),
    }
    for number, (way, paths) in enumerate(ways.items(), WORKERS + 1):
        stretched_volume(pair, f"{POD}::fresh-{way}", conformance.LUN_SIZE, number)
        begin = time.monotonic()
        luns = [[array.url(lun, portal) for array, portal in paths] for lun in range(1, WORKERS + 1)]
        if way == "both":
            # Half of the tests that use one path go through the other array.
            luns[1].reverse()
        results = conformance.run_all(names, luns, [array.url(number, portal) for array, portal in paths])
        # Changes are forwarded unless all paths lead to the array that orders them.
        results = [repeated(result, luns[0]) for result in results]
        judge(results)
        for r in results:
            r.suite, r.name = SUITE, f"{r.name}, {way}"
        yield from results
        counts = ", ".join(f"{n} {status}" for status, n in Counter(r.status for r in results).most_common())
        print(f"  libiscsi through {way}: {counts}", flush=True)
        yield Result(SUITE, f"libiscsi, {way}", "pass", time.monotonic() - begin, counts)
        for array in pair.arrays:
            assert array.process.alive(), f"{pair.name(array)} did not survive the suite"


def repeated(result: Result, urls: list[str]) -> Result:
    """Runs a test again, once, that met BUSY. An array under load gives it to a change that reaches the other array late,
    and a host repeats the command; libiscsi's tests do not."""
    if result.status != "fail" or BUSY not in result.more.get("output", ""):
        return result
    print(f"  {result.name} met BUSY, and is run again", flush=True)
    return conformance.run_one(result.name, urls)


def judge(results: list[Result]) -> None:
    """Compares with the table. A test that must be skipped on a stretched volume, and is not, fails as well."""
    skips = conformance.explained(SKIPS)
    if unknown := set(skips) - {r.name for r in results}:
        raise Failed(f"{conformance.EXPLAINED.name} explains what does not exist: {', '.join(sorted(unknown))}")
    others = []
    for r in results:
        if r.name in skips:
            if r.status != "skip":
                r.status, r.detail = "fail", f"not skipped ({r.status}); remove it from '{SKIPS}': {r.detail}"
        else:
            others.append(r)
    conformance.compare_with_lists(others)


def equal(pair: Pair, luns: range) -> str:
    pair.wait_sync()
    for lun in luns:
        urls = [array.url(lun) for array in pair.arrays]
        run_command(["qemu-img", "compare", "-f", "raw", "-F", "raw", *urls], limit=300)
    return f"{len(luns)} volumes, compared byte by byte"


def fsck(pair: Pair) -> str:
    for array in pair.arrays:
        code = array.stop()
        assert code == 0, f"exit {code} of {pair.name(array)} after SIGTERM"
        array.fsck()
    return "both clean"
