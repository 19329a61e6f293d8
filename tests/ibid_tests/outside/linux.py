"""A Linux kernel as the host: user-mode Linux, open-iscsi, file systems and sg3-utils, all from Debian's packages.

The kernel runs as a process; its root is a folder of unpacked packages below the build folder, so nothing is installed.
Root is needed for the tap device only; without one the suite is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit import packages
from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, Process, run as run_command
from ibid_tests.kit.relay import Relay
from ibid_tests.outside.result import Lab, Result, Skip

SUITE = "linux"
HERE = Path(__file__).parent / "guest"
WANTED = [
    "user-mode-linux",
    "open-iscsi",
    "sg3-utils",
    "ddpt",
    "e2fsprogs",
    "xfsprogs",
    "util-linux",
    "mount",
    "kmod",
    "iproute2",
    "bash",
    "coreutils",
    "diffutils",
    "grep",
    "sed",
]
GUEST_SECONDS = 300
MEMORY = 384


def why_not() -> str:
    """The reason why this machine cannot run the guest, or None."""
    if os.uname().machine != "x86_64":
        return "Debian has user-mode Linux for x86_64 only"
    if os.geteuid() != 0:
        return "a tap device needs root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    if not shutil.which("apt-get"):
        return "the guest is made of Debian's packages, and there is no apt-get here"
    return ""


def build(cache: Path) -> Path:
    """The guest's root folder; created once."""
    root, done = cache / "root", cache / ".done"
    recipe = " ".join(WANTED)
    if done.exists() and done.read_text() == recipe:
        return root
    shutil.rmtree(cache, ignore_errors=True)
    try:
        packages.system(WANTED, cache, f"({packages.UNWANTED}|udev)")
    except Failed as e:
        raise Skip(str(e)) from None
    for folder in ("etc/iscsi", "var/lib/iscsi", "usr/share/guest"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(root / "etc/iscsi/iscsid.conf", root / "usr/share/guest/iscsid.conf")
    link_modules(root)
    run_command(["cc", "-O2", "-shared", "-fPIC", "-o", str(root / "xstate.so"), str(HERE / "xstate.c")])
    done.write_text(recipe)
    return root


def link_modules(root: Path) -> None:
    """Links the modules of the user-mode kernel, which are in another folder, to /lib/modules."""
    (root / "usr/lib/modules").mkdir(exist_ok=True)
    for version in (root / "usr/lib/uml/modules").iterdir():
        (root / "usr/lib/modules" / version.name).symlink_to(f"../uml/modules/{version.name}")
        run_command(["chroot", str(root), "/sbin/depmod", version.name])


@contextlib.contextmanager
def tap() -> Iterator[tuple[str, str]]:
    """Creates a tap device; returns its name and the number in both ends' addresses."""
    number = os.getpid() % 250 + 1
    name = f"ibidtap{number}"
    made = run_command(["ip", "tuntap", "add", "dev", name, "mode", "tap"], check=False)
    if made.returncode != 0:
        raise Skip(f"no tap device can be made here: {made.stderr.strip()}")
    try:
        run_command(["ip", "addr", "add", f"10.77.{number}.1/30", "dev", name])
        run_command(["ip", "link", "set", name, "up"])
        yield name, f"10.77.{number}"
    finally:
        run_command(["ip", "link", "del", name], check=False)


def boot(root: Path, lab: Lab, array: Array) -> str:
    """Runs the checks of this suite in the guest, which logs in to the array; returns its console output."""
    with tap() as (device, network), Relay(f"{network}.1", array.ports[0]) as relay:
        words = [f"address={network}.2/30", f"portal={network}.1:{relay.port}", f"iqn={array.iqn}"]
        return run_guest(root, lab.scratch("linux"), device, words, (HERE / "checks.sh").read_text())


def run_guest(root: Path, scratch: Path, device: str, words: list[str], checks: str) -> str:
    """Runs the guest to its end, with the parameters of init.sh; returns its console output."""
    shutil.copy(HERE / "init.sh", root / "usr/share/guest/init.sh")
    (root / "usr/share/guest/checks.sh").write_text(checks)
    console = scratch / "console.log"
    console.unlink(missing_ok=True)
    # The guest's memory is a file; use a memory file system if it has space.
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and shutil.disk_usage(shm).free > (MEMORY + 64) << 20
    command = [
        str(root / "usr/bin/linux.uml"),
        f"mem={MEMORY}M",
        "rootfstype=hostfs",
        f"rootflags={root}",
        "root=none",
        "ro",
        "init=/usr/share/guest/init.sh",
        "con0=null,fd:1",
        "con=null",
        "ssl=null",
        "quiet",
        "loglevel=4",
        "panic=-1",
        f"vec0:transport=tap,ifname={device},depth=128,gro=1",
        *words,
        "checks=checks.sh",
    ]
    env = {"TMPDIR": str(shm if roomy else scratch), "LD_PRELOAD": str(root / "xstate.so")}
    with Process(command, console, env) as guest:
        with contextlib.suppress(subprocess.TimeoutExpired):
            guest.child.wait(GUEST_SECONDS)
        # Its helper processes are in its session; end all of them.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guest.pid, 9)
    return console.read_text(errors="replace").replace("\r", "")


def results(said: str, checks: str, suite: str = SUITE) -> Iterator[Result]:
    """The console's `@@begin NAME ... @@end RC NOW BEGUN`, as results. A section without an end was cut off with the guest."""
    planned = re.findall(r"^## (.*)$", checks, re.M)
    seen = set()
    for part in said.split("@@begin ")[1:]:
        name, _, rest = part.partition("\n")
        body, end, tail = rest.partition("@@end ")
        lines = [line for line in body.strip().splitlines() if line.strip()]
        seen.add(name)
        if not end:
            yield Result(
                suite,
                name,
                "crash",
                0,
                f"the guest ended or hung in this section: {' / '.join(lines[-3:])}",
                {"output": body},
            )
            continue
        rc, now, begun = tail.split()[:3]
        status = "pass" if rc == "0" else "fail"
        detail = (lines[-1] if lines else "")[:110] if status == "pass" else f"exit {rc}: {' / '.join(lines[-4:])}"
        yield Result(
            suite, name, status, float(now) - float(begun), detail, {"output": body} if status == "fail" else {}
        )
    if not seen:
        yield Result(suite, "boot", "error", 0, f"no result from the guest: {said[-500:]}")
    for name in planned:
        if name not in seen:
            yield Result(suite, name, "error", 0, "the guest did not get that far")


def run(lab: Lab) -> Iterator[Result]:
    if reason := why_not():
        raise Skip(reason)
    root = build(lab.out.parent / "guest")
    with Array(lab.bin, portals=1, base=lab.scratch("arrays")) as array:
        array.start()
        for lun in (1, 2):
            array.volume(f"linux-{lun}", "1GiB", lun)
        yield from results(boot(root, lab, array), (HERE / "checks.sh").read_text())
        if not array.process.alive():
            raise Failed(f"the array died:\n{array.process.tail()}")
