"""A simulated ESXi host with a path to each of two arrays, and the paths that it uses."""

from __future__ import annotations

import json

from ibid_tests.kit.array import Array
from ibid_tests.kit.pair import Pair
from ibid_tests.outside.esx import Esx
from ibid_tests.outside.result import Lab


class Near:
    """The host. Every call is a process, which logs in at both arrays."""

    NAME = "esx01"

    def __init__(self, lab: Lab, pair: Pair):
        self.pair, self.home = pair, pair.dir / "hosts"
        self.esx = Esx(lab, str(self.home))

    def connect(self, volume: str) -> None:
        for array in self.pair.arrays:
            array.admin("host", "create", self.NAME, "--iqn", f"iqn.2026-11.org.ibid:{self.NAME}")
            array.admin("host", "connect", self.NAME, volume, "--lun", "1")
        self.esx.esxcli("iscsi adapter set --ports 1")
        devices = {self.esx.run("claim", f"iscsi://127.0.0.1:{array.ports[0]}") for array in self.pair.arrays}
        assert len(devices) == 1, devices

    def prefer(self, *arrays: Array) -> None:
        """Sets the preferred arrays at both arrays, and checks the states that the host sees."""
        for array in self.pair.arrays:
            array.admin("host", "prefer", self.NAME, *([self.pair.name(a) for a in arrays] or ["--none"]))
        listed = self.esx.esxcli("--formatter json storage nmp path list")
        seen = {path["StorageArrayTypePathConfig"] for path in json.loads(listed)}
        states = ["ANO" if arrays and array not in arrays else "AO" for array in self.pair.arrays]
        assert seen == {f"{{TPG_id={n},TPG_state={state}}}" for n, state in enumerate(states, 1)}, seen

    def reads(self) -> list[int]:
        """Reads the device, and returns the number of reads that alpha and beta got."""
        before = self.counted()
        for _ in range(4):
            self.esx.esxcli("storage vmfs extent list")
        listed = json.loads(self.esx.esxcli("--formatter json storage core path list"))
        after = self.counted()

        def of(array: Array) -> int:
            portal = f"Portal=127.0.0.1:{array.ports[0]}"
            names = [path["RuntimeName"] for path in listed if path["TargetTransportDetails"].endswith(portal)]
            return sum(after.get(name, 0) - before.get(name, 0) for name in names)

        return [of(array) for array in self.pair.arrays]

    def counted(self) -> dict[str, int]:
        """The reads by path, of all processes that have ended."""
        found = self.home / self.NAME / "stats/total.json"
        return {name: path["reads"] for name, path in json.loads(found.read_text())["paths"].items()}

    def close(self, volume: str) -> None:
        for array in self.pair.arrays:
            array.admin("host", "disconnect", self.NAME, volume)
            array.admin("host", "delete", self.NAME)
