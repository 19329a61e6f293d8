"""The web console in a real browser (playwright-core with Debian's chromium): tasks by mouse and keyboard, other origins,
layout and accessibility of every page. The checks are web/browser/*.mjs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.pair import Pair
from ibid_tests.kit.procs import Failed, free_ports
from ibid_tests.outside import linux
from ibid_tests.outside.result import Lab, Result, Skip

SUITE = "console"
WEB = Path(__file__).resolve().parents[3] / "web"
NODE = Path(os.environ.get("CARGO_TARGET_DIR", WEB.parent / "target")) / "node" / "bin" / "node"
LIMIT_SECS = 600
# Bytes that cross the link slowly enough to see their progress.
CONTENT = 48 << 20
# Names of the browser in distributions.
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


def run(lab: Lab) -> Iterator[Result]:
    browser = next((path for name in BROWSERS if (path := which(name))), None)
    node = str(NODE) if NODE.exists() else which("node")
    if not browser:
        yield Result(SUITE, "browser", "skip", detail="no Chromium: apt-get install chromium")
        return
    if not node or not (WEB / "node_modules").exists():
        raise Failed("the suite needs Node and its libraries: scripts/setup.sh test console")
    (port,) = free_ports(1)
    beta = ["--name", "beta", "--number", "2", "--link", f"127.0.0.1:{port}"]
    with (
        Array(lab.bin, base=lab.scratch("arrays")) as array,
        Array(lab.bin, capacity="1GiB", portals=1, args=beta, base=lab.scratch("arrays")) as peer,
    ):
        array.start()
        peer.start()
        yield from in_browser(lab, node, browser, array, peer=peer)
    yield from on_two_arrays(lab, node, browser)
    yield from as_printed(lab, node, browser)


def in_browser(
    lab: Lab,
    node: str,
    browser: str,
    array: Array,
    *names: str,
    peer: Array | None = None,
    mediator: str = "",
) -> Iterator[Result]:
    """Runs the checks with these names, or all of an array that is new. `peer` listens for connections of other arrays."""
    environment = {
        **os.environ,
        "IBID_DATA": str(array.data),
        "IBID_PEER": str(peer.data) if peer else "",
        "IBID_PEER_PID": str(peer.process.pid) if peer else "",
        "IBID_MEDIATOR": mediator,
        "IBID_PID": str(array.process.pid),
        "IBID_OUT": str(lab.scratch("console").resolve()),
        "IBID_HOST": str(lab.bin / "ibid-host"),
        "CHROMIUM": browser,
    }
    command = [node, "browser/run.mjs", *names]
    with subprocess.Popen(command, cwd=WEB, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            result = json.loads(line)
            yield Result(SUITE, result["name"], result["status"], result["secs"], result["detail"])
        if process.wait(LIMIT_SECS) != 0:
            yield Result(SUITE, "browser", "error", detail=f"node ended with {process.returncode}")


def on_two_arrays(lab: Lab, node: str, browser: str) -> Iterator[Result]:
    """A pod with content comes to a second array and leaves it again, from the pages of both arrays."""
    with Pair(lab.bin, lab.scratch("arrays")) as pair:
        pair.start().create("64MiB")
        Host(lab.bin).verb("fill", pair.url(pair.alpha), "--size", str(CONTENT), "--seed", "1")
        names = {"peer": pair.beta, "mediator": pair.mediator_address}
        yield from in_browser(lab, node, browser, pair.alpha, "a pod on two arrays", **names)


def as_printed(lab: Lab, node: str, browser: str) -> Iterator[Result]:
    """A Linux host mounts a new volume with the commands of the first page, word for word."""
    name = "a Linux host by the commands of the console"
    if reason := linux.why_not():
        yield Result(SUITE, name, "skip", detail=reason)
        return
    try:
        root = linux.build(lab.out.parent / "guest")
        with (
            linux.tap() as (device, network),
            Array(lab.bin, portals=1, address=f"{network}.1", base=lab.scratch("arrays")) as array,
        ):
            array.start()
            yield from in_browser(lab, node, browser, array, "commands for a Linux host")
            printed = json.loads((lab.scratch("console") / "commands.json").read_text())
            checks = CHECKS.format(**printed)
            words = [f"address={network}.2/30"]
            said = linux.run_guest(root, lab.scratch("console"), device, words, checks)
            yield from linux.results(said, checks, SUITE)
            yield from in_browser(lab, node, browser, array, "after the first write")
    except Skip as skipped:
        yield Result(SUITE, name, "skip", detail=str(skipped))


# The guest has open-iscsi, but no udev, which names disks by their identity.
CHECKS = """## the name of the initiator, as printed
apt() {{ :; }}
{find}
## log in, as printed
{log_in}
for _ in $(seq 100); do [ -e /dev/sda ] && break; sleep 0.1; done
mkdir -p /run/by-id
for disk in /sys/block/sd*; do
  wwid=$(cat $disk/device/wwid)
  ln -sf /dev/${{disk##*/}} /run/by-id/wwn-0x${{wwid#naa.}}
done
ls /run/by-id
## make a file system and mount it, as printed
mkdir -p /dev/disk && ln -sfn /run/by-id /dev/disk/by-id
{after}
echo written >/mnt/ibid/file && sync
umount /mnt/ibid && mount /run/by-id/* /mnt/ibid
[ "$(cat /mnt/ibid/file)" = written ] && df /mnt/ibid | tail -n 1
umount /mnt/ibid
"""
