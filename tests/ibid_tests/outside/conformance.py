#!/usr/bin/env python3
"""libiscsi's iscsi-test-cu, test by test, with exact counts.

Each test runs in its own process, so that a crash or hang affects only that test, and is counted separately. CUnit
counts a test that skipped itself as passed; here it is a skip, and a skip that docs/outside-tests.md does not explain
fails the run. Run directly, it tests any target:

    tests/ibid_tests/outside/conformance.py URL [SECOND-PATH-URL]      both URLs name one LUN, whose data is lost
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.kit.term import Progress
from ibid_tests.outside.result import Lab, Result

SUITE = "conformance"
TOOL = "iscsi-test-cu"
EXPLAINED = Path(__file__).resolve().parents[3] / "docs/outside-tests.md"
LIMIT = 60.0
LUN_SIZE = "1GiB"
# Version 1.19 has 230 tests. Far fewer mean that the list was parsed wrongly.
FEWEST = 200
# These reset the whole target, which affects all sessions: they run alone.
ALONE = re.compile(r"Target(Warm|Cold)Reset")
# This one clears 256 blocks and compares 257 with zeros: it gets an unwritten LUN.
FRESH = "MultipathIO.CompareAndWrite"


def tests() -> list[str]:
    """All tests of the tool, as `Suite.Test`."""
    listed = run_command([TOOL, "--list", "iscsi://127.0.0.1/x/0"], check=False).stdout
    found = list(dict.fromkeys(re.findall(r"^ALL\.([^.\s]+\.\S+)$", listed, re.M)))
    if len(found) < FEWEST:
        raise Failed(f"{TOOL} lists {len(found)} tests; there are at least {FEWEST}: {listed[-300:]!r}")
    return found


def judge(output: str, code: int | None, name: str) -> tuple[str, str]:
    """The status of one test and the reason, from the tool's output (code None: timeout)."""
    body = output[output.find("Test: ") :] if "Test: " in output else output
    # CUnit's table decides: `[FAILED]` is also printed for expected failures, and by the tool's own clean-up
    # (PERSISTENT RESERVE IN that meets a unit attention).
    reasons = re.findall(r"^\s+\d+\. (.*)$", body, re.M) + re.findall(r"\[FAILED\](.*)", body)
    skipped = [s.strip() for s in re.findall(r"\[SKIPPED\](.*)", body)]
    if "ReportSupportedOpcodes" not in name:
        # Every test first probes the opcodes; a failed probe is not a skip.
        skipped = [s for s in skipped if not s.startswith("REPORT_SUPPORTED_OPCODES is not")]
    last = output.strip().splitlines()[-1][:200] if output.strip() else "no output"
    # `tests  total ran passed failed inactive` of CUnit's summary table.
    ran = re.search(r"^\s*tests\s+\d+\s+(\d+)\s+\d+\s+(\d+)", output, re.M)
    if code is None:
        return "timeout", last
    if code < 0:
        return "crash", f"signal {-code}: {last}"
    if not ran or int(ran[1]) == 0:
        return "error", last
    if int(ran[2]) > 0:
        return "fail", (reasons or ["an assertion failed"])[0].strip()
    return ("skip", skipped[0]) if skipped else ("pass", "")


def run_one(name: str, urls: list[str]) -> Result:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        child = subprocess.Popen(
            [TOOL, "--dataloss", "--allow-sanitize", "--verbose", f"--test=ALL.{name}", *urls],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=scratch,
        )
        try:
            output, _ = child.communicate(timeout=LIMIT)
            code: int | None = child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            code = None
    text = output.decode("utf8", "replace")
    status, detail = judge(text, code, name)
    more = {} if status in ("pass", "skip") else {"output": text[-4000:]}
    return Result(SUITE, name, status, time.monotonic() - begin, detail, more)


