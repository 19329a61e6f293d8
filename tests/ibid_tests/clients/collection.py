"""Modules of the Ansible collection purestorage.flasharray against one array, each run twice: the second run
changes nothing. Prints one JSON list for each test: name, status, seconds and detail.

collection.py HOST:PORT TOKEN FOLDER

FOLDER contains `ansible_collections`. Ansible runs a module in the same way: as a program whose arguments are JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

LIMIT = 120
SUBSETS = (
    "minimum config performance capacity network subnet interfaces hosts volumes snapshots hgroups pgroups pods admins "
    "vgroups offload apps arrays certs kmip clients policies dir_snaps filesystems alerts virtual_machines subscriptions "
    "realms fleet presets workloads replication"
).split()
# Subsets that fail, because py-pure-client lacks the call.
BEYOND = {"hosts", "hgroups", "pgroups", "pods", "vgroups", "replication"}
IQN = "iqn.1994-05.com.redhat:ansible"
MODULES = "ansible_collections.purestorage.flasharray.plugins.modules."


class Modules:
    def __init__(self, url: str, token: str, folder: str) -> None:
        self.common = {"fa_url": url, "api_token": token, "disable_warnings": True}
        self.environment = {**os.environ, "PYTHONPATH": folder, "PYTHONWARNINGS": "ignore"}

    def run(self, module: str, **arguments) -> dict:
        """Returns the result of a module."""
        given = json.dumps({"ANSIBLE_MODULE_ARGS": {**self.common, **arguments}})
        done = subprocess.run(
            [sys.executable, "-m", MODULES + module],
            input=given,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, f"{module} {arguments}: {done.stderr.strip()[-600:]}"
        return json.loads(lines[-1])

    def succeed(self, module: str, **arguments) -> dict:
        result = self.run(module, **arguments)
        assert not result.get("failed"), f"{module} {arguments}: {result.get('msg')}"
        return result

    def twice(self, module: str, **arguments) -> None:
        """The first run makes a change, and the second finds nothing to change."""
        first = self.succeed(module, **arguments)
        assert first["changed"], f"{module} {arguments}: nothing changed"
        second = self.succeed(module, **arguments)
        assert not second["changed"], f"{module} {arguments}: changed again"

    def info(self, subset: str) -> dict | None:
        """Returns what purefa_info gathers, or nothing if it fails for a subset that is known to fail."""
        try:
            return self.succeed("purefa_info", gather_subset=[subset])["purefa_info"]
        except AssertionError:
            if subset not in BEYOND:
                raise
            return None

    def refuse(self, words: str, module: str, **arguments) -> None:
        result = self.run(module, **arguments)
        assert result.get("failed"), f"{module} {arguments}: not refused"
        assert words in result["msg"], result["msg"]


def volume(ansible: Modules) -> str:
    ansible.twice("purefa_volume", name="avol", size="1G")
    ansible.twice("purefa_volume", name="avol", size="2G")
    ansible.twice("purefa_volume", name="avol", bw_qos="100M", iops_qos="2K", size="2G")
    ansible.twice("purefa_volume", name="gone", size="1G")
    ansible.twice("purefa_volume", name="gone", state="absent")
    ansible.twice("purefa_volume", name="gone", size="1G")
    ansible.twice("purefa_volume", name="gone", state="absent", eradicate=True)
    return "created, resized, limited, destroyed, recovered, eradicated"


def host(ansible: Modules) -> str:
    ansible.twice("purefa_host", name="ahost", iqn=[IQN])
    ansible.twice("purefa_host", name="ahost", personality="esxi")
    ansible.twice("purefa_host", name="ahost", volume="avol")
    ansible.twice("purefa_host", name="ahost", volume="avol", state="absent")
    return "created, personality, connected, disconnected"


def group(ansible: Modules) -> str:
    ansible.twice("purefa_hg", name="agroup")
    ansible.twice("purefa_hg", name="agroup", host=["ahost"])
    ansible.twice("purefa_hg", name="agroup", volume=["avol"])
    ansible.succeed("purefa_hg", name="agroup", volume=["avol"], host=["ahost"], state="absent")
    return "created, host and volume added and removed"


def snapshot(ansible: Modules) -> str:
    ansible.succeed("purefa_snap", name="avol", suffix="one")
    # The module does not look for a snapshot with this suffix before it takes one.
    ansible.refuse("already exists", "purefa_snap", name="avol", suffix="one")
    ansible.succeed("purefa_snap", name="avol", suffix="one", target="aclone", state="copy")
    ansible.twice("purefa_snap", name="avol", suffix="one", target="two", state="rename")
    ansible.twice("purefa_snap", name="avol", suffix="two", state="absent")
    return "taken, copied, renamed, destroyed"


def protection(ansible: Modules) -> str:
    ansible.twice("purefa_pg", name="apg", volume=["avol"])
    ansible.twice(
        "purefa_pgsched",
        name="apg",
        schedule="snapshot",
        enabled=True,
        snap_frequency=300,
        per_day=4,
        days=2,
        all_for=3600,
    )
    ansible.twice("purefa_pgsched", name="apg", schedule="snapshot", enabled=True, snap_frequency=86400, snap_at="3PM")
    ansible.twice("purefa_pgsnap", name="apg", suffix="one")
    ansible.succeed("purefa_pgsnap", name="apg", suffix="one", restore="avol", target="arestored", state="copy")
    ansible.twice("purefa_pgsnap", name="apg", suffix="one", state="absent", eradicate=True)
    # A second run ends in an error of the module, which asks for the status of no answer.
    ansible.succeed("purefa_pgsched", name="apg", schedule="snapshot", state="absent")
    return "group, schedules, snapshot, restored, eradicated; schedule reset"


def volume_group(ansible: Modules) -> str:
    ansible.twice("purefa_vg", name="avg")
    ansible.twice("purefa_volume", name="avg/one", size="1G")
    ansible.twice("purefa_volume", name="two", size="1G")
    ansible.succeed("purefa_volume", name="two", move="avg")
    ansible.succeed("purefa_volume", name="avg/two", move="local")
    ansible.twice("purefa_volume", name="two", state="absent", eradicate=True)
    ansible.twice("purefa_vg", name="avg", bw_qos="100M", iops_qos="2K")
    # The module removes a limit, but refuses 0 if there is none.
    ansible.succeed("purefa_vg", name="avg", bw_qos="0", iops_qos="0")
    ansible.twice("purefa_vg", name="limited", bw_qos="100M")
    ansible.twice("purefa_vg", name="limited", state="absent", eradicate=True)
    ansible.succeed("purefa_vg", name="avg", rename="bvg")
    ansible.twice("purefa_vg", name="bvg", state="absent")
    ansible.twice("purefa_vg", name="bvg")
    ansible.twice("purefa_vg", name="bvg", state="absent", eradicate=True)
    return "created, volumes moved in and out, limited, renamed, destroyed, recovered, eradicated"


def policy(ansible: Modules) -> str:
    rule = {"snap_client_name": "hourly", "snap_every": 60, "snap_keep_for": 1440}
    ansible.twice("purefa_policy", name="apolicy", policy="snapshot", **rule)
    ansible.succeed("purefa_policy", name="gone", policy="snapshot", enabled=False)
    ansible.twice("purefa_policy", name="gone", policy="snapshot", state="absent")
    return "snapshot policies with and without a rule, deleted"


def pod(ansible: Modules) -> str:
    ansible.twice("purefa_pod", name="apod", quota="2G")
    ansible.twice("purefa_volume", name="apod::one", size="1G")
    ansible.succeed("purefa_volume", name="three", size="1G")
    ansible.succeed("purefa_volume", name="three", move="apod")
    ansible.succeed("purefa_vg", name="podvg")
    # Out of a pod, the module moves to groups only: `move=local` reads a field that no array of this dialect has.
    ansible.succeed("purefa_volume", name="apod::three", move="podvg")
    ansible.twice("purefa_vg", name="podvg", state="absent", eradicate=True)
    ansible.twice("purefa_pod", name="apod", quota="3G")
    ansible.refuse("Quota limit reached", "purefa_volume", name="apod::four", size="3G")
    ansible.twice("purefa_pod", name="apod", target="bpod")
    ansible.refuse("is not connected", "purefa_pod", name="apod", stretch="other")
    ansible.refuse("not empty", "purefa_pod", name="apod", state="absent")
    ansible.succeed("purefa_pod", name="apod", state="absent", delete_contents=True)
    # The module does not look for a destroyed pod before it makes a new one, so it never recovers one.
    ansible.refuse("already exists", "purefa_pod", name="apod")
    ansible.twice("purefa_pod", name="apod", state="absent", delete_contents=True, eradicate=True)
    ansible.twice("purefa_pod", name="bpod", state="absent", delete_contents=True, eradicate=True)
    return "created, volumes in it and moved, quota, cloned, destroyed, eradicated; stretch refused"


def info(ansible: Modules) -> str:
    """Each subset alone, because the module ends at the first error. Some subsets call functions that
    py-pure-client has for later versions of REST only, whatever the array answers."""
    beyond, found = [], {}
    for subset in SUBSETS:
        result = ansible.info(subset)
        if result is None:
            beyond.append(subset)
        else:
            found[subset] = result
    assert "avol" in found["volumes"]["volumes"] and "avol.two" in found["snapshots"]["deleted_snapshots"]
    assert not set(found) & BEYOND and set(beyond) == BEYOND, beyond
    return f"{len(found)} subsets; beyond REST 2.26: {', '.join(beyond)}"


def removal(ansible: Modules) -> str:
    ansible.twice("purefa_pg", name="apg", state="absent", eradicate=True)
    ansible.twice("purefa_policy", name="apolicy", policy="snapshot", state="absent")
    ansible.succeed("purefa_hg", name="agroup", state="absent")
    ansible.twice("purefa_host", name="ahost", state="absent")
    for name in ("avol", "aclone", "arestored"):
        ansible.twice("purefa_volume", name=name, state="absent", eradicate=True)
    return "everything removed"


TESTS: list[Callable] = [volume, host, group, volume_group, snapshot, protection, policy, pod, info, removal]


def main() -> int:
    ansible = Modules(*sys.argv[1:4])
    for test in TESTS:
        begin = time.monotonic()
        try:
            status, detail = "pass", test(ansible)
        except (AssertionError, KeyError, subprocess.TimeoutExpired) as error:
            status, detail = "fail", f"{type(error).__name__}: {error}"[:1500]
        print(json.dumps([f"ansible {test.__name__}", status, time.monotonic() - begin, detail]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
