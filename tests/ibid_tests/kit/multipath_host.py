"""The guest as a host of arrays: open-iscsi and multipath-tools with the settings of the guide for two arrays."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .guest import GATEWAY, Guest
from .procs import Failed

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/two-arrays.md"
"""The first volume, joined from its paths by the guest."""
DEVICE = "/dev/mapper/mpatha"
"""Seconds until paths are as expected: reconnecting a session takes some tries, and the checker runs at intervals."""
LIMIT = 90.0


@dataclass
class HostPath:
    """A path of the guest: its disk, its state in the map and for the checker, its priority, and the array's port."""

    disk: str
    map_state: str
    checked: str
    priority: int
    port: int

    @property
    def is_used(self) -> bool:
        return (self.map_state, self.checked) == ("active", "ready")


def guide_settings() -> tuple[str, dict[str, str]]:
    """The `multipath.conf`, and the settings of the initiator, as the guide has them."""
    section = GUIDE.read_text().partition("\n## Linux\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    conf = [block for block in blocks if "devices {" in block]
    settings = dict(re.findall(r"^(node\.\S+) = (\S+)$", section, re.M))
    if len(conf) != 1 or len(settings) < 3:
        raise Failed(f"{GUIDE.name} has no settings for Linux")
    return conf[0], settings


class MultipathHost:
    """Logins and paths of the guest."""

    def __init__(self, guest: Guest):
        self.guest = guest

    def start(self) -> MultipathHost:
        conf, self.settings = guide_settings()
        self.guest.write("/etc/multipath.conf", conf)
        self.guest.run(
            "multipathd && for n in $(seq 100); do multipathd show status >/dev/null && exit; sleep 0.1; done"
        )
        return self

    def login(self, iqn: str, port: int) -> None:
        node = f"iscsiadm -m node -T {iqn} -p {GATEWAY}:{port}"
        updates = [f"{node} -o update -n '{name}' -v {value}" for name, value in self.settings.items()]
        self.guest.run("\n".join(["set -e", f"{node} -o new", *updates, f"{node} --login", "udevadm settle"]))

    def logout(self) -> None:
        """Ends all sessions, and removes the disk."""
        self.guest.run(
            """multipathd disablequeueing maps; multipath -F; iscsiadm -m node --logoutall=all; iscsiadm -m node -o delete
            rm -f /etc/multipath/bindings; multipathd reconfigure"""
        )

    def paths(self) -> dict[int, HostPath]:
        """The paths of all volumes by the port of the array. A volume of one LUN has one path for each port."""
        said = self.guest.run(
            """for disk in /sys/block/sd*; do
                session=$(readlink -f $disk | grep -o 'session[0-9]*')
                connection=$(ls -d /sys/class/iscsi_session/$session/device/connection*)
                echo "@${disk##*/} $(cat $connection/iscsi_connection/*/persistent_port)"
            done
            multipathd show paths raw format '=%d %t %T %p'"""
        )
        ports = {disk: int(port) for disk, port in re.findall(r"^@(\w+) (\d+)$", said, re.M)}
        found = re.findall(r"^=(\w+) (\w+) (\w+) (-?\d+)$", said, re.M)
        return {
            ports[disk]: HostPath(disk, *states, int(prio), ports[disk])
            for disk, *states, prio in found
            if disk in ports
        }

    def wait(self, what: str, is_so: Callable[[dict[int, HostPath]], bool], limit: float = LIMIT) -> float:
        """Waits until the paths are so; returns the seconds."""
        begin = time.monotonic()
        while not is_so(found := self.paths()):
            if time.monotonic() > begin + limit:
                raise Failed(f"the guest's paths are not {what} within {limit:.0f} s: {list(found.values())}")
            time.sleep(0.3)
        return time.monotonic() - begin

    def wait_used(self, *ports: int) -> float:
        """Waits until the guest uses the paths to exactly these ports."""
        wanted = set(ports)
        return self.wait(
            f"used to the ports {wanted}", lambda paths: {n for n, path in paths.items() if path.is_used} == wanted
        )

    def size(self) -> int:
        return int(self.guest.run(f"blockdev --getsize64 {DEVICE}"))

    def rescan(self) -> None:
        """Looks at all volumes again, as an administrator does after a change of size."""
        self.guest.run(f"iscsiadm -m session --rescan >/dev/null && multipathd resize map {Path(DEVICE).name}")
