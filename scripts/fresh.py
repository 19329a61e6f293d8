#!/usr/bin/env python3
"""The first command of the README on minimal systems: `make demo` by a user with sudo, in a chroot of each release.

    scripts/fresh.py [--out DIR] [--setup-only] [RELEASE...]

A release is debian-12, debian-13 or ubuntu-24.04 (default: all). For each, debootstrap makes a minimal system below
DIR; it gets what the README asks for (git, make, sudo), a user, and a clone of this checkout's commit. As this user:

1. `scripts/setup.sh demo` as a dry run names what is missing before anything is compiled.
2. Without sudo, `scripts/setup.sh demo` stops at once and says what to do.
3. `make demo` runs to its end and verifies its results (with --setup-only: `scripts/setup.sh demo` alone).
4. `ibid serve` in a directory of root says what to do.

Needs root, debootstrap and the network; 10 minutes for each release. The network is this machine's, and the chroots
trust the certificates in /usr/local/share/ca-certificates too. All mounts and processes are in namespaces that end
with each step. Exit code 0: every step passed. Logs: DIR/RELEASE.log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.procs import Failed, run
from ibid_tests.kit.term import say, seconds, table

CERTIFICATES = Path("/usr/local/share/ca-certificates")
USER, HOME = "user", "/home/user"
# Runs in its own namespaces: the mounts of a chroot vanish and its processes end with it.
INSIDE = """
set -e
mount --make-rprivate /
mount --rbind /dev "$0/dev"
mount -t proc proc "$0/proc"
mount -t sysfs -o ro sysfs "$0/sys"
exec chroot "$0" "$@"
"""


@dataclass(frozen=True)
class Release:
    name: str
    suite: str
    mirror: str
    components: str
    keyring: Path
    # Of debootstrap, which has none of its own for releases that are newer than itself.
    script: str


DEBIAN = ("http://deb.debian.org/debian", "main", Path("/usr/share/keyrings/debian-archive-keyring.gpg"), "sid")
UBUNTU = (
    "http://archive.ubuntu.com/ubuntu",
    "main,universe",
    Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
    "gutsy",
)
RELEASES = [
    Release("debian-12", "bookworm", *DEBIAN),
    Release("debian-13", "trixie", *DEBIAN),
    Release("ubuntu-24.04", "noble", *UBUNTU),
]


class Machine:
    """A minimal system in a folder."""

    def __init__(self, release: Release, out: Path):
        self.release, self.root = release, out / release.name
        self.log = out / f"{release.name}.log"
        self.log.write_text("")

    def install(self) -> None:
        """Makes the system anew, with what the README asks for."""
        shutil.rmtree(self.root, ignore_errors=True)
        release = self.release
        checked = [f"--keyring={release.keyring}"]
        if not release.keyring.exists():
            say(f"  {release.name}: signatures are not checked, because {release.keyring} is missing", "dim")
            checked = ["--no-check-gpg"]
        components = f"--components={release.components}"
        where = [release.suite, str(self.root), release.mirror, f"/usr/share/debootstrap/scripts/{release.script}"]
        run(["debootstrap", "--variant=minbase", *checked, components, *where], limit=1200)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        trusted = self.root / CERTIFICATES.relative_to("/")
        trusted.mkdir(parents=True, exist_ok=True)
        for certificate in sorted(CERTIFICATES.glob("*.crt")):
            shutil.copy(certificate, trusted)
        self.root_does("apt-get -qq update && apt-get -qq install -y --no-install-recommends git make sudo")
        self.root_does(f"useradd --create-home --shell /bin/bash {USER}")
        self.allow_sudo(True)

    def allow_sudo(self, allowed: bool) -> None:
        rule = self.root / "etc/sudoers.d/user"
        rule.write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n" if allowed else "")
        rule.chmod(0o440)

    def clone(self) -> None:
        bundle = self.root / "tmp/ibid.bundle"
        run(["git", "-C", str(ROOT), "bundle", "create", "--quiet", str(bundle), "HEAD"])
        self.user_does("git clone --quiet /tmp/ibid.bundle ~/ibid", directory=HOME)

    def root_does(self, script: str) -> str:
        return self._run(["/bin/bash", "-c", script], 1200)

    def user_does(self, script: str, limit: float = 600, directory: str = f"{HOME}/ibid") -> str:
        command = f"cd {directory} && {script}"
        return self._run(
            ["/usr/bin/setpriv", "--reuid=1000", "--regid=1000", "--init-groups", "/bin/bash", "-c", command], limit
        )

    def _run(self, command: list[str], limit: float) -> str:
        """Runs a command in the system and returns what it printed. Raises if its exit code is not 0."""
        separate = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        clean = ["env", "-i", f"HOME={HOME}", f"USER={USER}", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
        clean.append("DEBIAN_FRONTEND=noninteractive")
        with self.log.open("a") as log:
            log.write(f"$ {command[-1]}\n")
        done = subprocess.run(
            [*separate, *clean, "/bin/bash", "-c", INSIDE, str(self.root), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
        with self.log.open("a") as log:
            log.write(f"{done.stdout}exit {done.returncode}\n")
        if done.returncode != 0:
            raise Failed(f"{command[-1]}: exit {done.returncode}\n{done.stdout[-1500:]}")
        return done.stdout


def expect_failure(machine: Machine, script: str, *words: str) -> str:
    """Runs a command that must fail with these words."""
    said = machine.user_does(f"! ({script}) 2>&1", limit=60)
    missing = [word for word in words if word not in said]
    if missing:
        raise Failed(f"{script}: does not say {', '.join(missing)}\n{said[-1500:]}")
    return said


def steps(machine: Machine, setup_only: bool):
    """The steps: a title and what runs."""
    yield "system", machine.install
    yield "clone", machine.clone
    yield (
        "dry run",
        lambda: expect_failure(machine, "SETUP_DRY_RUN=1 scripts/setup.sh demo", "build-essential", "python3", "rust"),
    )

    def without_sudo() -> None:
        machine.allow_sudo(False)
        try:
            expect_failure(machine, "scripts/setup.sh demo", "sudo refuses user", "as root: apt-get install")
        finally:
            machine.allow_sudo(True)

    yield "no sudo", without_sudo
    if setup_only:
        yield "setup", lambda: machine.user_does("scripts/setup.sh demo", limit=1200)
        return
    yield "make demo", lambda: machine.user_does("make demo", limit=3600)
    serve = "target/release/ibid serve --data /var/lib/ibid --capacity 1GiB"
    yield "serve", lambda: expect_failure(machine, serve, "/var/lib/ibid", "hint:")


def try_release(machine: Machine, setup_only: bool) -> tuple[bool, list[list[str]]]:
    rows = []
    for title, action in steps(machine, setup_only):
        begin = time.monotonic()
        try:
            action()
        except (Failed, subprocess.TimeoutExpired) as error:
            rows.append([machine.release.name, title, seconds(time.monotonic() - begin), "failed"])
            say(f"{machine.release.name}, {title}: {error}", "red")
            return False, rows
        rows.append([machine.release.name, title, seconds(time.monotonic() - begin), "passed"])
        say(f"  {machine.release.name}: {title} passed")
    shutil.rmtree(machine.root)
    return True, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "target/fresh", help="folder of the systems and logs")
    parser.add_argument("--setup-only", action="store_true", help="install what the demo needs, and compile nothing")
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=", ".join(r.name for r in RELEASES))
    options = parser.parse_args()
    unknown = set(options.releases) - {release.name for release in RELEASES}
    if unknown:
        parser.error(f"no such release: {', '.join(sorted(unknown))}; there are {', '.join(r.name for r in RELEASES)}")
    if os.geteuid() != 0:
        parser.error("a chroot needs root; run: sudo scripts/fresh.py")
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [release for release in RELEASES if not options.releases or release.name in options.releases]
    passed, rows = True, []
    for release in chosen:
        good, more = try_release(Machine(release, options.out.resolve()), options.setup_only)
        passed, rows = passed and good, rows + more
    say(table(["release", "step", "time", "result"], rows, right={2}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
