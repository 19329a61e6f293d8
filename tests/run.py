#!/usr/bin/env python3
"""Tests of a running array from outside: third-party clients, hostile clients, kill -9.

    tests/run.py [--bin DIR] [--out DIR] [--full] [SUITE...]

  conformance   libiscsi's iscsi-test-cu, test by test
  qemu          qemu-img and qemu-io over iscsi://
  bad-input     garbage, half logins, oversized lengths, wrong digests, many connections
  offload       copies that store nothing, and volumes far larger than the array
  full          a full array: refusals, no loss, space that is released
  snapshots     snapshots, clones and restores, read by a host
  reduction     data reduction of a few MiB of generated data
  lab           published experiments, against an array, against tgt and on two arrays, and the report
  faults        EIO and delays on the system calls of the data path (with strace)
  crash         SIGKILL under a verifying load, in cycles
  encryption    an array encrypted at rest: SIGKILL, and another program that decrypts it
  links         two connected arrays: keys, distance, cuts, SIGKILL, strangers
  pods          a pod on two arrays with a mediator: SIGKILL, SIGSTOP, cuts, a lost mediator, under a verifying load
  pods-admin    administration of such a pod: verification with damage, a full array, an old image, forced promotions
  device        a block device: second servers, mkfs, fsck, other machines (as root, with a loop device)
  esx           ESXi's commands on a simulated host
  datastore     many hosts on one datastore, with random crashes, also through both arrays of a pod
  hosts         commands of several hosts: refusals, kill -9, Ctrl-C, array outages, NBD, and a campaign
  management    py-pure-client: flows, and every call that reads; modules of Ansible, each twice
  console       the web console in a browser
  two-arrays    libiscsi's suite on stretched volumes, by either array and by both
  multipath     a Linux guest with multipath (QEMU): two portals of one array, then two arrays, with faults
  linux         a Linux kernel with open-iscsi and sg3-utils (as root, if a tap device can be made)

Each suite starts arrays of its own on free loopback ports. A table goes to the terminal, all data to DIR/outside.json.
Suites that mostly wait run beside the others unless --one-by-one is given. --full runs the long sizes (make soak).
Without a name, multipath and pods-admin run only with --full: their times need a machine of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit import term
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import paint, say, seconds
from ibid_tests.outside import (
    bad_input,
    conformance,
    console,
    crash,
    datastore,
    device,
    encryption,
    esx,
    faults,
    full,
    hosts,
    lab as laboratory,
    links,
    linux,
    management,
    multipath,
    offload,
    pods,
    pods_admin,
    qemu,
    reduction,
    snapshots,
    two_arrays,
)
from ibid_tests.outside.result import Lab, Result, Skip, where

SUITES = {
    "conformance": conformance.run,
    "qemu": qemu.run,
    "bad-input": bad_input.run,
    "offload": offload.run,
    "full": full.run,
    "snapshots": snapshots.run,
    "reduction": reduction.run,
    "lab": laboratory.run,
    "faults": faults.run,
    "crash": crash.run,
    "encryption": encryption.run,
    "links": links.run,
    "pods": pods.run,
    "pods-admin": pods_admin.run,
    "two-arrays": two_arrays.run,
    "multipath": multipath.run,
    "device": device.run,
    "esx": esx.run,
    "datastore": datastore.run,
    "hosts": hosts.run,
    "management": management.run,
    "linux": linux.run,
    "console": console.run,
}
STYLE = {"pass": "green", "skip": "yellow"}
# A suite with hundreds of tests prints only results other than pass.
TERSE = {"conformance", "two-arrays"}
# Suites that run beside the others: their arrays wait for leases, timeouts, restarts or clients most of the time.
BESIDE = {"faults", "crash", "device", "datastore", "hosts", "management", "pods", "pods-admin", "multipath"}
# Suites that need a machine of their own for their times: with --full, or by name.
APART = {"multipath", "pods-admin"}
PRINTING = threading.Lock()


def run_suite(name: str, lab: Lab) -> list[Result]:
    begin, results = time.monotonic(), []
    try:
        for result in SUITES[name](lab):
            results.append(result)
            show(result)
    except Skip as e:
        results.append(Result(name, "all", "skip", time.monotonic() - begin, str(e)))
        show(results[-1])
    except Exception as e:
        said = str(e) if isinstance(e, Failed) else f"{type(e).__name__}: {e} ({where(e)})"
        results.append(Result(name, "start", "error", time.monotonic() - begin, said))
        show(results[-1])
    if not results:
        results.append(Result(name, "start", "error", time.monotonic() - begin, "the suite tested nothing"))
        show(results[-1])
    counts = ", ".join(f"{n} {status}" for status, n in Counter(r.status for r in results).most_common())
    with PRINTING:
        say(f"          {name:12} {counts} in {seconds(time.monotonic() - begin)}", "bold")
    return results


def run_suites(names: Iterable[str], lab: Lab) -> list[Result]:
    return [result for name in names for result in run_suite(name, lab)]


def show(r: Result) -> None:
    if r.suite in TERSE and r.good:
        return
    mark = paint(f"{r.status:7}", STYLE.get(r.status, "red"))
    line = f"  {mark} {r.suite:12} {r.name:46} {paint(f'{seconds(r.secs):>8}', 'dim')}  {r.detail}".rstrip()
    with PRINTING:
        print(line, flush=True)


def machine() -> dict:
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "kernel": platform.release(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/tests", help="folder for results and scratch files")
    options.add_argument("--full", action="store_true", help="run the long sizes")
    options.add_argument("--one-by-one", action="store_true", help="run one suite after the other")
    args = options.parse_args()
    if unknown := set(args.suites) - set(SUITES):
        options.error(f"no such suite: {', '.join(sorted(unknown))} (there are {', '.join(SUITES)})")

    lab = Lab(args.bin.resolve(), args.out.resolve(), args.full)
    begin, before = time.monotonic(), machine()
    names = args.suites or [name for name in SUITES if args.full or name not in APART]
    if args.one_by_one:
        results = run_suites(names, lab)
    else:
        term.ONE_WRITER = False
        lanes = [[name for name in names if (name in BESIDE) == beside] for beside in (True, False)]
        with ThreadPoolExecutor() as pool:
            results = [result for lane in pool.map(run_suites, lanes, [lab] * len(lanes)) for result in lane]
    lab.out.mkdir(parents=True, exist_ok=True)
    report = {"machine": before, "secs": round(time.monotonic() - begin, 1), "results": [vars(r) for r in results]}
    (lab.out / "outside.json").write_text(json.dumps(report, indent=1) + "\n")

    counts = Counter(r.status if r.status == "pass" else "skip" if r.good else "fail" for r in results)
    say()
    # Again at the end: the log of a CI service may be cut to its last lines.
    for failed in [r for r in results if not r.good][:10]:
        show(failed)
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return 0 if results and not counts["fail"] else 1


if __name__ == "__main__":
    sys.exit(main())