def run_all(names: list[str], luns: list[list[str]], fresh: list[str] | None = None) -> list[Result]:
    """Runs the tests, one per LUN at a time (a LUN is the list of its path URLs), and one test on `fresh`."""
    progress, lock, results = Progress(len(names)), threading.Lock(), []
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        if not ALONE.search(name) and not (fresh and name == FRESH):
            waiting.put(name)

    def finish(result: Result) -> None:
        with lock:
            results.append(result)
            progress.step(result.name)

    def work(urls: list[str]) -> None:
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                return
            finish(run_one(name, urls))

    workers = [threading.Thread(target=work, args=(urls,)) for urls in luns]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for name in filter(ALONE.search, names):
        finish(run_one(name, luns[0]))
    if fresh and FRESH in names:
        finish(run_one(FRESH, fresh))
    progress.finish()
    order = {name: i for i, name in enumerate(names)}
    return sorted(results, key=lambda r: order[r.name])


def explained(heading: str) -> dict[str, str]:
    """A table of docs/outside-tests.md, `| Suite.Test | reason |`, under a heading."""
    section = EXPLAINED.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+\.[\w-]+)` \| (.+?) \|$", section, re.M))


def compare_with_lists(results: list[Result]) -> None:
    """Fails unexplained skips and obsolete explanations. A defective test fails on every target: it is counted
    separately, and its failure must be the documented one; the tool may crash after it."""
    skips, wrong = explained("Skips of iscsi-test-cu"), explained("Defective tests of iscsi-test-cu")
    for r in results:
        if r.status == "skip" and r.name not in skips:
            r.status, r.detail = "fail", f"skipped without an explanation in {EXPLAINED.name}: {r.detail}"
        elif r.status in ("fail", "crash") and r.name in wrong and assertion(r.detail) in wrong[r.name]:
            r.status, r.detail, r.more = "wrong", f"the test itself: {r.detail}", {}
        elif r.status == "pass" and r.name in skips | wrong:
            r.status, r.detail = "fail", f"passes now: remove it from {EXPLAINED.name}"


def obsolete(names: list[str]) -> list[str]:
    """Entries of the page's tables without a test of that name."""
    return sorted(
        (set(explained("Skips of iscsi-test-cu")) | set(explained("Defective tests of iscsi-test-cu"))) - set(names)
    )


def assertion(detail: str) -> str:
    """`file.c:123` of a failed assertion."""
    found = re.search(r"\w+\.c:\d+", detail)
    return found[0] if found else "no assertion"


def run(lab: Lab) -> Iterator[Result]:
    """The suite for `tests/run.py`: a fresh array, one LUN for each worker, two portals."""
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        workers = min(3, (os.cpu_count() or 1) + 1)
        luns = []
        for n in range(workers):
            array.volume(f"conformance-{n}", LUN_SIZE, n + 1)
            luns.append([array.url(n + 1, 0), array.url(n + 1, 1)])
        array.volume("conformance-fresh", LUN_SIZE, workers + 1)
        fresh = [array.url(workers + 1, 0), array.url(workers + 1, 1)]
        names = tests()
        if unknown := obsolete(names):
            raise Failed(f"{EXPLAINED.name} explains what {TOOL} does not have: {', '.join(unknown)}")
        results = run_all(names, luns, fresh)
        results_file(lab.out / "conformance.json", results)
        compare_with_lists(results)
        yield from results
        assert array.process.alive(), "the array did not survive the suite"


def results_file(path: Path, results: list[Result]) -> None:
    rows = [
        {"test": r.name, "status": r.status, "secs": round(r.secs, 3), "detail": r.detail, **r.more} for r in results
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"counts": Counter(r.status for r in results), "tests": rows}, indent=1) + "\n")


def main() -> int:
    urls = sys.argv[1:]
    if len(urls) not in (1, 2) or not urls[0].startswith("iscsi://"):
        print(__doc__, file=sys.stderr)
        return 2
    results = run_all(tests(), [urls])
    for r in results:
        print(f"{r.status:8} {r.secs:7.2f} s  {r.name:50} {r.detail[:100]}".rstrip())
    counts = Counter(r.status for r in results)
    print(", ".join(f"{n} {status}" for status, n in counts.most_common()))
    return 0 if set(counts) <= {"pass", "skip"} else 1


if __name__ == "__main__":
    sys.exit(main())
